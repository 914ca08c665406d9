// Package transfer moves all that a store keeps to another store, of the same
// kind or of the other.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/record"
	"handoff.example/handoff/internal/store/sqlite"
)

// Options of a move.
type Options struct {
	// Progress, when set, is told how many tasks and how many of their events
	// were read so far, and of how many: table is "tasks" or "events". It must
	// be fast.
	Progress func(table string, done, total int64)
}

// Report says what was moved.
type Report struct {
	Tasks    int64
	Events   int64 // of the tasks
	Claims   int64
	Grants   int64
	Jobs     int64
	Keys     int64 // API keys
	Webhooks int64
	Audit    int64 // entries of the audit log
	// Delegations are those of the tasks, Inbox the items of the
	// inbox, Docs the documents of other parts.
	Delegations, Inbox, Peers, Docs int64

	Released int64 // of the tasks: turns that a node had begun, and that the next nodes take over
	Took     time.Duration
}

// Errors that say what to do before a store can be moved.
var (
	// ErrInUse says that a node uses one of the stores.
	ErrInUse = record.ErrInUse
	// ErrNotEmpty says that the store that is to be filled has something.
	ErrNotEmpty = record.ErrNotEmpty
)

// place is a store that can be emptied into another, or filled from one.
type place interface {
	Export(ctx context.Context, put func(*record.Portion) error) error
	Import(ctx context.Context, fill func(put func(*record.Portion) error) error, check func(record.Counts) error) error
	Close() error
}

// Move copies all that the store from keeps to the store to, which has to be
// empty; each is sqlite:PATH or a postgres:// URL. It does so in one
// transaction: after an error, to is as empty as before, and a file that was not
// there is gone again. From stays as it is,
// but that its tables are brought up to date. A store that a node uses is
// ErrInUse, and no node can begin to use one of them meanwhile.
//
// Tasks keep their ids, their order in lists, and their times. Turns that a
// node had begun are Released, so that the next node goes on with them. Tokens
// of pages are not good in the new store.
func Move(ctx context.Context, from, to string, opts Options) (report Report, err error) {
	began := time.Now()
	if from == to {
		return report, errors.New("both are the same store")
	}
	source, err := open(ctx, from, false)
	if err != nil {
		return report, fmt.Errorf("open the store to read from: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	remove := unmake(to)
	target, err := open(ctx, to, true)
	if err != nil {
		return report, fmt.Errorf("open the store to fill: %w", err)
	}
	defer func() {
		if err = errors.Join(err, target.Close()); err != nil {
			err = errors.Join(err, remove())
		}
	}()

	m := &mover{progress: opts.Progress}
	err = target.Import(ctx, func(put func(*record.Portion) error) error {
		m.put = put
		if err := source.Export(ctx, m.pass); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		return m.finish()
	}, func(wrote record.Counts) error {
		if wrote != m.read {
			return fmt.Errorf("read %+v, but wrote %+v", m.read, wrote)
		}
		return nil
	})
	if err != nil {
		return report, fmt.Errorf("move store: %w", err)
	}
	m.report.Took = time.Since(began)
	return m.report, nil
}

// open opens a store; make says whether one that is not there is made.
func open(ctx context.Context, dsn string, make bool) (place, error) {
	scheme, path, _ := strings.Cut(dsn, ":")
	switch scheme {
	case "sqlite":
		if path == "" || path == ":memory:" {
			return nil, errors.New("sqlite: needs the path of a file")
		}
		if _, err := os.Stat(path); !make && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no store %s: %w", path, err)
		}
		s, err := sqlite.Open(ctx, path, sqlite.Options{Readers: 1})
		if _, locked := errors.AsType[*sqlite.LockedError](err); locked {
			return nil, fmt.Errorf("%w: stop the node first: %w", ErrInUse, err)
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	case "postgres", "postgresql":
		s, err := postgres.Open(ctx, dsn, postgres.Options{Readers: 1, Committers: 1})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, errors.New("write the store like sqlite:handoff.db or postgres://USER:PASSWORD@HOST:5432/DATABASE")
}

// unmake returns what removes the files of a store that is not there yet, once it
// is made and closed. Other stores it leaves alone.
func unmake(dsn string) func() error {
	scheme, path, _ := strings.Cut(dsn, ":")
	if scheme != "sqlite" {
		return func() error { return nil }
	}
	var made []string
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		_, err := os.Lstat(path + suffix)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			made = append(made, path+suffix)
		case suffix == "":
			return func() error { return nil }
		}
	}
	return func() error {
		var errs []error
		for _, file := range made {
			if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}

// mover hands portions from one store to the other, and checks that they are
// whole.
type mover struct {
	put      func(*record.Portion) error
	progress func(table string, done, total int64)

	heads  record.Heads
	read   record.Counts
	report Report
	open   map[int64]span // tasks whose events come, by their keys
}

// span is how far the events of a task are there.
type span struct {
	id         string
	have, last int64
}

// errIncomplete says that something is missing in the store that is read.
var errIncomplete = errors.New("the store is damaged")

func (m *mover) pass(p *record.Portion) error {
	if p.Heads != nil {
		m.heads = *p.Heads
	}
	if len(p.Tasks) > 0 {
		if err := m.close(); err != nil {
			return err
		}
		m.open = make(map[int64]span, len(p.Tasks))
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		m.open[t.Key] = span{id: t.ID, last: t.Seq}
		if t.Lease != 0 {
			t.Lease = store.Released
			m.report.Released++
		}
	}
	for i := range p.Events {
		if err := m.follow(&p.Events[i]); err != nil {
			return err
		}
	}
	m.read.Add(p)
	r := &m.report
	r.Tasks, r.Claims, r.Grants, r.Jobs, r.Keys, r.Audit = m.read.Tasks, m.read.Claims, m.read.Grants, m.read.Jobs, m.read.Keys, m.read.Audit
	r.Webhooks, r.Delegations, r.Inbox, r.Peers, r.Docs = m.read.Webhooks, m.read.Delegations, m.read.Inbox, m.read.Peers, m.read.Docs
	if m.progress != nil {
		m.progress("tasks", r.Tasks, m.heads.Tasks)
		m.progress("events", r.Events, m.heads.Events)
	}
	return m.put(p)
}

// follow checks that a row of events goes on where the one before it ended.
func (m *mover) follow(e *record.EventRow) error {
	events, err := record.Parse(e.Body, e.Seq)
	at, known := m.open[e.Task]
	if err != nil || !known || len(events) == 0 || events[0].Seq != at.have+1 {
		return fmt.Errorf("events of task %q before number %d: %w", at.id, e.Seq+1, errors.Join(errIncomplete, err))
	}
	at.have = e.Seq
	m.open[e.Task] = at
	m.report.Events += int64(len(events))
	return nil
}

// close checks that the events of the tasks so far are all there.
func (m *mover) close() error {
	for _, at := range m.open {
		if at.have != at.last {
			return fmt.Errorf("task %q has %d events, and %d of them are there: %w", at.id, at.last, at.have, errIncomplete)
		}
	}
	return nil
}

// finish checks that all of it was there.
func (m *mover) finish() error {
	if err := m.close(); err != nil {
		return err
	}
	if m.report.Tasks != m.heads.Tasks || m.report.Events != m.heads.Events {
		return fmt.Errorf("%d tasks with %d events are there, and not %d with %d: %w", m.report.Tasks, m.report.Events, m.heads.Tasks, m.heads.Events, errIncomplete)
	}
	return nil
}
