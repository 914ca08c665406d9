package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/internal/console/timeline"
)

// taskTimeline is what happened to a task, as the API has it.
type taskTimeline struct {
	From      time.Time      `json:"from"`
	To        time.Time      `json:"to"`
	Open      bool           `json:"open"`
	Items     []timelineItem `json:"items"`
	Waits     []waitSum      `json:"waits"`
	TotalMS   int64          `json:"total_ms"`
	WorkingMS int64          `json:"working_ms"`
	WaitingMS int64          `json:"waiting_ms"`
	Truncated bool           `json:"truncated"`
}

// timeline asks the API for what happened to a task. That a worker was free at
// once is no wait.
func (v *view) timeline(id string) (*taskTimeline, error) {
	t := &taskTimeline{}
	if err := v.get("/tasks/"+url.PathEscape(id)+"/timeline", t); err != nil {
		return nil, err
	}
	t.Waits = slices.DeleteFunc(t.Waits, func(w waitSum) bool { return w.Kind == "worker" && w.MS < 100 && !w.Open })
	t.Items = slices.DeleteFunc(t.Items, func(i timelineItem) bool {
		return i.Kind == "wait" && i.Wait == "worker" && !i.Open && i.End.Sub(i.Start) < 100*time.Millisecond
	})
	return t, nil
}

