// Command agent books delivery slots at the docks of a warehouse. An exec agent
// runs it for each turn of a task: it reads the turn from standard input and
// prints steps, one a line. The calendar is a SQLite file that stands for the
// ERP system.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"handoff.example/handoff/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		// The last line of standard error is the reason of the failed task.
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	flags := flag.NewFlagSet("delivery-agent", flag.ContinueOnError)
	file := flags.String("calendar", "delivery.db", "the SQLite `file` with orders, docks and bookings; it is made when it is missing")
	today := flags.String("today", "", "the `day` before which nothing is booked, such as 2026-09-10; by default today")
	pace := flags.Duration("pace", 0, "how long each step takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	day := time.Now()
	if *today != "" {
		if day, err = time.Parse(time.DateOnly, *today); err != nil {
			return fmt.Errorf("read -today: %w", err)
		}
	}
	input, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read turn: %w", err)
	}
	turn, err := agent.ParseTurn(input)
	if err != nil {
		return err
	}
	calendar, err := openCalendar(ctx, *file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, calendar.close()) }()
	c := &clerk{
		calendar: calendar, turn: turn, today: day.Format(time.DateOnly),
		emit: func(s agent.Step) error {
			_, err := out.Write(append(s.AppendJSON(nil), '\n'))
			return err
		},
		pause: func() error { return sleep(ctx, *pace) },
	}
	return c.run(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.New("the task was stopped")
	case <-timer.C:
		return nil
	}
}
