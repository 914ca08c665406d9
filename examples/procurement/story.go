package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/examples/procurement/toolclient"

	_ "modernc.org/sqlite" // for a look into the ERP system
)

const (
	number  = "PO-2026-0184"
	request = "Order 400 units of BRG-0042 for SBY, " + number
)

// tell plays the story.
func tell(ctx context.Context, out io.Writer, c *company) error {
	s := newStory(out, c)
	s.say("", "Start a buyer, a supplier and finance, a gateway and the tools of the ERP system")
	if err := c.open(ctx); err != nil {
		return err
	}
	s.say("buyer", "%s", request)
	if err := s.order(ctx); err != nil {
		return err
	}
	if err := s.expect(ctx, a2a.StateInputRequired); err != nil {
		return err
	}
	s.say("", "kill -9 %d: the buyer is dead. Its question is a row in a file.", c.kill(buyer))
	if err := c.start(ctx, buyer); err != nil {
		return err
	}
	if err := s.settle(ctx, buyer, "answer", "--data", `{"incoterm":"delivered"}`); err != nil {
		return err
	}
	if err := s.expect(ctx, a2a.StateAuthRequired); err != nil {
		return err
	}
	s.say("", "kill -9 %d: finance is dead, before anybody has approved.", c.kill(finance))
	if err := c.start(ctx, finance); err != nil {
		return err
	}
	if err := s.settle(ctx, buyer, "approve", "--note", "within the budget"); err != nil {
		return err
	}
	if err := s.waits(ctx, gateway); err != nil {
		return err
	}
	s.say("", "kill -9 %d: the gateway is dead, with a call of draft_order that waits for an approval.", c.kill(gateway))
	if err := c.start(ctx, gateway); err != nil {
		return err
	}
	if err := s.settle(ctx, gateway, "approve", "--note", "we need them"); err != nil {
		return err
	}
	if err := s.expect(ctx, a2a.StateCompleted); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.post(ctx)
}

// story is a purchase on its way.
type story struct {
	*company
	out   io.Writer
	began time.Time
	task  string // of the agent procurement
	shown string // the status that was shown last
	stop  string // where it waited last
}

func newStory(out io.Writer, c *company) *story {
	return &story{company: c, out: out, began: time.Now()}
}

// say prints a line, with the time since the story began.
func (s *story) say(who, format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "%6.2f s  %-9s %s\n", time.Since(s.began).Seconds(), who, fmt.Sprintf(format, args...))
}

func (s *story) dial(ctx context.Context) (*client.Client, error) {
	return client.Dial(ctx, "http://"+s.address[buyer]+"/agents/procurement/", client.Options{})
}

// order sends the order, and does not wait for what comes of it.
func (s *story) order(ctx context.Context) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	answer, err := c.SendMessage(ctx, &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text(request)), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil {
		return err
	}
	s.task = answer.Task.ID
	return nil
}

// expect follows the task until it is in a state, and shows what it says.
func (s *story) expect(ctx context.Context, want a2a.TaskState) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	task, err := c.Wait(ctx, s.task, client.WaitOptions{OnEvent: s.show})
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for err == nil && stop(task) == s.stop {
		select { // a decision is on its way down to where it was asked for
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			task, err = c.Wait(ctx, s.task, client.WaitOptions{OnEvent: s.show})
		}
	}
	if err != nil {
		return err
	}
	s.show(&a2a.StreamResponse{Task: task})
	s.stop = stop(task)
	if task.Status.State != want {
		return fmt.Errorf("the task is %s, not %s", task.Status.State, want)
	}
	return nil
}

// stop names a state in which a task waits for somebody.
func stop(t *a2a.Task) string {
	if t.Status.Message == nil {
		return t.Status.State.String()
	}
	return t.Status.Message.MessageID
}

func (s *story) show(e *a2a.StreamResponse) {
	var status a2a.TaskStatus
	switch {
	case e.Task != nil:
		status = e.Task.Status
	case e.StatusUpdate != nil:
		status = e.StatusUpdate.Status
	default:
		return
	}
	line := fmt.Sprintf("%-15s", strings.TrimPrefix(status.State.String(), "TASK_STATE_"))
	if status.Message != nil {
		line += status.Message.Text()
	}
	if line = strings.TrimRight(line, " "); line != s.shown {
		s.shown = line
		s.say("task", "%s", line)
	}
}

