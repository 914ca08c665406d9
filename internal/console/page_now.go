package console

import (
	"time"

	"handoff.example/handoff/internal/auth"
)

var nowPages = []page{{path: "/", nav: "now", title: "Now", role: auth.RoleViewer, get: showNow}}

// overview is what GET /overview says, as far as it is shown.
type overview struct {
	At     time.Time    `json:"at"`
	Tasks  []stateCount `json:"tasks"`
	Agents []struct {
		Agent  string       `json:"agent"`
		Count  int          `json:"count"`
		States []stateCount `json:"states"`
	} `json:"agents"`
}

// stateCount is how many are in a state, and since when the oldest is.
type stateCount struct {
	State  string    `json:"state"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest"`
}

// recent is a task in a list.
type recent struct {
	Agent string `json:"agent"`
	Task  struct {
		ID     string `json:"id"`
		Status struct {
			State     string    `json:"state"`
			Timestamp time.Time `json:"timestamp"`
		} `json:"status"`
	} `json:"task"`
}

func showNow(v *view) error {
	var d struct {
		Tasks []recent `json:"tasks"`
	}
	if err := v.get("/tasks?page_size=20", &d); err != nil {
		return err
	}
	return v.render("now", &d)
}
