package console

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// An item of a timeline says in the picture and in the table who did what, for how
// long, and leads to what it is about.
func TestAnItemOfATimelineSaysWhatItIs(t *testing.T) {
	t.Parallel()
	now := noon.Add(time.Hour)
	for _, c := range []struct {
		name                     string
		item                     timelineItem
		label, length, says, url string
	}{
		{
			"a wait that goes on",
			timelineItem{Kind: "wait", Wait: "answer", Who: "mara", Start: noon, Open: true, Detail: "Which Incoterm?", Item: "i/1"},
			"for mara, 1 h", "1 h", "Which Incoterm?", "/console/inbox/i%2F1",
		},
		{
			"a wait that was answered",
			timelineItem{Kind: "wait", Wait: "grant", Start: noon, End: noon.Add(154 * time.Second), Outcome: "approved", By: "sari"},
			"for an approval, 2 min 34 s", "2 min 34 s", "approved by sari", "",
		},
		{
			"a delegation",
			timelineItem{Kind: "delegation", Title: "supplier", Task: "t1", Ref: "PO-1", Start: noon, End: noon.Add(time.Second)},
			"supplier, 1 s", "1 s", "ref PO-1", "/console/tasks/t1",
		},
		{"a state", timelineItem{Kind: "task", Title: "INPUT_REQUIRED", Start: noon}, "Needs input", "", "", ""},
		{
			"a webhook",
			timelineItem{Kind: "push", Title: "Webhook", Start: noon, Open: true, Attempts: 4, Detail: "503", Outcome: "retrying"},
			"Webhook", "1 h", "503; 4 attempts; retrying", "",
		},
		{"a second attempt", timelineItem{Kind: "turn", Title: "Turn 1", Attempt: 2, Start: noon, End: noon.Add(40 * time.Millisecond)}, "Turn 1", "40 ms", "attempt 2", ""},
	} {
		if got := labelOf(&c.item, now); got != c.label {
			t.Errorf("%s is called %q, want %q", c.name, got, c.label)
		}
		if got := c.item.Length(now); got != c.length {
			t.Errorf("%s takes %q, want %q", c.name, got, c.length)
		}
		if got := c.item.Says(); got != c.says {
			t.Errorf("%s says %q, want %q", c.name, got, c.says)
		}
		if got := c.item.Href(); got != c.url {
			t.Errorf("%s leads to %q, want %q", c.name, got, c.url)
		}
	}
}

// Lanes stand in one order whatever came first, and what is of a kind that the
// console does not know is shown too.
func TestTheLanesOfATimelineHaveTheirOrder(t *testing.T) {
	t.Parallel()
	d := drawTimeline(&taskTimeline{Items: []timelineItem{
		{Kind: "audit", Title: "Cancel", Start: noon},
		{Kind: "novelty", Title: "New", Start: noon},
		{Kind: "wait", Wait: "task", Start: noon, Open: true},
		{Kind: "turn", Title: "Turn 1", Start: noon, End: noon.Add(time.Second)},
		{Kind: "task", Title: "SUBMITTED", Start: noon},
	}}, noon.Add(time.Minute))
	var names []string
	for _, lane := range d.Lanes {
		names = append(names, lane.Name)
	}
	if got := strings.Join(names, " "); got != "State Turns Waits People Other" {
		t.Errorf("the lanes are %s", got)
	}
	if len(d.Shapes) != 5 || d.Shapes[2].Kind != "wait" || !strings.HasPrefix(d.Shapes[4].Title, "New") {
		t.Errorf("%+v", d.Shapes)
	}
}

// What a peer asks comes up to whoever asked first, and is drawn once.
func TestAQuestionThatWasPassedOnIsOne(t *testing.T) {
	t.Parallel()
	asks := func() *waitsFor { return &waitsFor{Kind: "answer", Text: "Which Incoterm?", Since: noon} }
	tree := &taskTree{Nodes: []treeNode{
		{ID: "order", Agent: "buyer", State: "TASK_STATE_INPUT_REQUIRED", Began: noon, Waits: asks()},
		{ID: "quote", Parent: "order", Agent: "supplier", Peer: true, State: "TASK_STATE_INPUT_REQUIRED", Began: noon, Waits: asks()},
		{ID: "credit", Parent: "order", Agent: "finance", State: "TASK_STATE_AUTH_REQUIRED", Began: noon, Waits: &waitsFor{Kind: "grant", Text: "May it be spent?", Since: noon}},
	}}
	d := tree.draw()
	waiting := map[string]string{}
	for _, l := range d.Lines {
		if to := d.Cards[l.To]; l.Waiting && to.Box.Waits {
			waiting[d.Cards[l.From].Who()] = to.WaiterName()
		} else if l.Waiting {
			waiting[d.Cards[l.From].Who()] = to.Who()
		}
	}
	if want := map[string]string{"buyer": "supplier", "supplier": "Somebody", "finance": "Somebody"}; !maps.Equal(waiting, want) {
		t.Errorf("who waits for whom: %v, want %v", waiting, want)
	}
}

