package api

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// events goes through the events of the task.
func (t *chronicler) events() error {
	t.last = t.out.From
	after := int64(0)
	for range timelineReads {
		events, err := t.h.opts.Store.Events(t.context(), t.row.Key, after, timelineBytes)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			break
		}
		for i := range events {
			t.event(&events[i])
		}
		if after = events[len(events)-1].Seq; after >= t.row.Seq || t.out.Truncated {
			break
		}
	}
	t.out.Truncated = t.out.Truncated || after < t.row.Seq
	return nil
}

func (t *chronicler) event(e *store.Event) {
	var response a2a.StreamResponse
	var message a2a.Message
	if e.Kind == store.KindMessage {
		if a2a.Unmarshal(e.Body, &message) != nil {
			return
		}
	} else if a2a.Unmarshal(e.Body, &response) != nil {
		return
	}
	at := e.Mark.At()
	if s := response.StatusUpdate; at.IsZero() && s != nil {
		at = s.Status.Timestamp // of an event that is older than marks are
	}
	if at.IsZero() || at.Before(t.last) {
		at = t.last
	}
	t.last = at.UTC()
	switch {
	case e.Kind == store.KindMessage:
		t.add(&moment{Kind: "message", Title: "Message", Who: t.row.Owner, Detail: textOf(&message), Start: t.last, Seq: e.Seq})
	case response.ArtifactUpdate != nil:
		t.begin(e)
		t.artifact(e, response.ArtifactUpdate)
	case response.StatusUpdate != nil:
		t.status(e, response.StatusUpdate)
	}
}

// begin begins the turn of an event, unless it runs already.
func (t *chronicler) begin(e *store.Event) {
	turn, attempt := e.Mark.Turn(), e.Mark.Attempt()
	if turn == 0 {
		turn = 1
		if t.turn != nil {
			turn = t.turn.Turn
		} else if n := len(t.turns); n > 0 {
			turn = t.turns[n-1].Turn + 1
		}
	}
	defer func() { t.marked[turn] = e.Mark.Wait() }()
	if t.turn != nil && t.turn.Turn == turn && (attempt <= t.turn.Attempt || attempt == 0) {
		return
	}
	t.end(t.last, "")
	if t.self != nil && t.self.Peer != "" {
		return // what a peer does is a wait
	}
	title := "Turn " + strconv.Itoa(turn)
	if attempt > 1 {
		title += ", attempt " + strconv.Itoa(attempt)
		if n := len(t.turns); n > 0 && t.turns[n-1].Turn == turn {
			t.turns[n-1].Outcome = "interrupted"
		}
	}
	t.turn = t.add(&moment{Kind: "turn", Title: title, Who: t.row.Agent, Turn: turn, Attempt: attempt, Start: t.last})
	t.turns = append(t.turns, t.turn)
}

// end ends the turn that runs.
func (t *chronicler) end(at time.Time, outcome string) {
	if t.turn != nil {
		t.turn.End = at
		if outcome != "" {
			t.turn.Outcome = outcome
		}
		t.turn = nil
	}
	t.step = nil
}

// waits begins a wait.
func (t *chronicler) waits(m *moment) {
	m.Kind, m.Start = "wait", t.last
	t.wait = t.add(m)
}

// resume ends the wait that is open.
func (t *chronicler) resume() {
	if t.wait == nil {
		return
	}
	t.wait.End = t.last
	t.wait = nil
}

func (t *chronicler) status(e *store.Event, s *a2a.TaskStatusUpdateEvent) {
	state := s.Status.State
	text := textOf(s.Status.Message)
	switch state {
	case a2a.StateSubmitted:
		t.add(&moment{Kind: "task", Title: short(state), State: state.String(), Start: t.last, Seq: e.Seq})
		if t.self == nil || t.self.Peer == "" {
			t.waits(&moment{Title: "Waits for a free worker", Wait: waitWorker})
			return
		}
		t.forPeer()
	case a2a.StateWorking:
		t.working(e, s, text)
	case a2a.StateInputRequired, a2a.StateAuthRequired:
		t.resume()
		t.begin(e)
		t.end(t.last, "asked")
		m := &moment{Title: "Waits for an answer", Wait: waitAnswer, Detail: text, Who: t.row.Owner, Seq: e.Seq, Turn: e.Mark.Turn()}
		if state == a2a.StateAuthRequired {
			m.Title, m.Wait = "Waits for a decision", waitGrant
		}
		if item := t.item(e.Mark.Turn()); item != nil {
			m.Item, m.By, m.Outcome = item.ID, item.By, item.Decision
			m.Who = cmp.Or(item.Assignee, m.Who)
		}
		t.waits(m)
	default:
		t.resume()
		if t.turn != nil {
			t.begin(e)
		}
		t.end(t.last, strings.ToLower(short(state)))
		t.add(&moment{Kind: "task", Title: short(state), Detail: text, State: state.String(), Start: t.last, Seq: e.Seq})
	}
}

