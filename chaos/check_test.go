//go:build unix

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// story is a task as everybody has seen it, before something is changed.
type story struct {
	agent    string
	log      []event
	now      a2a.Task
	watch    *watch
	journal  string
	ledger   *ledger
	calm     []span
	isolated []isolation
}

const (
	storyTask    = "t"
	storyMessage = "m"
)

func status(state, message string) jsontext.Value {
	if message != "" {
		message = `,"message":{"messageId":"` + message + `","taskId":"t","contextId":"c","role":"ROLE_AGENT","parts":[{"text":"interrupted"}]}`
	}
	return jsontext.Value(`{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"` + state + `"` + message + `,"timestamp":"2026-01-01T00:00:00.000Z"}}}`)
}

func chunk(text string, more string) jsontext.Value {
	return jsontext.Value(`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"work","parts":[{"text":"` + text + `"}]}` + more + `}}`)
}

// told returns the story of a count to three, interrupted once.
func told(t *testing.T) *story {
	t.Helper()
	s := &story{agent: "again", ledger: newLedger(), journal: "begin t 1 1 m h1 10000000\nbegin t 1 2 m h2 11000000\nend t 1 2 m h2 11000000\n"}
	for i, body := range []jsontext.Value{
		jsontext.Value(`{"message":{"messageId":"m","taskId":"t","contextId":"c","role":"ROLE_USER","parts":[{"text":"burst 3"}]}}`),
		status("TASK_STATE_SUBMITTED", ""), status("TASK_STATE_WORKING", "w"),
		chunk("1 ", ""), chunk("2 ", `,"append":true`), chunk("3 ", `,"append":true`),
		status("TASK_STATE_COMPLETED", "d"),
	} {
		kind := "status"
		if i == 0 {
			kind = "message"
		}
		s.log = append(s.log, event{Seq: int64(i + 1), Kind: kind, Event: body})
	}
	text := `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","message":{"messageId":"d","taskId":"t","contextId":"c","role":"ROLE_AGENT","parts":[{"text":"interrupted"}]},"timestamp":"2026-01-01T00:00:00.000Z"},` +
		`"artifacts":[{"artifactId":"work","parts":[{"text":"1 "},{"text":"2 "},{"text":"3 "}]}],` +
		`"history":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"burst 3"}]},{"messageId":"w","role":"ROLE_AGENT","parts":[{"text":"interrupted"}]}]}`
	if err := a2a.Unmarshal([]byte(text), &s.now); err != nil {
		t.Fatal(err)
	}
	snapshot := jsontext.Value(`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_SUBMITTED","timestamp":"2026-01-01T00:00:00.000Z"},"artifacts":[]}}`)
	s.watch = &watch{stretches: []*stretch{
		{frames: []frame{{2, snapshot}, {3, s.log[2].Event}, {4, s.log[3].Event}}},
		{after: 4, frames: []frame{{5, s.log[4].Event}, {6, s.log[5].Event}, {7, s.log[6].Event}}},
	}}
	s.ledger.sending(storyMessage, s.agent, "burst 3")
	s.ledger.acknowledged(storyMessage, storyTask)
	s.ledger.observe(s.agent, storyTask, a2a.StateCompleted, 0)
	return s
}

// mark lets a program have left something in the chunk of an event, in what
// everybody has seen of it.
func (s *story) mark(event, attempt int, at int64) {
	plain := fmt.Sprintf(`[{"text":"%d "}]`, event-2)
	marked := fmt.Sprintf(`[{"text":"%d ","metadata":{"turn":1,"attempt":%d,"at":%d}}]`, event-2, attempt, at)
	replace := func(v jsontext.Value) jsontext.Value {
		return jsontext.Value(strings.Replace(string(v), plain, marked, 1))
	}
	s.log[event].Event = replace(s.log[event].Event)
	for _, stretch := range s.watch.stretches {
		for i := range stretch.frames {
			stretch.frames[i].body = replace(stretch.frames[i].body)
		}
	}
	s.now.Artifacts[0].Parts[event-3].Metadata = a2a.JSON(fmt.Sprintf(`{"turn":1,"attempt":%d,"at":%d}`, attempt, at))
}

