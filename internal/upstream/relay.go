package upstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// Spaces of the store (see store.Docs).
const (
	spaceHolder = "mcp.holder" // nodes that hold calls, as long as they do
	spaceRound  = "mcp.round"  // rounds of calls that another node holds
)

const (
	lookForRounds = 250 * time.Millisecond
	roundsAtOnce  = 1000 // that are read
	// holderTime is how long a node counts as there without a sign of life, and
	// holderSigns how often it gives one.
	holderTime  = 15 * time.Second
	holderSigns = holderTime / 3
	// sendTime is how long a round may take to get into the store.
	sendTime = 15 * time.Second
	// storeTime is how long a store may take before what has no need to wait goes on.
	storeTime = 2 * time.Second
	// answerTime is how long an answer may take to get into the store.
	answerTime = 15 * time.Second
	// fetchTime is how long an answer is there for the node that waits for it.
	fetchTime = 10 * time.Second
)

// How long documents last that nobody removes. The clocks of nodes and store may be
// almost as far apart. That a round was taken has to be known for as long as a call
// may take.
const (
	documentTime = 5 * time.Minute
	takenTime    = 24 * time.Hour
)

// relay carries rounds of held calls to the nodes that hold them: a client goes on at
// whatever node it comes to (MRT-09). nil is that of a node which is alone.
type relay struct {
	docs store.Docs
	log  *slog.Logger
	stop chan struct{}
	work sync.WaitGroup

	mu     sync.Mutex
	holder *holder // nil: no call is held
	closed bool
}

// holder is this node from the first call that it holds until it holds none. One
// document says that it is there; its id is in the states of its calls.
type holder struct {
	doc   *store.Doc
	known chan struct{}            // closed when the other nodes were told
	calls map[string]*legacyServer // by state; under the lock of relay

	rounds map[string]context.CancelFunc // by key, until their documents are gone
	work   sync.WaitGroup                // rounds
}

func (h *holder) id() string { return h.doc.Key }

// round is what the document of a round begins with. A message follows on the next
// line: the request, and later the response.
type round struct {
	Server  string          `json:"server,omitzero"`
	Caller  *auth.Principal `json:"caller,omitzero"`
	Timeout int64           `json:"timeout,omitzero"` // in nanoseconds
	State   roundState      `json:"state,omitzero"`
	Kind    string          `json:"kind,omitzero"` // of the error in place of an answer; "": none
}

type roundState string

const (
	roundAsked    roundState = "asked"
	roundTaken    roundState = "taken"
	roundAnswered roundState = "answered"
)

func (o *round) append(message []byte) []byte {
	body, _ := json.Marshal(o, jsontext.AllowInvalidUTF8(true)) // texts and numbers alone
	return append(append(body, '\n'), message...)
}

func parseRound(body []byte) (o *round, message []byte) {
	head, message, _ := bytes.Cut(body, []byte{'\n'})
	o = &round{}
	if json.Unmarshal(head, o) != nil {
		return &round{}, nil
	}
	return o, message
}

func newRelay(docs store.Docs, log *slog.Logger) *relay {
	if docs == nil {
		return nil
	}
	return &relay{docs: docs, log: log, stop: make(chan struct{})}
}

// hold returns the state of a call that is to be held. known is closed once its
// client may come to any node; drop ends it.
func (r *relay) hold(l *legacyServer) (state string, known <-chan struct{}) {
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	if r == nil || r.closed {
		known := make(chan struct{})
		close(known)
		return heldPrefix + rand.Text(), known
	}
	if r.holder == nil {
		h := &holder{
			doc:   &store.Doc{Space: spaceHolder, Key: rand.Text()},
			known: make(chan struct{}), calls: map[string]*legacyServer{}, rounds: map[string]context.CancelFunc{},
		}
		r.holder = h
		r.work.Go(func() { r.serve(h) })
	}
	state = heldPrefix + r.holder.id() + "." + rand.Text()
	r.holder.calls[state] = l
	return state, r.holder.known
}

// drop says that a call is held no more.
func (r *relay) drop(state string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder != nil {
		delete(r.holder.calls, state)
	}
}

// close ends it once the calls were given up.
func (r *relay) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
	}
	r.mu.Unlock()
	r.work.Wait()
}

// elsewhere returns the node that holds the call of a state, if it is not this one.
func (r *relay) elsewhere(state string) (id string, ok bool) {
	id, _, ok = strings.Cut(strings.TrimPrefix(state, heldPrefix), ".")
	if r == nil || !ok || !strings.HasPrefix(state, heldPrefix) || len(id) > 100 {
		return "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return id, r.holder == nil || r.holder.id() != id
}

// serve looks for rounds that other nodes have got, as long as calls are held here.
func (r *relay) serve(h *holder) {
	every := time.NewTicker(lookForRounds)
	defer every.Stop()
	defer r.remove(h.doc)
	defer h.work.Wait()
	r.announce(h)
	close(h.known)
	for told := time.Now(); ; {
		select {
		case <-r.stop:
			h.forget(nil)
			return
		case <-every.C:
		}
		if time.Since(told) >= holderSigns {
			told = time.Now()
			r.announce(h)
		}
		r.look(h)
		if r.over(h) {
			return
		}
	}
}

// announce says that calls are held here.
func (r *relay) announce(h *holder) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	for range 2 { // a document that was removed is made anew
		if r.put(ctx, h.doc, nil, documentTime) {
			return
		}
	}
	r.log.Warn("the other nodes cannot be told that calls of MCP servers wait here for their clients")
}

