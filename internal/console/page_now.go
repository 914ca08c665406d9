package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/internal/auth"
)

var nowPages = []page{{path: "/", nav: "now", title: "Now", role: auth.RoleViewer, get: showNow}}

// overview is what GET /overview says.
type overview struct {
	Tasks  []stateCount `json:"tasks"`
	Agents []struct {
		Agent  string       `json:"agent"`
		Count  int          `json:"count"`
		States []stateCount `json:"states"`
	} `json:"agents"`
	Waiting []struct {
		Task     string   `json:"task"`
		Agent    string   `json:"agent"`
		State    string   `json:"state"`
		Ref      string   `json:"ref"`
		WaitsFor waitsFor `json:"waits_for"`
	} `json:"waiting"`
	Inbox *struct {
		Open    int `json:"open"`
		Overdue int `json:"overdue"`
		Kinds   []struct {
			Kind   string    `json:"kind"`
			Count  int       `json:"count"`
			Oldest time.Time `json:"oldest"`
		} `json:"kinds"`
	} `json:"inbox"`
	Delegations []struct {
		To     string       `json:"to"`
		Peer   bool         `json:"peer"`
		Open   int          `json:"open"`
		States []stateCount `json:"states"`
	} `json:"delegations"`
	Rates  rates `json:"rates"`
	Failed []struct {
		Task  string    `json:"task"`
		Agent string    `json:"agent"`
		State string    `json:"state"`
		At    time.Time `json:"at"`
		Text  string    `json:"text"`
		Ref   string    `json:"ref"`
	} `json:"failed"`
	Pushes *struct {
		Retrying int       `json:"retrying"`
		Dead     int       `json:"dead"`
		Oldest   time.Time `json:"oldest"`
	} `json:"pushes"`
	Down []struct {
		Kind  string    `json:"kind"`
		Name  string    `json:"name"`
		Since time.Time `json:"since"`
		Error string    `json:"error"`
	} `json:"down"`
}

// rates are counts per minute, the oldest first.
type rates struct {
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Created   []int     `json:"created"`
	Completed []int     `json:"completed"`
	Failed    []int     `json:"failed"`
}

// Whole reports whether all of the last hour is counted.
func (r *rates) Whole() bool { return r.Until.Sub(r.Since) >= time.Hour }

// stateCount is how many are in a state, and since when the oldest is.
type stateCount struct {
	State  string    `json:"state"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest"`
}

// tile is the number of tasks in a state.
type tile struct {
	stateCount

	Open bool // the state is not terminal
}

// openStates and endStates are what the page always counts.
var (
	openStates = []string{"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}
	endStates  = []string{"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED"}
)

type nowPage struct {
	overview

	Summary string
	Tiles   []tile
	Rows    []rate
}

// openItems is how many items of the inbox are open.
func (d *nowPage) openItems() *int {
	if d.Inbox == nil {
		return nil
	}
	return &d.Inbox.Open
}

func showNow(v *view) error {
	var d nowPage
	if err := v.get("/overview", &d.overview); err != nil {
		return err
	}
	d.Tiles = tilesOf(d.Tasks)
	d.Summary = d.summary()
	d.Rows = d.rates()
	return v.render("now", &d)
}

func tilesOf(counts []stateCount) []tile {
	tiles := make([]tile, 0, len(openStates)+len(endStates))
	for _, state := range slices.Concat(openStates, endStates) {
		t := tile{stateCount: stateCount{State: state}, Open: slices.Contains(openStates, state)}
		for _, c := range counts {
			if c.State == state {
				t.stateCount = c
			}
		}
		tiles = append(tiles, t)
	}
	return tiles
}

func (d *nowPage) count(state string) int {
	for _, c := range d.Tasks {
		if c.State == state {
			return c.Count
		}
	}
	return 0
}

// people is how much waits for people. A question that has come up from a delegation
// to the root of its tree is one, so that the inbox is asked, and not the tasks.
func (d *nowPage) people() (n int) {
	if d.Inbox == nil {
		return d.count("TASK_STATE_INPUT_REQUIRED") + d.count("TASK_STATE_AUTH_REQUIRED")
	}
	for _, k := range d.Inbox.Kinds {
		if k.Kind == "question" || k.Kind == "grant" {
			n += k.Count
		}
	}
	return n
}

// summary says in a sentence how things are.
func (d *nowPage) summary() string {
	var parts []string
	people := d.people()
	if n := d.count("TASK_STATE_WORKING") + d.count("TASK_STATE_SUBMITTED"); n > 0 {
		parts = append(parts, plural(n, "task is", "tasks are")+" at work")
	}
	if people > 0 {
		parts = append(parts, plural(people, "waits", "wait")+" for people")
	}
	failed := 0
	for _, n := range d.Rates.Failed {
		failed += n
	}
	if failed > 0 {
		parts = append(parts, number(failed)+" failed in the last hour")
	}
	if n := len(d.Down); n > 0 {
		parts = append(parts, plural(n, "connection is", "connections are")+" down")
	}
	if len(parts) == 0 {
		return "All quiet: nothing is at work, and nothing waits for anybody."
	}
	return strings.Join(parts, ", ") + "."
}

// Bounds of what is drawn, in the units of the drawing.
const (
	drawnWidth  = 240
	drawnHeight = 36
)

// rate is a count per minute, with its drawing.
type rate struct {
	Name, Key string
	Total     int
	Peak      int
	Bars      string // the d of a path
	Words     string // for whom the drawing says nothing
}

// rates draws the counts of the last hour to one scale, so that they can be
// compared.
func (d *nowPage) rates() []rate {
	r := &d.Rates
	most := 1
	for _, list := range [][]int{r.Created, r.Completed, r.Failed} {
		for _, n := range list {
			most = max(most, n)
		}
	}
	return []rate{
		rateOf("Begun", "working", r.Created, most), rateOf("Completed", "completed", r.Completed, most), rateOf("Failed", "failed", r.Failed, most),
	}
}

func rateOf(name, key string, counts []int, most int) rate {
	r := rate{Name: name, Key: key}
	var b strings.Builder
	width := float64(drawnWidth) / float64(max(len(counts), 1))
	for i, n := range counts {
		r.Total += n
		r.Peak = max(r.Peak, n)
		if n > 0 {
			height := max(float64(n)/float64(most)*(drawnHeight-1), 2)
			fmt.Fprintf(&b, "M%s %dv-%sh%sv%sz", coordinate(float64(i)*width+0.4), drawnHeight, coordinate(height), coordinate(width-0.8), coordinate(height))
		}
	}
	r.Bars = b.String()
	r.Words = fmt.Sprintf("%s: %s in the last hour, at most %d in a minute", name, number(r.Total), r.Peak)
	return r
}