func TestWaitsForPeopleArePartOfThoseForAgents(t *testing.T) {
	t.Parallel()
	supplier, rina := waitSum{Kind: "peer", Who: "supplier", MS: 5100}, waitSum{Kind: "answer", Who: "Rina", MS: 4700}
	for name, c := range map[string]struct {
		line   taskTimeline
		within bool
	}{
		"passed on": {taskTimeline{Waits: []waitSum{supplier, rina}, WaitingMS: 5100}, true},
		"its own":   {taskTimeline{Waits: []waitSum{supplier, rina}, WaitingMS: 9800}, false},
		"alone":     {taskTimeline{Waits: []waitSum{rina}, WaitingMS: 4700}, false},
	} {
		if got := c.line.Within(); got != c.within {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAWaitThatWasPassedOnCountsOnce(t *testing.T) {
	t.Parallel()
	order, quote := &treeNode{ID: "order"}, &treeNode{ID: "quote", Parent: "order"}
	list := []treeWait{
		{order, waitSum{Kind: "peer", Who: "supplier", MS: 900}},
		{order, waitSum{Kind: "answer", MS: 600}},
		{quote, waitSum{Kind: "answer", MS: 610}},
		{order, waitSum{Kind: "grant", MS: 50}},
		{quote, waitSum{Kind: "grant", MS: 40}},
	}
	var got []bool
	for i := range list {
		got = append(got, passedOn(list, &list[i]))
	}
	// The second approval took longer than that of the task below: it has asked itself.
	if want := []bool{false, true, false, false, false}; !slices.Equal(got, want) {
		t.Errorf("passed on: %v, want %v", got, want)
	}
}

func TestATreeSaysWhoWaitsForWhom(t *testing.T) {
	t.Parallel()
	tree := &taskTree{Root: "order", This: "quote", Nodes: []treeNode{
		{ID: "order", Agent: "buyer", State: "TASK_STATE_WORKING", Began: noon, Waits: &waitsFor{Kind: "peer", Who: "supplier", Task: "quote", Since: noon.Add(time.Minute)}},
		{ID: "quote", Parent: "order", Agent: "supplier", Peer: true, State: "TASK_STATE_INPUT_REQUIRED", Began: noon, Waits: &waitsFor{Kind: "answer", Who: "mara", Since: noon.Add(50 * time.Minute)}},
		{ID: "credit", Parent: "order", Agent: "finance", State: "TASK_STATE_COMPLETED", Began: noon, Ended: noon.Add(6 * time.Second)},
		{ID: "far", Parent: "order", Agent: "carrier", Peer: true, State: "TASK_STATE_WORKING", Began: noon, Waits: &waitsFor{Kind: "peer", Who: "carrier", Since: noon}},
	}}
	for i := range tree.Nodes {
		tree.Nodes[i].now = noon.Add(time.Hour)
	}
	d := tree.draw()
	lines := map[string]string{}
	for _, l := range d.Lines {
		to := d.Cards[l.To]
		name := to.Who()
		if to.Box.Waits {
			name = to.Waiter().Whom() + " " + to.WaiterSays()
		}
		word := l.Label
		if l.Waiting {
			word = "waits " + word
		}
		lines[d.Cards[l.From].Who()+" > "+name] = word
	}
	want := map[string]string{"buyer > supplier": "waits 59 min", "supplier > mara is to answer": "waits 10 min", "buyer > finance": "6 s", "buyer > carrier": "1 h"}
	for edge, label := range want {
		if lines[edge] != label {
			t.Errorf("%s: %q, want %q", edge, lines[edge], label)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d edges: %v", len(lines), lines)
	}
	if !d.Cards[1].Current || d.Cards[0].Current {
		t.Error("the task that was asked for is not marked")
	}
	if below := tree.below("order"); len(below.Nodes) != 3 || len(below.List) != 3 {
		t.Errorf("below the root are %d", len(below.Nodes))
	}
	if tree.below("credit") != nil {
		t.Error("something is below a task that has delegated nothing")
	}
}
