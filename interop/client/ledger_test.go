package client

import (
	"context"
	"fmt"
	"net/http"

	"handoff.example/handoff/a2a"
)

// ledgerCases are those in which a node hands work to the agents.
var ledgerCases = []testCase{
	{"ledger: send", "ledger-send", ledgerSend},
	{"ledger: stream cut in the middle and recovered", "ledger-cut", ledgerCut},
	{"ledger: ask and answer", "ledger-answer", ledgerAnswer},
	{"ledger: cancel", "ledger-cancel", ledgerCancel},
	{"ledger: push", "ledger-push", ledgerPush},
	{"ledger: node killed -9 in between", "ledger-kill", ledgerKill},
}

// ledgerRestartCases are those in which the agent ends.
var ledgerRestartCases = []testCase{
	{"ledger: peer restarted in between", "ledger-restart", ledgerRestart},
}

// seldom is the time between two polls where something else is to bring the news.
var seldom = map[string]string{"min": "10m", "max": "1h"}

func ledgerSend(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "slow 1", nil)
	if err != nil {
		return err
	}
	if err := d.ends(ctx, chunks(10)); err != nil {
		return err
	}
	if d.Remote.Task == "" || d.Remote.Send != "accepted" {
		return d.odd()
	}
	return s.sent(1)
}

func ledgerCut(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "slow 2", nil)
	if err != nil {
		return err
	}
	if err := d.streams(ctx); err != nil {
		return err
	}
	s.proxy.cut()
	if err := d.ends(ctx, s.resumed(20)); err != nil {
		return err
	}
	return s.sent(1)
}

// resumed returns the text of the artifact of a task that was subscribed to, "" for
// an agent that changes it then: as in follow.
func (s *session) resumed(n int) string {
	if s.agent.peer.version == "0.3" {
		return ""
	}
	return chunks(n)
}

func ledgerAnswer(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "ask", nil)
	if err != nil {
		return err
	}
	i, err := d.asks(ctx)
	if err != nil {
		return err
	}
	if err := d.answer(ctx, i); err != nil {
		return err
	}
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: d.Remote.Task})
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCompleted, "an answer"); err != nil {
		return fmt.Errorf("at the peer: %w", err)
	}
	return s.sent(2)
}

func ledgerCancel(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "never", nil)
	if err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return d.Remote.Task != "" && d.task.Status.State == a2a.StateWorking }); err != nil {
		return err
	}
	if err := d.node.call(ctx, http.MethodPost, "/delegations/"+d.ID+":cancel", struct{}{}, nil); err != nil {
		return err
	}
	for !d.Remote.Recalled {
		if wait(ctx) != nil {
			return d.odd()
		}
		if err := d.look(ctx); err != nil {
			return err
		}
	}
	if err := check(d.task, a2a.StateCanceled, ""); err != nil {
		return err
	}
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: d.Remote.Task})
	if err != nil {
		return err
	}
	if err := check(task, a2a.StateCanceled, ""); err != nil {
		return fmt.Errorf("at the peer: %w", err)
	}
	return s.sent(1)
}

// ledgerPush has no other news of the end than a push.
func ledgerPush(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "slow 1", map[string]any{
		"channels": []string{"push", "poll"}, "poll": seldom,
	})
	if err != nil {
		return err
	}
	if err := d.ends(ctx, chunks(10)); err != nil {
		return err
	}
	return s.sent(1)
}

func ledgerKill(ctx context.Context, s *session) error {
	n := newNode(s.t)
	d, err := s.hand(ctx, n, "slow 3", nil)
	if err != nil {
		return err
	}
	if err := d.streams(ctx); err != nil {
		return err
	}
	before := d.Remote.Task
	n.kill()
	if err := n.start(); err != nil {
		return err
	}
	if err := d.ends(ctx, s.resumed(30)); err != nil {
		return err
	}
	if d.Remote.Task != before {
		return fmt.Errorf("the peer's task is %s, and was %s", d.Remote.Task, before)
	}
	return s.sent(1)
}

// ledgerRestart does not let the node look at the agent meanwhile: an agent that
// forgets its tasks is asked about them with the answer.
func ledgerRestart(ctx context.Context, s *session) error {
	d, err := s.hand(ctx, s.node, "ask", map[string]any{"poll": seldom})
	if err != nil {
		return err
	}
	i, err := d.asks(ctx)
	if err != nil {
		return err
	}
	s.agent.kill()
	s.proxy.cut()
	if err := s.agent.start(); err != nil {
		return err
	}
	if err := d.answer(ctx, i); err != nil {
		return err
	}
	return s.sent(2)
}
