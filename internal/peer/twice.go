package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// twice sends one message twice, as a delegation does after a cut, and keeps what
// the peer makes of it.
func (c *checking) twice(ctx context.Context, one *client.Client) {
	d, e := c.directory, c.entry
	none, id := 0, rand.Text()
	request := &a2a.SendMessageRequest{
		Message: &a2a.Message{
			MessageID: id, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(c.text)},
			Metadata: a2a.JSON(`{"idempotencyKey":"` + id + `"}`),
		},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true, HistoryLength: &none},
	}
	began := d.now()
	first, err := one.SendMessage(ctx, request)
	if err != nil {
		c.add(stepTwice, ResultFailed, "the message was not answered: "+err.Error(), advice(e, err), d.now().Sub(began))
		return
	}
	second, err := one.SendMessage(ctx, request)
	took := d.now().Sub(began)
	yes, said := judge(first, second, err)
	for _, r := range [...]*a2a.SendMessageResponse{first, second} {
		if r != nil && r.Task != nil && !r.Task.Status.State.Terminal() {
			if _, cerr := one.CancelTask(ctx, &a2a.CancelTaskRequest{ID: r.Task.ID}); cerr != nil && a2a.CodeOf(cerr) != a2a.CodeTaskNotCancelable {
				said += fmt.Sprintf("; its task %s could not be canceled (%s)", r.Task.ID, cerr)
			}
			if yes != nil && *yes {
				break // the other one is the same
			}
		}
	}
	if yes == nil {
		c.add(stepTwice, ResultWarning, said, "nothing was kept of that; try again, or set peers."+e.name+".deduplicates", took)
		return
	}
	d.Observe(ctx, e.name, Observation{Interface: InterfaceOf(one), Version: one.Interface().ProtocolVersion, Deduplicates: yes})
	switch {
	case *yes:
		c.add(stepTwice, ResultOK, said, "", took)
	case e.declares(d):
		c.add(stepTwice, ResultFailed, said+", although its card declares that it does not", "tell those who run it; until then nothing is sent twice to it", took)
	default:
		c.add(stepTwice, ResultOK, said+", so that nothing is sent twice to it", "", took)
	}
}

// judge says what the answers to a message that was sent twice mean: nil when
// that cannot be told.
func judge(first, second *a2a.SendMessageResponse, err error) (yes *bool, said string) {
	is, isNot := true, false
	if err != nil {
		e, ok := errors.AsType[*a2a.Error](err)
		if ok && e.Code != a2a.CodeInternal && e.Code != a2a.CodeUnavailable && e.Code != a2a.CodeResourceExhausted {
			return &isNot, "it refuses the second one: " + e.Message
		}
		return nil, "the second one was not answered: " + err.Error()
	}
	switch {
	case first.Task != nil && second.Task != nil && first.Task.ID == second.Task.ID:
		return &is, "a message that comes twice is one task"
	case first.Task != nil && second.Task != nil:
		return &isNot, "a message that comes twice is two tasks"
	case first.Message != nil && second.Message != nil && first.Message.MessageID != "" && first.Message.MessageID == second.Message.MessageID:
		return &is, "a message that comes twice has one answer"
	case first.Message != nil && second.Message != nil:
		return &isNot, "a message that comes twice has two answers"
	}
	return nil, "it answers once with a task, and once with a message"
}

// declares reports whether the card of a peer says that it deduplicates.
func (e *entry) declares(d *Directory) bool {
	p, err := d.Get(e.name)
	return err == nil && p.declaresIdempotency()
}
