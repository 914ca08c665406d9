package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"

	_ "modernc.org/sqlite" // for a look into the agent's calendar
)

const (
	request  = "Book the earliest slot for PO-2026-0184 at the Semarang DC."
	question = "Two docks are free on 11 Sep. Which one, and is a tail lift needed?"
	answer   = "Dock 2, tail lift required."
	fatal    = "Confirming dock 2 with the warehouse" // at this moment the server is killed
)

// tell runs the story in a directory of its own.
func tell(ctx context.Context, out *screen, p programs, showLog bool) (err error) {
	dir, err := os.MkdirTemp("", "handoff-demo")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config, err := install(dir, p)
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	s := &story{out: out, address: address, config: config, program: p.handoff, dir: dir}
	if showLog {
		s.log = os.Stderr
	}
	defer func() {
		if s.server != nil {
			err = errors.Join(err, s.server.stop())
		}
	}()
	return s.tell(ctx)
}

// story is the demo on its way.
type story struct {
	out                           *screen
	address, config, program, dir string
	log                           *os.File // nil: what the server logs is not shown
	server                        *server
	peer                          *client.Client
}

func (s *story) tell(ctx context.Context) error {
	url := "http://" + s.address + "/agents/delivery/"
	s.out.step("Start the server: handoff serve -c examples/delivery/handoff.yaml")
	if err := s.start(ctx); err != nil {
		return err
	}
	var err error
	if s.peer, err = client.Dial(ctx, url, client.Options{}); err != nil {
		return fmt.Errorf("find the agent: %w", err)
	}
	card := s.peer.Card()
	s.out.say("process %d, %s", s.server.pid(), url)
	s.out.say("%s %s, %s", card.Name, card.Version, card.Provider.Organization)

	s.out.step("Send: %s", request)
	asked, _, err := s.follow(ctx, client.NewMessage(a2a.Text(request)), "")
	if err != nil {
		return err
	}
	if asked.Status.State != a2a.StateInputRequired || asked.Status.Message == nil || asked.Status.Message.Text() != question {
		return fmt.Errorf("the agent did not ask what it should have: %s", stateName(asked.Status.State))
	}
	s.out.say("The task waits. It is a row in a file, and waits for days if it must.")

	s.out.step("Answer: %s", answer)
	_, cut, err := s.follow(ctx, client.FollowUp(asked, a2a.Text(answer)), fatal)
	if err != nil {
		return err
	}
	s.out.say("kill -9 %d: the server is dead. The dock is booked, and nobody knows it yet.", s.server.pid())

	s.out.step("Start the server again")
	if err := s.start(ctx); err != nil {
		return err
	}
	s.out.say("process %d; it finds the task and runs the turn again", s.server.pid())
	finished, err := s.resume(ctx, cut, asked)
	if err != nil {
		return err
	}
	s.out.step("Check")
	return s.check(ctx, asked, finished)
}

func (s *story) start(ctx context.Context) error {
	var err error
	if s.log != nil {
		s.server, err = startServer(ctx, s.program, s.config, s.address, s.log)
	} else {
		s.server, err = startServer(ctx, s.program, s.config, s.address, nil)
	}
	return err
}

// follow sends a message and shows every event of the turn as it comes. At the
// status that says what until says it kills the server and returns the stream.
func (s *story) follow(ctx context.Context, m *a2a.Message, until string) (*a2a.Task, *client.Stream, error) {
	stream, err := s.peer.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: m})
	if err != nil {
		return nil, nil, fmt.Errorf("send message: %w", err)
	}
	var seen client.Accumulator
	for {
		event, err := stream.Next()
		if err == nil {
			err = seen.Add(event)
		}
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("follow the task: %w", err), stream.Close())
		}
		if event.Task != nil {
			s.out.say("task %s", event.Task.ID)
		}
		s.out.event(event)
		if u := event.StatusUpdate; until != "" && u != nil && u.Status.Message != nil && u.Status.Message.Text() == until {
			return seen.Task, stream, s.cut(stream)
		}
		if seen.Task != nil && (seen.Task.Status.State.Interrupted() || seen.Task.Status.State.Terminal()) && until == "" {
			return seen.Task, nil, stream.Close()
		}
	}
}

// cut kills the server and sees that the stream breaks.
func (s *story) cut(stream *client.Stream) error {
	if err := s.server.kill(); err != nil {
		return err
	}
	for {
		switch _, err := stream.Next(); {
		case errors.Is(err, client.ErrStreamCut):
			return nil
		case err != nil:
			return fmt.Errorf("the stream of a dead server: %w", err)
		}
	}
}

// resume goes on with the stream after the last event that was seen.
func (s *story) resume(ctx context.Context, cut *client.Stream, before *a2a.Task) (*a2a.Task, error) {
	stream, err := cut.Resume(ctx)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the task: %w", err)
	}
	for event, err := range stream.All() {
		if err != nil {
			return nil, fmt.Errorf("follow the task: %w", err)
		}
		s.out.event(event)
	}
	task, err := s.peer.GetTask(ctx, &a2a.GetTaskRequest{ID: before.ID})
	if err != nil {
		return nil, fmt.Errorf("get the task: %w", err)
	}
	return task, nil
}

// check compares the end with what it should be.
func (s *story) check(ctx context.Context, asked, finished *a2a.Task) error {
	if finished.Status.State != a2a.StateCompleted || finished.ContextID != asked.ContextID || len(finished.Artifacts) != 1 {
		return fmt.Errorf("the task is %s with %d artifacts", stateName(finished.Status.State), len(finished.Artifacts))
	}
	var booking struct {
		PurchaseOrder string `json:"purchaseOrder"`
		Dock          int    `json:"dock"`
		TailLift      bool   `json:"tailLift"`
	}
	if err := json.Unmarshal(finished.Artifacts[0].Parts[0].Data, &booking); err != nil {
		return fmt.Errorf("read the booking: %w", err)
	}
	if booking.PurchaseOrder != "PO-2026-0184" || booking.Dock != 2 || !booking.TailLift {
		return fmt.Errorf("the booking is %+v", booking)
	}
	s.out.say("The task is the one that asked, and it is COMPLETED.")
	list, err := s.peer.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: asked.ContextID})
	if err != nil {
		return fmt.Errorf("list the tasks: %w", err)
	}
	if list.TotalSize != 1 {
		return fmt.Errorf("the conversation has %d tasks", list.TotalSize)
	}
	s.out.say("It is the only task of its conversation.")
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(s.dir, "delivery.db"))+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return fmt.Errorf("open the calendar: %w", err)
	}
	defer func() { _ = db.Close() }()
	var bookings int
	var tasks sql.NullString
	err = db.QueryRowContext(ctx, `SELECT count(*), group_concat(task_id) FROM booking WHERE purchase_order = 'PO-2026-0184'`).Scan(&bookings, &tasks)
	if err != nil {
		return fmt.Errorf("read the calendar: %w", err)
	}
	if bookings != 1 || !strings.EqualFold(tasks.String, asked.ID) {
		return fmt.Errorf("the calendar has %d bookings, of the tasks %s", bookings, tasks.String)
	}
	s.out.say("The calendar has one booking for PO-2026-0184, although the turn ran twice.")
	return nil
}