// item is what waits in an inbox.
type item struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// waiting returns what waits in the inbox of a node.
func (s *story) waiting(ctx context.Context, node string) ([]item, error) {
	var inbox struct {
		Items []item `json:"items"`
	}
	err := s.ask(ctx, node, &inbox, "inbox", "list")
	return inbox.Items, err
}

// waits returns when something waits in the inbox of a node.
func (s *story) waits(ctx context.Context, node string) error {
	for ctx.Err() == nil {
		if items, err := s.waiting(ctx, node); err != nil || len(items) > 0 {
			return err
		}
	}
	return fmt.Errorf("wait for the inbox of %s: %w", node, ctx.Err())
}

// settle answers the one item in the inbox of a node, or decides it.
func (s *story) settle(ctx context.Context, node string, args ...string) error {
	items, err := s.waiting(ctx, node)
	if err != nil {
		return err
	}
	if len(items) != 1 {
		return fmt.Errorf("%d items wait in the inbox, not 1", len(items))
	}
	s.say("inbox", "%s: handoff inbox %s", node, strings.Join(args, " "))
	return s.ask(ctx, node, nil, append([]string{"inbox", args[0], items[0].ID}, args[1:]...)...)
}

// look reads one row of a file of the company.
func (c *company) look(ctx context.Context, file, query string, into ...any) error {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(c.file(file))+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, query).Scan(into...); err != nil {
		return fmt.Errorf("look into %s: %w", file, err)
	}
	return nil
}

// check compares the end with what it should be: one order, one credit, and one task
// at each of the others, whatever died meanwhile.
func (s *story) check(ctx context.Context) error {
	for _, want := range [][3]string{
		{"erp.db", number + " draft 49000000 delivered, with 1 call", `
			SELECT group_concat(number || ' ' || status || ' ' || total || ' ' || incoterm) || ', with ' || (SELECT count(*) FROM made) || ' call' FROM purchase_order`},
		{"books.db", number + " 49000000", `SELECT group_concat(purchase_order || ' ' || amount) FROM credit`},
		{"requests.db", number + " drafted: supplier finance", `
			SELECT group_concat(DISTINCT r.number || ' ' || r.status) || ': ' || (SELECT group_concat(agent, ' ' ORDER BY rowid) FROM delegation) FROM request r`},
	} {
		var got sql.NullString
		if err := s.look(ctx, want[0], want[2], &got); err != nil {
			return err
		}
		if got.String != want[1] {
			return fmt.Errorf("%s has %q, and not %q", want[0], got.String, want[1])
		}
		s.say("record", "%s: %s", want[0], got.String)
	}
	for _, name := range []string{supplier, finance} {
		var there struct {
			Tasks []struct{} `json:"tasks"`
		}
		if err := s.ask(ctx, name, &there, "admin", "task", "list"); err != nil {
			return err
		}
		if len(there.Tasks) != 1 {
			return fmt.Errorf("%s has %d tasks, not 1", name, len(there.Tasks))
		}
	}
	var kept struct {
		Delegations []struct {
			To    string `json:"to"`
			State string `json:"state"`
		} `json:"delegations"`
	}
	if err := s.ask(ctx, buyer, &kept, "delegation", "list", "--ref", number); err != nil {
		return err
	}
	for _, d := range kept.Delegations {
		s.say("record", "%s: one task, %s", d.To, strings.TrimPrefix(d.State, "TASK_STATE_"))
	}
	if len(kept.Delegations) != 2 {
		return errors.New("the order has not two delegations")
	}
	return nil
}

// post posts the order, as a person does with a key that no agent has.
func (s *story) post(ctx context.Context) error {
	var posted struct {
		Status   string `json:"status"`
		PostedBy string `json:"postedBy"`
	}
	err := toolclient.Server{URL: s.url(erpPost), Key: s.key(erpPost)}.Call(ctx, "post_order", "", map[string]any{"number": number, "by": "Dewi"}, &posted)
	if err != nil {
		return err
	}
	s.say("Dewi", "%s is %s by %s", number, posted.Status, posted.PostedBy)
	return nil
}