// forPeer begins to wait for the peer of a delegation, unless the task does.
func (t *chronicler) forPeer() {
	if t.wait == nil || t.wait.Wait != waitPeer {
		t.resume()
		t.waits(&moment{Title: "Waits for " + t.self.Peer, Wait: waitPeer, Who: t.self.Peer})
	}
}

func (t *chronicler) working(e *store.Event, s *a2a.TaskStatusUpdateEvent, text string) {
	if t.self != nil && t.self.Peer != "" {
		t.forPeer()
		if text != "" {
			t.add(&moment{Kind: "step", Title: "Working", Detail: text, Who: t.self.Peer, Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn()})
		}
		return
	}
	t.resume()
	begun := t.turn
	t.begin(e)
	if s.Status.Message != nil && t.called(e, s.Status.Message) {
		return
	}
	if text != "" || begun == t.turn {
		t.step = nil
		t.add(&moment{Kind: "step", Title: "Working", Detail: text, Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn()})
	}
}

// called adds the calls of a model or of a tool that a status tells of.
func (t *chronicler) called(e *store.Event, m *a2a.Message) bool {
	if len(m.Metadata) == 0 {
		return false
	}
	var told struct {
		Model *struct {
			Model    string         `json:"model"`
			Start    time.Time      `json:"start"`
			MS       int64          `json:"ms"`
			Outcome  string         `json:"outcome"`
			Input    int64          `json:"input_tokens"`
			Cached   int64          `json:"cached_tokens"`
			Output   int64          `json:"output_tokens"`
			Cost     jsontext.Value `json:"cost"`
			Currency string         `json:"currency"`
		} `json:"handoff.example/model-call"`
		Tool *struct {
			Server  string    `json:"server"`
			Tool    string    `json:"tool"`
			Start   time.Time `json:"start"`
			MS      int64     `json:"ms"`
			Outcome string    `json:"outcome"`
		} `json:"handoff.example/tool-call"`
	}
	if json.Unmarshal(m.Metadata, &told) != nil {
		return false
	}
	const day = 24 * time.Hour
	span := func(kind, title, who, outcome string, start time.Time, ms int64) *moment {
		took := min(max(time.Duration(min(ms, day.Milliseconds()))*time.Millisecond, 0), day)
		if start.IsZero() || start.After(t.last) || t.last.Sub(start) > day {
			start = t.last.Add(-took)
		}
		start = latest(start, t.out.From) // clocks differ
		return t.add(&moment{
			Kind: kind, Title: clip(title, maxShownText), Who: clip(who, maxShownText), Outcome: clip(outcome, maxShownText), Detail: textOf(m),
			Start: start.UTC(), End: start.Add(took).UTC(), Seq: e.Seq, Turn: e.Mark.Turn(),
		})
	}
	if c := told.Model; c != nil {
		s := span("model", c.Model, c.Model, c.Outcome, c.Start, c.MS)
		s.Cost = &cost{Model: clip(c.Model, maxShownText), Input: c.Input, Cached: c.Cached, Output: c.Output, Currency: clip(c.Currency, 16)}
		if c.Cost.Kind() == '0' {
			s.Cost.Amount = c.Cost
			if c.Currency == "USD" {
				s.Cost.USD = c.Cost
			}
		}
	}
	if c := told.Tool; c != nil {
		title := c.Tool
		if c.Server != "" {
			title = c.Server + "." + c.Tool
		}
		span("tool", title, c.Server, c.Outcome, c.Start, c.MS)
	}
	return told.Model != nil || told.Tool != nil
}

// artifact adds an artifact. Its chunks are one step.
func (t *chronicler) artifact(e *store.Event, u *a2a.TaskArtifactUpdateEvent) {
	if t.step != nil && u.Append && t.chunk == u.Artifact.ArtifactID {
		t.step.End = t.last
		t.step.Count++
		return
	}
	who := ""
	if t.self != nil {
		who = t.self.Peer
	}
	t.chunk = u.Artifact.ArtifactID
	t.step = t.add(&moment{
		Kind: "step", Title: "Artifact " + clip(cmp.Or(u.Artifact.Name, u.Artifact.ArtifactID), 200), Detail: clip(u.Artifact.Description, maxShownText), Who: who,
		Start: t.last, Seq: e.Seq, Turn: e.Mark.Turn(), Count: 1,
	})
}

// short is the name of a state without what all of them begin with.
func short(s a2a.TaskState) string { return strings.TrimPrefix(s.String(), "TASK_STATE_") }
