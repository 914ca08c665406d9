package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/store"
)

// The methods of run in this file are its agent.Runtime: what the agent calls.

var _ agent.Runtime = (*run)(nil)

// Emit queues a step.
func (r *run) Emit(ctx context.Context, s agent.Step) error {
	if err := checkStep(&s); err != nil {
		return err
	}
	size := stepSize(&s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full(size) {
		stop := r.wakeWith(ctx)
		defer stop()
		for !r.ended && ctx.Err() == nil && r.full(size) {
			r.change.Wait()
		}
	}
	switch {
	case r.ended || r.returned || r.halted != nil:
		return agent.ErrEnded
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	first := r.emitted == 0 && r.row.Key == 0
	r.emitted++
	if limit := r.overLimit(&s, size); limit != nil {
		r.stopFor(limit)
		return limit
	}
	r.queue = append(r.queue, s)
	r.bytes += size
	r.ended = s.Ends()
	r.touch()
	r.change.Broadcast()
	if s.Message != nil && !first {
		return agent.ErrMessageFirst
	}
	return nil
}

// full reports whether a step of that size has to wait.
func (r *run) full(size int) bool {
	return len(r.queue) > 0 && (len(r.queue) >= queueSteps || r.bytes+size > queueBytes)
}

// wakeWith lets the end of ctx wake whoever waits for a change.
func (r *run) wakeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.change.Broadcast()
	})
}

// Skip passes over a step that an earlier attempt has committed.
func (r *run) Skip(s agent.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = append(r.skipped, s)
	r.touch()
}

// Flush waits until everything emitted so far is committed, but for a step that
// parks the task: that is committed when Run has returned.
func (r *run) Flush(ctx context.Context) error {
	stop := r.wakeWith(ctx)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	upTo := r.emitted
	if r.parks() {
		upTo--
	}
	for r.settled < upTo {
		switch {
		case r.halted != nil:
			return r.halted
		case r.dropped:
			return agent.ErrEnded
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		r.change.Wait()
	}
	return nil
}

// Pending returns the messages that no turn has been given yet.
func (r *run) Pending(ctx context.Context) ([]a2a.Message, error) {
	if r.key() == 0 {
		return nil, nil
	}
	row, err := r.store.Task(ctx, r.id)
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	if row.Unread() == 0 {
		return nil, nil
	}
	return r.e.messages(ctx, row.Key, row.Read+1)
}

// History returns the committed history.
func (r *run) History(ctx context.Context) ([]a2a.Message, error) {
	const newest = 1000
	if r.key() == 0 {
		return nil, nil // nothing is committed yet
	}
	item, err := r.store.Read(ctx, r.id, store.Want{Messages: newest})
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	t, err := taskOf(item)
	if err != nil {
		return nil, err
	}
	return t.History, nil
}

// Artifacts returns the committed artifacts.
func (r *run) Artifacts(ctx context.Context) ([]a2a.Artifact, error) {
	if r.key() == 0 {
		return nil, nil
	}
	item, err := r.store.Read(ctx, r.id, store.Want{Artifacts: true})
	if err != nil {
		return nil, fmt.Errorf("read artifacts: %w", err)
	}
	t, err := taskOf(item)
	if err != nil {
		return nil, err
	}
	return t.Artifacts, nil
}

// Result returns a kept result.
func (r *run) Result(ctx context.Context, key string) (a2a.JSON, error) {
	if err := r.visible(ctx); err != nil {
		return nil, err
	}
	return r.store.Result(ctx, r.key(), key)
}

// SaveResult keeps a result, fenced like every write of the turn.
func (r *run) SaveResult(ctx context.Context, key string, value a2a.JSON) error {
	if strings.HasPrefix(key, keptPrefix) {
		return fmt.Errorf("keys that begin with %s are the engine's own", keptPrefix)
	}
	if err := r.visible(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	row := r.row
	r.mu.Unlock()
	return r.store.Commit(ctx, &store.Change{
		Task:   row.Key,
		Guard:  store.Guard{States: store.Live, Lease: &row.Lease, Turn: row.Turn, Attempt: row.Attempt},
		Result: &store.Result{Key: key, Value: value},
	})
}

// visible makes the task visible now: what is kept has to belong to something.
func (r *run) visible(ctx context.Context) error {
	r.mu.Lock()
	r.late = true
	r.change.Broadcast()
	r.mu.Unlock()
	select {
	case <-r.known:
		if r.err != nil || r.reply != nil {
			return agent.ErrEnded
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) key() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row.Key
}

// maxFreeDepth is how deep free JSON of a step may nest. It travels within the
// objects of the protocol, and what the store gives back has to be readable.
const maxFreeDepth = a2a.MaxDepth - 12

// checkStep refuses a step that could not be sent, or not be read again.
func checkStep(s *agent.Step) error {
	if err := s.Validate(); err != nil {
		return err
	}
	check := func(what string, free a2a.JSON) error {
		if depth(free) > maxFreeDepth {
			return fmt.Errorf("%s nests deeper than %d levels", what, maxFreeDepth)
		}
		return nil
	}
	for _, parts := range [...][]a2a.Part{
		partsOf(s.Working), partsOf(s.Message), partsOf(s.Complete), partsOf(s.Fail), partsOf(s.Reject),
	} {
		if err := checkDepths(check, parts); err != nil {
			return err
		}
	}
	switch {
	case s.Artifact != nil:
		return errors.Join(check("the metadata", s.Artifact.Metadata), checkDepths(check, s.Artifact.Parts))
	case s.Ask != nil:
		return errors.Join(check("the schema", s.Ask.Schema), check("the metadata", s.Ask.Metadata), checkDepths(check, s.Ask.Parts))
	case s.Authorize != nil:
		return errors.Join(check("the metadata", s.Authorize.Metadata), checkDepths(check, s.Authorize.Parts))
	}
	for _, c := range [...]*agent.Content{s.Working, s.Message, s.Complete, s.Fail, s.Reject} {
		if c != nil {
			return check("the metadata", c.Metadata)
		}
	}
	return nil
}

func partsOf(c *agent.Content) []a2a.Part {
	if c == nil {
		return nil
	}
	return c.Parts
}

func checkDepths(check func(string, a2a.JSON) error, parts []a2a.Part) error {
	for i := range parts {
		if err := errors.Join(check("the data", parts[i].Data), check("the metadata", parts[i].Metadata)); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// depth returns how deep valid JSON nests.
func depth(value a2a.JSON) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// stepSize is roughly how much a step holds, in bytes.
func stepSize(s *agent.Step) int {
	n := len(s.State)
	for _, c := range [...]*agent.Content{s.Working, s.Message, s.Complete, s.Fail, s.Reject} {
		if c != nil {
			n += contentSize(c)
		}
	}
	if a := s.Artifact; a != nil {
		n += partsSize(a.Parts) + len(a.Metadata) + len(a.ID) + len(a.Name) + len(a.Description)
	}
	if s.Ask != nil {
		n += contentSize(&s.Ask.Content) + len(s.Ask.Schema)
	}
	if s.Authorize != nil {
		n += contentSize(&s.Authorize.Content)
	}
	return n
}

func contentSize(c *agent.Content) int { return partsSize(c.Parts) + len(c.Metadata) }

func partsSize(parts []a2a.Part) int {
	n := 0
	for i := range parts {
		p := &parts[i]
		n += len(p.Text) + len(p.Raw) + len(p.URL) + len(p.Data) + len(p.Metadata) + len(p.Filename) + len(p.MediaType)
	}
	return n
}
