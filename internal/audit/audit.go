// Package audit records who did what, to which task, from where and with what
// result. Entries are only ever added. Those of callers gather for a moment
// before they are stored, so that nobody waits for them; those of operators are
// stored before their request is answered.
package audit

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/store"
)

// Entry is what one request did. Empty fields are not part of it.
type Entry struct {
	At        time.Time `json:"time"` // when the request was answered
	Tenant    string    `json:"tenant,omitempty"`
	Subject   string    `json:"subject,omitempty"` // none: an anonymous caller
	Issuer    string    `json:"issuer,omitempty"`  // of the credential
	Key       string    `json:"key,omitempty"`     // id of the API key
	Role      string    `json:"role"`
	Address   string    `json:"address,omitempty"` // of the client
	Operation string    `json:"operation"`
	Binding   string    `json:"binding"` // jsonrpc, http+json, grpc, api or link
	Version   string    `json:"version,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Task      string    `json:"task,omitempty"`
	Context   string    `json:"context,omitempty"`
	Target    string    `json:"target,omitempty"` // of the node's API: what else was named, such as a key
	Result    string    `json:"result"`           // OK, or the name of the error
	Request   string    `json:"request"`          // id of the request
	Trace     string    `json:"trace,omitempty"`
	// Content is what the caller sent, where that is recorded.
	Content jsontext.Value `json:"content,omitempty"`
}

// OK is the result of what has succeeded.
const OK = "OK"

// MaxContent is the largest content that is recorded, in bytes. A larger one is
// recorded as its size.
const MaxContent = 64 << 10

// Level says what is recorded.
type Level uint8

// What is recorded.
const (
	Off     Level = iota
	Changes       // what changes something
	All           // what reads too
)

// Settings are what may change while a log is in use.
type Settings struct {
	Level     Level
	Content   bool          // records what callers send
	Retention time.Duration // 0: for ever
}

// Bounds of a log.
const (
	gather      = 100 * time.Millisecond // for which entries are held back
	retry       = time.Second            // after a failure of the store
	batchRows   = 256                    // of one transaction
	maxBuffered = 20_000                 // entries while the store is away
	sweepEvery  = time.Minute
	sweepRows   = 500
)

// Log is the audit log of a node. Its methods are safe for concurrent use, and
// those of a nil Log do nothing.
type Log struct {
	store    store.Audits
	log      *slog.Logger
	settings atomic.Pointer[Settings]
	lost     atomic.Int64

	writing sync.Mutex // held while rows go to the store, which keeps their order

	mu      sync.Mutex
	waiting []store.AuditRow

	some    chan struct{} // has one element while entries wait
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a log that has not been started.
func New(s store.Audits, logger *slog.Logger) *Log {
	l := &Log{store: s, log: logger, some: make(chan struct{}, 1)}
	l.settings.Store(&Settings{})
	return l
}

// Set changes the settings.
func (l *Log) Set(s Settings) { l.settings.Store(&s) }

// Wants reports whether requests are recorded that change something, or those
// that do not.
func (l *Log) Wants(changes bool) bool {
	if l == nil {
		return false
	}
	level := l.settings.Load().Level
	return level == All || level == Changes && changes
}

// Content reports whether what callers send is recorded.
func (l *Log) Content() bool {
	if l == nil {
		return false
	}
	s := l.settings.Load()
	return s.Content && s.Level != Off
}

// Lost returns how many entries were given up because the store was away for too
// long.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Start begins to store entries, and to remove old ones.
func (l *Log) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.running.Go(func() { l.write(ctx) })
	l.running.Go(func() { l.sweep(ctx) })
}

// Stop stores what is waiting and ends the work of the log.
func (l *Log) Stop(ctx context.Context) error {
	if l == nil || l.stop == nil {
		return nil
	}
	l.stop()
	l.running.Wait()
	if err := l.flush(ctx); err != nil {
		return fmt.Errorf("store the last %d entries of the audit log: %w", l.held(), err)
	}
	return nil
}

// Record adds an entry. It is stored within a moment: a crash loses the entries
// of the last 100 milliseconds.
func (l *Log) Record(e *Entry) {
	row := rowOf(e)
	l.mu.Lock()
	full := len(l.waiting) >= maxBuffered
	if !full {
		l.waiting = append(l.waiting, row)
	}
	l.mu.Unlock()
	if full {
		if l.lost.Add(1) == 1 {
			l.log.Error("The store is away, and entries of the audit log are lost", "limit", maxBuffered)
		}
		return
	}
	select {
	case l.some <- struct{}{}:
	default:
	}
}

// Commit adds an entry and returns when it is stored, and all before it.
func (l *Log) Commit(ctx context.Context, e *Entry) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.drain(ctx); err != nil {
		return err
	}
	if err := l.store.AppendAudit(ctx, []store.AuditRow{rowOf(e)}); err != nil {
		return fmt.Errorf("append to audit log: %w", err)
	}
	return nil
}

func rowOf(e *Entry) store.AuditRow {
	if len(e.Content) > MaxContent {
		e.Content = fmt.Appendf(nil, `{"bytes":%d}`, len(e.Content))
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	if e.Content == nil {
		return store.AuditRow{At: e.At, Subject: e.Subject, Task: e.Task, Body: appendEntry(make([]byte, 0, 384), e)}
	}
	body, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		e.Content = nil // everything else is text
		body, _ = json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	}
	return store.AuditRow{At: e.At, Subject: e.Subject, Task: e.Task, Body: body}
}

// appendEntry appends an entry without content as it is marshaled.
func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(e.At.AppendFormat(append(dst, `{"time":"`...), time.RFC3339Nano), '"')
	add := func(name, value string, always bool) {
		if value != "" || always {
			dst = append(append(append(dst, `,"`...), name...), `":`...)
			dst, _ = jsontext.AppendQuote(dst, value) // which mends what is not UTF-8
		}
	}
	add("tenant", e.Tenant, false)
	add("subject", e.Subject, false)
	add("issuer", e.Issuer, false)
	add("key", e.Key, false)
	add("role", e.Role, true)
	add("address", e.Address, false)
	add("operation", e.Operation, true)
	add("binding", e.Binding, true)
	add("version", e.Version, false)
	add("agent", e.Agent, false)
	add("task", e.Task, false)
	add("context", e.Context, false)
	add("target", e.Target, false)
	add("result", e.Result, true)
	add("request", e.Request, true)
	add("trace", e.Trace, false)
	return append(dst, '}')
}

func (l *Log) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

func (l *Log) flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.drain(ctx)
}