// look begins with rounds that are new, and gives up those whose clients have left.
func (r *relay) look(h *holder) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	there := map[string]bool{}
	for after := ""; ; {
		docs, err := r.docs.Docs(ctx, everything(), spaceRound, h.id()+"/", after, roundsAtOnce)
		if err != nil {
			return // the next look will do
		}
		for i := range docs {
			after = docs[i].Key
			there[after] = true
			if h.rounds[after] == nil {
				ctx, cancel := context.WithCancel(context.Background())
				h.rounds[after] = cancel
				h.work.Go(func() { r.carry(ctx, h, &docs[i]) })
			}
		}
		if len(docs) < roundsAtOnce {
			h.forget(there)
			return
		}
	}
}

// forget ends rounds whose documents are not there.
func (h *holder) forget(there map[string]bool) {
	for key, cancel := range h.rounds {
		if !there[key] {
			cancel()
			delete(h.rounds, key)
		}
	}
}

// over reports whether there is nothing more to look for. The next call that is held
// begins another holder.
func (r *relay) over(h *holder) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(h.calls)+len(h.rounds) > 0 {
		return false
	}
	r.holder = nil
	return true
}

// carry takes a round and writes what comes of it. One that its node has withdrawn
// is not begun.
func (r *relay) carry(ctx context.Context, h *holder, doc *store.Doc) {
	asked, request := parseRound(doc.Body)
	if asked.State != roundAsked || !r.put(ctx, doc, (&round{State: roundTaken}).append(nil), takenTime) {
		return
	}
	r.answer(ctx, doc, r.run(ctx, h, asked, request))
}

// answer writes what a round has come to, or at least that this is not known, and
// leaves it until it was fetched or nobody seems to do that. The context is over when
// the document is gone, or the node goes.
func (r *relay) answer(ctx context.Context, doc *store.Doc, body []byte) {
	written := r.write(ctx, doc, body)
	if !written && doc.Version > 0 { // it is there, and waits
		written = r.write(ctx, doc, failedRound(nil, errUnwritten))
	}
	if !written {
		r.remove(doc) // which says the same
		return
	}
	fetched := time.NewTimer(fetchTime)
	defer fetched.Stop()
	select {
	case <-ctx.Done():
	case <-fetched.C:
		r.remove(doc)
	}
}

// errUnwritten says that a round was made, and the store did not take the answer.
var errUnwritten = &Error{
	Kind:  ErrOutcomeUnknown,
	Reply: &mcp.Error{Code: mcp.CodeOutcomeUnknown, Message: "The answer of the server was lost; whether it has done what was asked is not known"},
}

func (r *relay) write(ctx context.Context, doc *store.Doc, body []byte) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	return r.put(ctx, doc, body, documentTime)
}

// run makes a round as if its client had come here.
func (r *relay) run(ctx context.Context, h *holder, asked *round, request []byte) []byte {
	m, err := mcp.Scan(request, mcp.Limits{Depth: 1 << 16})
	if err != nil {
		return failedRound(nil, err)
	}
	r.mu.Lock()
	l := h.calls[m.ParamString("requestState")]
	r.mu.Unlock()
	if l == nil || l.name != asked.Server {
		return (&round{State: roundAnswered}).append(mcp.AppendError(nil, m.ID, notHeld()))
	}
	answer, err := l.resume(ctx, &Request{Message: m, Caller: asked.Caller, Timeout: time.Duration(asked.Timeout)})
	if err == nil {
		var last *mcp.Message
		if last, err = lastOf(answer); err == nil {
			return (&round{State: roundAnswered}).append(last.Body)
		}
	}
	return failedRound(m.ID, err)
}

// put writes a document, and tries again until the store has taken it. It reports
// false where another node was faster, the context is over, or this node goes.
func (r *relay) put(ctx context.Context, doc *store.Doc, body []byte, lasts time.Duration) bool {
	doc.Body = body
	for {
		doc.Expires = time.Now().Add(lasts)
		err := r.docs.PutDoc(ctx, doc)
		if errors.Is(err, store.ErrConflict) {
			var now *store.Doc
			if now, err = r.docs.Doc(ctx, everything(), doc.Space, doc.Key); err == nil {
				doc.Version = now.Version
				return bytes.Equal(now.Body, body) // it was taken, and nobody heard of it
			}
		}
		switch {
		case err == nil:
			return true
		case errors.Is(err, store.ErrNotFound):
			doc.Version = 0
			return false
		}
		select {
		case <-time.After(lookForRounds):
		case <-ctx.Done():
			return false
		case <-r.stop: // it was tried
			return false
		}
	}
}

// expire removes a document unless it has changed.
func (r *relay) expire(ctx context.Context, doc *store.Doc) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	over := *doc
	over.Expires = time.Now()
	_ = r.docs.PutDoc(ctx, &over) // it goes with time else
}

// remove removes a document, which else goes with time.
func (r *relay) remove(doc *store.Doc) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	_ = r.docs.DeleteDoc(ctx, everything(), doc.Space, doc.Key)
}