// timelineItem is a span or a mark.
type timelineItem struct {
	Kind     string    `json:"kind"`
	Title    string    `json:"title"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Open     bool      `json:"open"`
	Who      string    `json:"who"`
	Detail   string    `json:"detail"`
	By       string    `json:"by"`
	Outcome  string    `json:"outcome"`
	State    string    `json:"state"`
	Wait     string    `json:"wait"`
	Turn     int       `json:"turn"`
	Attempt  int       `json:"attempt"`
	Attempts int       `json:"attempts"`
	Seq      int64     `json:"seq"`
	Task     string    `json:"task"`
	Item     string    `json:"item"`
	Peer     bool      `json:"peer"`
	Ref      string    `json:"ref"`
	Cost     *struct {
		Model        string  `json:"model"`
		InputTokens  int64   `json:"input_tokens"`
		OutputTokens int64   `json:"output_tokens"`
		USD          float64 `json:"usd"`
	} `json:"cost"`
}

// waitSum is how long somebody was waited for in all.
type waitSum struct {
	Kind  string `json:"kind"`
	Who   string `json:"who"`
	Count int    `json:"count"`
	MS    int64  `json:"ms"`
	Open  bool   `json:"open"`
}

// Person reports whether it was up to a person.
func (s *waitSum) Person() bool { return s.Kind == "answer" || s.Kind == "grant" }

// Within reports whether some waits were part of others: a person was waited for
// while the agent was that has asked.
func (t *taskTimeline) Within() bool {
	all, agents := int64(0), false
	for i := range t.Waits {
		all += t.Waits[i].MS
		agents = agents || t.Waits[i].Kind == "peer" || t.Waits[i].Kind == "task"
	}
	return agents && all > t.WaitingMS+t.WaitingMS/100
}

// Whom names who or what was waited for.
func (s *waitSum) Whom() string { return waitedFor(s.Kind, s.Who) }

// Length is how long it was, for people.
func (s *waitSum) Length() string { return milliseconds(s.MS) }

func milliseconds(ms int64) string { return timeline.Length(time.Duration(ms) * time.Millisecond) }

// Total, Working and Waiting are lengths of time for people.
func (t *taskTimeline) Total() string { return milliseconds(t.TotalMS) }

// Working is how long the task was worked on.
func (t *taskTimeline) Working() string { return milliseconds(t.WorkingMS) }

// Waiting is how long it waited for others.
func (t *taskTimeline) Waiting() string { return milliseconds(t.WaitingMS) }

// Whom names who or what a wait is for.
func (i *timelineItem) Whom() string { return waitedFor(i.Wait, i.Who) }

// Length is how long it took; "" for a mark.
func (i *timelineItem) Length(now time.Time) string {
	switch {
	case i.Open:
		return timeline.Length(now.Sub(i.Start))
	case i.End.IsZero():
		return ""
	}
	return timeline.Length(i.End.Sub(i.Start))
}

// Says is what there is to say besides the title.
func (i *timelineItem) Says() string {
	var words []string
	add := func(s string) {
		if s != "" {
			words = append(words, s)
		}
	}
	add(i.Detail)
	if i.Ref != "" {
		add("ref " + i.Ref)
	}
	if i.Attempt > 1 {
		add(fmt.Sprintf("attempt %d", i.Attempt))
	}
	if i.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", i.Attempts))
	}
	switch {
	case i.Outcome != "" && i.By != "":
		add(i.Outcome + " by " + i.By)
	case i.By != "":
		add("by " + i.By)
	default:
		add(i.Outcome)
	}
	if c := i.Cost; c != nil {
		add(fmt.Sprintf("%s tokens in, %s out", number(int(c.InputTokens)), number(int(c.OutputTokens))))
		if c.USD > 0 {
			add(fmt.Sprintf("$%.4f", c.USD))
		}
	}
	return strings.Join(words, "; ")
}

// Href is the page of what an item is about; "" for none.
func (i *timelineItem) Href() string {
	switch {
	case i.Item != "":
		return "/console/inbox/" + url.PathEscape(i.Item)
	case i.Task != "":
		return "/console/tasks/" + url.PathEscape(i.Task)
	}
	return ""
}

// timelineLanes are the lanes from top to bottom: the kinds of items in each.
var timelineLanes = []struct{ kind, name, word string }{
	{"task", "State", "state"},
	{"message", "Messages", "message"},
	{"turn", "Turns", "turn"},
	{"step", "Steps", "step"},
	{"wait", "Waits", "wait"},
	{"delegation", "Delegations", "delegation"},
	{"tool", "Tools", "tool call"},
	{"model", "Models", "model call"},
	{"push", "Webhooks", "webhook"},
	{"audit", "People", "action"},
}

func laneOf(kind string) int {
	for n := range timelineLanes {
		if timelineLanes[n].kind == kind {
			return n
		}
	}
	return len(timelineLanes)
}

// Word is the kind for people.
func (i *timelineItem) Word() string {
	if n := laneOf(i.Kind); n < len(timelineLanes) {
		return timelineLanes[n].word
	}
	return i.Kind
}

// drawnTimeline is a timeline as a picture and as a table.
type drawnTimeline struct {
	*taskTimeline
	*timeline.Picture
	Shapes   []drawnShape
	From, To time.Time
	Now      time.Time
}

// drawnShape is a shape of the picture with what it stands for.
type drawnShape struct {
	timeline.Shape
	Kind  string
	Href  string
	Title string // of all that it stands for, for a tooltip
	Lane  string
}

// drawTimeline lays out a timeline as it is now.
func drawTimeline(t *taskTimeline, now time.Time) *drawnTimeline {
	// A message and a webhook need no lane of their own to be read in the order of
	// the table, but in the picture those of a kind stand together.
	order := make([]int, len(t.Items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(laneOf(t.Items[a].Kind), laneOf(t.Items[b].Kind)) })
	items := make([]timeline.Item, len(order))
	for n, i := range order {
		item := &t.Items[i]
		items[n] = timeline.Item{Label: labelOf(item, now), Start: item.Start, End: item.End, Open: item.Open, Lane: "Other"}
		if lane := laneOf(item.Kind); lane < len(timelineLanes) {
			items[n].Lane = timelineLanes[lane].name
		}
	}
	d := &drawnTimeline{taskTimeline: t, Picture: timeline.Draw(items, now), From: t.From, To: t.To, Now: now}
	for _, lane := range d.Lanes {
		for _, shape := range lane.Shapes {
			first := &t.Items[order[shape.Items[0]]]
			s := drawnShape{Shape: shape, Kind: first.Kind, Lane: lane.Name}
			if len(shape.Items) == 1 {
				s.Href = first.Href()
			}
			for n, i := range shape.Items {
				if n == 20 {
					s.Title += fmt.Sprintf("and %d more", len(shape.Items)-n)
					break
				}
				item := &t.Items[order[i]]
				s.Title += strings.TrimSpace(strings.Join([]string{item.Title, item.Length(now), item.Says()}, " · ")) + "\n"
			}
			s.Title = strings.TrimSpace(s.Title)
			d.Shapes = append(d.Shapes, s)
		}
	}
	return d
}

// labelOf is what stands on or beside an item in the picture.
func labelOf(i *timelineItem, now time.Time) string {
	label := i.Title
	switch i.Kind {
	case "task":
		label = stateOf(i.Title).Word
		if !strings.HasPrefix(i.Title, "TASK_STATE_") {
			label = stateOf("TASK_STATE_" + i.Title).Word
		}
	case "wait":
		label = "for " + i.Whom()
		if length := i.Length(now); length != "" {
			label += ", " + length
		}
	case "delegation":
		if length := i.Length(now); length != "" {
			label += ", " + length
		}
	}
	return label
}