// drain stores what waits, in transactions of a bounded size. l.writing is held.
func (l *Log) drain(ctx context.Context) error {
	for {
		l.mu.Lock()
		batch := l.waiting[:min(len(l.waiting), batchRows)]
		l.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		if err := l.store.AppendAudit(ctx, batch); err != nil {
			return fmt.Errorf("append to audit log: %w", err)
		}
		l.mu.Lock()
		if l.waiting = l.waiting[len(batch):]; len(l.waiting) == 0 {
			l.waiting = nil
		}
		l.mu.Unlock()
	}
}

// write stores entries once they have gathered for a moment.
func (l *Log) write(ctx context.Context) {
	pause := gather
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.some:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = gather
		if err := l.flush(context.WithoutCancel(ctx)); err != nil {
			l.log.Warn("Entries of the audit log could not be stored; they are kept and tried again", "waiting", l.held(), "error", err)
			pause = retry
			select {
			case l.some <- struct{}{}:
			default:
			}
		}
	}
}

// sweep removes what is older than it is kept.
func (l *Log) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if kept := l.settings.Load().Retention; kept > 0 {
			if err := l.expire(ctx, time.Now().Add(-kept)); err != nil && ctx.Err() == nil {
				l.log.Warn("Old entries of the audit log could not be removed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (l *Log) expire(ctx context.Context, before time.Time) error {
	for {
		n, err := l.store.ExpireAudit(ctx, before, sweepRows)
		if err != nil || n < sweepRows {
			return err
		}
	}
}

// Stored is an entry as the store has it.
type Stored struct {
	ID   int64
	Body []byte // of an Entry, as JSON
}

// Read returns entries in the order in which they were stored.
func (l *Log) Read(ctx context.Context, q store.AuditQuery) ([]Stored, error) {
	_ = l.flush(ctx) // what waits comes later if it cannot be stored now
	rows, err := l.store.Audit(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	list := make([]Stored, len(rows))
	for i := range rows {
		list[i] = Stored{rows[i].ID, rows[i].Body}
	}
	return list, nil
}