// check does what checker.check does, without a server.
func (s *story) check() []violation {
	c := newChecker(s.ledger, &site{lease: time.Second})
	c.calm, c.isolated = s.calm, s.isolated
	if first, ok := c.log(s.log, &s.now); ok {
		c.outcome(s.agent, first, &s.now)
		c.watch(s.watch, s.log, &s.now)
	}
	c.checkMessages()
	c.journal(s.agent, s.journal, map[string]a2a.TaskState{storyTask: s.now.Status.State})
	return s.ledger.violations
}

func TestCheckerIsContent(t *testing.T) {
	t.Parallel()
	if v := told(t).check(); len(v) > 0 {
		t.Errorf("violations %+v of a story without any", v)
	}
}

// What a node that is away cannot know is no violation.
func TestCheckerKnowsWhoIsAway(t *testing.T) {
	t.Parallel()
	s := told(t)
	s.journal = "begin t 1 1 m h1 10000000\noverlap t 1 2 m h2 11000000\nbegin t 1 2 m h2 11000000\nstep t 1 1 m h1 12000000\nend t 1 2 m h2 11000000\n"
	s.isolated = []isolation{{span{time.UnixMicro(9_000_000), time.UnixMicro(11_500_000)}, "h1"}}
	s.mark(3, 1, 10_500_000)
	s.mark(4, 2, 11_000_000)
	if v := s.check(); len(v) > 0 {
		t.Errorf("violations %+v of a story without any", v)
	}
}

func TestCheckerFinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(s *story)
		want   string
	}{
		"a lost event":             {func(s *story) { s.log = slices.Delete(s.log, 4, 5) }, "event 5 of the log has the number 6"},
		"a lost message":           {func(s *story) { s.ledger.sending("n", "again", "x"); s.ledger.acknowledged("n", storyTask) }, "in the histories 0 times"},
		"a lost answer":            {func(s *story) { s.now.Artifacts[0].Parts = s.now.Artifacts[0].Parts[:2] }, "the artifacts are"},
		"a lost history":           {func(s *story) { s.now.History = s.now.History[:1] }, "the history is [m]"},
		"another status":           {func(s *story) { s.now.Status.State = a2a.StateFailed }, "the status is"},
		"an event after the end":   {func(s *story) { s.log = append(s.log, event{8, "status", status("TASK_STATE_CANCELED", "")}) }, "comes after the task was TASK_STATE_COMPLETED"},
		"a gap on a stream":        {func(s *story) { s.watch.stretches[1].frames = s.watch.stretches[1].frames[1:] }, "after event 4 a stream has 6"},
		"a repetition on a stream": {func(s *story) { f := s.watch.stretches[0]; f.frames = append(f.frames, f.frames[2]) }, "after event 4 a stream has 4"},
		"another event":            {func(s *story) { s.watch.stretches[1].frames[0].body = chunk("9 ", `,"append":true`) }, "after event 4 a stream has 5"},
		"a wrong snapshot": {func(s *story) {
			s.watch.stretches[0].frames[0].body = jsontext.Value(strings.Replace(string(s.watch.stretches[0].frames[0].body), "SUBMITTED", "WORKING", 1))
		}, "by the log up to event 2"},
		"a chunk done twice": {func(s *story) {
			s.log[5].Event = chunk("2 ", `,"append":true`)
			s.watch.stretches[1].frames[1].body = s.log[5].Event
			s.now.Artifacts[0].Parts[2].Text = "2 "
		}, `the answer to "burst 3" is "1 2 2 "`},
		"two attempts at once":                     {func(s *story) { s.journal = "overlap t 1 2 m h2 11000000\n" + s.journal }, "while another one was running"},
		"an attempt again":                         {func(s *story) { s.journal = "begin t 1 2 m h2 11000000\n" + s.journal }, "ran attempt 1 of turn 1 after attempt 2"},
		"a program that never ends":                {func(s *story) { s.journal = "begin t 1 1 m h1 10000000\n" }, "its program has not ended"},
		"a second attempt of an agent without one": {func(s *story) { s.agent = "once" }, "agent once ran turn 1 2 times"},
		"a failure of another kind": {func(s *story) {
			s.agent, s.journal = "once", ""
			s.now.Status.State, s.now.Status.Message.Parts[0].Text = a2a.StateFailed, "broken"
		}, "another reason than an interruption: broken"},
		"a failure of an agent that goes on": {func(s *story) { s.now.Status.State = a2a.StateFailed }, "the task of agent again is TASK_STATE_FAILED"},
		"an interruption by a graceful stop": {func(s *story) {
			s.agent, s.journal, s.now.Status.State = "once", "", a2a.StateFailed
			s.calm = []span{{s.now.Status.Timestamp.Add(-time.Second), s.now.Status.Timestamp.Add(time.Second)}}
		}, "there was the time to let it finish"},
		"a step of a dead attempt": {func(s *story) {
			s.journal = "begin t 1 1 m h1 10000000\nbegin t 1 2 m h2 11000000\nend t 1 2 m h2 12000000\n"
			s.mark(3, 1, 12_000_000)
		}, "a step that attempt 1 said after attempt 2 of turn 1 had begun"},
		"a step after those of the next attempt": {func(s *story) { s.mark(3, 2, 9_000_000); s.mark(4, 1, 9_000_000) }, "a step of attempt 1 of turn 1 follows one of attempt 2"},
		"work after a cancel":                    {func(s *story) { s.ledger.canceled(storyTask, time.UnixMicro(1_000_000)) }, "after the cancel was answered"},
		"two attempts at once, and another host away": {func(s *story) {
			s.journal = "begin t 1 1 m h1 10000000\noverlap t 1 2 m h2 11000000\n" + "begin t 1 2 m h2 11000000\nend t 1 2 m h2 11000000\n"
			s.isolated = []isolation{{span{time.UnixMicro(0), time.UnixMicro(10_000_000)}, "h2"}}
		}, "while another one was running"},
		"a state that changes":      {func(s *story) { s.ledger.observe("again", storyTask, a2a.StateWorking, a2a.StateCompleted) }, "the task was TASK_STATE_COMPLETED and is TASK_STATE_WORKING"},
		"two ends":                  {func(s *story) { s.ledger.observe("again", storyTask, a2a.StateFailed, 0) }, "for one client and TASK_STATE_FAILED for another"},
		"a second task":             {func(s *story) { s.ledger.acknowledged(storyMessage, "u") }, "with task t, and then with task u"},
		"a task and then a message": {func(s *story) { s.ledger.replied(storyMessage, "x") }, "and then with the message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := told(t)
			test.change(s)
			v := s.check()
			if !slices.ContainsFunc(v, func(v violation) bool { return strings.Contains(v.text, test.want) }) {
				t.Errorf("violations are %+v, want one that says %q", v, test.want)
			}
		})
	}
}

// A plan has as many kills as were asked for, and is the same for a seed.
func TestPlan(t *testing.T) {
	t.Parallel()
	o := &options{kills: 50}
	plan := (&single{options: o}).plan
	first, second := plan(seeded(1)), plan(seeded(1))
	if !slices.Equal(first, second) {
		t.Error("two plans of one seed differ")
	}
	if slices.Equal(first, plan(seeded(2))) {
		t.Error("the plans of two seeds are the same")
	}
	kills := 0
	for _, d := range first {
		if d != countFreezes && d != countStops {
			kills++
		}
	}
	if kills != o.kills || len(first) == kills {
		t.Errorf("a plan has %d kills of %d disruptions", kills, len(first))
	}
}
