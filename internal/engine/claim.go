package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// claimKey is a claim as this node knows it.
type claimKey struct{ tenant, owner, agent, key string }

func keyOf(c *store.Claim) claimKey { return claimKey{c.Tenant, c.Owner, c.Agent, c.Key} }

// claimFor returns the claim that a message makes, nil when repetitions are not
// recognized (A2A §3.3.1).
func (e *Engine) claimFor(q *Request) (*store.Claim, error) {
	tenant, owner, ok := q.Scope.Owner()
	switch q.Spec.Idempotency {
	case IdempotencyAuto:
		ok = ok && q.Authenticated
	case IdempotencyOff:
		ok = false
	}
	if !ok {
		return nil, nil
	}
	message := *q.Message
	key := "message:" + message.MessageID
	business, err := businessKey(&message)
	if err != nil {
		return nil, err
	}
	if business != "" {
		key = "key:" + business
		message.MessageID = ""
	}
	hash := hashOf(&message)
	return &store.Claim{
		Tenant: tenant, Owner: owner, Agent: q.Spec.ID, Key: key,
		Hash: hash[:], Lease: e.epoch, Expires: time.Now().Add(q.Spec.Claims),
	}, nil
}

// hashOf returns a hash of what a message says, however a binding or a client
// wrote the JSON of its data. Whole numbers count digit by digit.
func hashOf(m *a2a.Message) [sha256.Size]byte {
	text := jsontext.Value(m.AppendJSON(nil))
	if err := text.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.AllowDuplicateNames(true)); err != nil {
		text = m.AppendJSON(nil) // more than the form allows; the bytes have to do
	}
	return sha256.Sum256(text)
}

// businessKey returns metadata.idempotencyKey of a message, "" when it has none.
func businessKey(m *a2a.Message) (string, error) {
	var named struct {
		Key a2a.JSON `json:"idempotencyKey"`
	}
	if m.Metadata == nil || json.Unmarshal(m.Metadata, &named) != nil || named.Key == nil {
		return "", nil
	}
	var key string
	if json.Unmarshal(named.Key, &key) != nil || key == "" || len(key) > a2a.MaxIDLength {
		return "", a2a.Invalid("message.metadata.idempotencyKey", "must be a text of 1 to %d bytes", a2a.MaxIDLength)
	}
	return key, nil
}

// duplicate answers a message that was sent before. Where it has no outcome yet,
// either another node is at it, or a dead one was; making the claim tells which.
func (e *Engine) duplicate(ctx context.Context, q *Request, claim *store.Claim) (*accepted, error) {
	earlier, err := e.store.Claim(ctx, q.Scope, q.Spec.ID, claim.Key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if earlier.Task == "" && earlier.Reply == nil {
		e.mu.Lock()
		r := e.claims[keyOf(claim)]
		e.mu.Unlock()
		if r == nil {
			return nil, sameMessage(q, earlier, claim)
		}
	}
	return e.joinClaim(ctx, q, earlier, claim)
}

// sameMessage refuses another message under a key that is taken.
func sameMessage(q *Request, earlier, mine *store.Claim) error {
	if string(earlier.Hash) == string(mine.Hash) {
		return nil
	}
	if key, _ := businessKey(q.Message); key != "" {
		return a2a.Invalid("message.metadata.idempotencyKey", "was used for another message")
	}
	return a2a.Invalid("message.messageId", "was used for another message")
}

// makeClaim claims a message before anything is done about it, so that it is
// done once. It returns what an earlier message came to when there was one, and
// reports as abandoned a message that a dead node had begun to handle.
func (e *Engine) makeClaim(ctx context.Context, q *Request, r *run, claim *store.Claim) (a *accepted, abandoned bool, err error) {
	e.mu.Lock()
	if earlier := e.claims[keyOf(claim)]; earlier != nil {
		theirs := earlier.claim
		e.mu.Unlock()
		a, err = e.joinClaim(ctx, q, theirs, claim)
		return a, false, err
	}
	e.claims[keyOf(claim)] = r
	e.mu.Unlock()
	c := &store.Change{Claim: claim, Respect: !e.away.over(e.cfg.Lease)}
	if err = e.store.Commit(ctx, c); err == nil {
		return nil, c.Abandoned, nil
	}
	e.mu.Lock()
	r.claim = nil
	delete(e.claims, keyOf(claim))
	e.mu.Unlock()
	if duplicate, ok := errors.AsType[*store.DuplicateError](err); ok {
		r.err = errRepeated
		close(r.known)
		a, err = e.joinClaim(ctx, q, &duplicate.Claim, claim)
		return a, false, err
	}
	r.err = unavailable(err)
	close(r.known)
	return nil, false, r.err
}

var errRepeated = &a2a.Error{
	Code: a2a.CodeUnavailable, Message: "The same message is being handled; send it again", RetryAfter: time.Second,
}

func (e *Engine) releaseClaim(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.claims[keyOf(r.claim)] == r {
		delete(e.claims, keyOf(r.claim))
	}
}

// joinClaim lets a repeated message share what the first one came to.
func (e *Engine) joinClaim(ctx context.Context, q *Request, earlier, mine *store.Claim) (*accepted, error) {
	if err := sameMessage(q, earlier, mine); err != nil {
		return nil, err
	}
	e.cfg.Observer.Duplicate(q.Spec.ID)
	for looked := time.Now(); earlier.Task == "" && earlier.Reply == nil; {
		var err error
		if earlier, err = e.awaitClaim(ctx, q, mine); err != nil {
			return nil, err
		}
		if earlier.Task == "" && earlier.Reply == nil && time.Since(looked) > e.cfg.Lease {
			looked = time.Now()
			if alive, err := e.alive(ctx, earlier.Lease); err != nil || !alive {
				return nil, cmp.Or(unavailable(err), error(errRepeated))
			}
		}
	}
	if earlier.Reply != nil {
		reply := &a2a.Message{}
		if err := a2a.Unmarshal(earlier.Reply, reply); err != nil {
			return nil, err
		}
		return &accepted{reply: reply}, nil
	}
	watcher := e.watch(earlier.Task)
	row, err := e.findTask(ctx, q.Scope, q.Spec, earlier.Task)
	if err != nil {
		watcher.close()
		return nil, err
	}
	watcher.from(row, row.Seq)
	return &accepted{watcher: watcher, id: row.ID, number: min(row.Messages, 1), seq: row.Seq}, nil
}

// settleLeftOver settles a claim of this node that nobody works on any more: the
// store failed when that was to be done. It returns what the sender is told.
func (e *Engine) settleLeftOver(ctx context.Context, q *Request, claim *store.Claim) error {
	if q.Spec.OnInterrupt == InterruptResume {
		if err := e.store.Commit(ctx, &store.Change{Settle: claim}); err != nil {
			return unavailable(err)
		}
		return errRepeated
	}
	r, err := e.newTask(ctx, q, claim)
	if err != nil {
		return err
	}
	ticket, err := e.admit(q.Spec, r.row.Tenant, r.row.Owner)
	if err != nil {
		return err
	}
	r.interrupted(ticket)
	return errRepeated
}

// alive reports whether the node of an epoch is.
func (e *Engine) alive(ctx context.Context, epoch int64) (bool, error) {
	nodes, err := e.store.Nodes(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(nodes, func(n store.Node) bool { return n.Epoch == epoch && n.Alive }), nil
}

// awaitClaim waits until an unanswered claim is answered, and returns it.
func (e *Engine) awaitClaim(ctx context.Context, q *Request, claim *store.Claim) (*store.Claim, error) {
	e.mu.Lock()
	r := e.claims[keyOf(claim)]
	e.mu.Unlock()
	if r != nil {
		select {
		case <-r.known:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// Beaten by another node: what that one makes of it counts.
		if r.err != nil && !errors.Is(r.err, errRepeated) {
			return nil, r.err
		}
	}
	answered, err := e.store.Claim(ctx, q.Scope, q.Spec.ID, claim.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errRepeated // given up; the next attempt makes it anew
	case err != nil:
		return nil, unavailable(err)
	case answered.Task != "" || answered.Reply != nil || r != nil:
		return answered, nil
	case answered.Lease == e.epoch:
		return nil, e.settleLeftOver(ctx, q, answered)
	}
	// Another node works on it, and this one hears nothing of claims.
	select {
	case <-time.After(50 * time.Millisecond):
		return answered, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
