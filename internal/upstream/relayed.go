package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/store"
)

// lookForHolder is after how many looks for an answer it is asked whether the node is
// there that is to give it.
const lookForHolder = 4

// errHolder says that it is not the server that has failed, but what is between it
// and this node.
var errHolder = errors.New("the node that holds the call does not answer")

// relayed is the answer to a round that another node makes.
type relayed struct {
	r       *relay
	t       *target
	ctx     context.Context
	request *mcp.Message
	holder  *store.Doc // of the other node, as it was seen last
	seen    time.Time  // when that was new
	doc     *store.Doc // of the round
	taken   bool       // the other node has begun with it
	over    bool
}

// send hands a round to the node that holds its call. What the round has to be is
// checked there.
func (r *relay) send(ctx context.Context, t *target, holder string, q *Request) (Answer, error) {
	there, err := r.docs.Doc(ctx, everything(), spaceHolder, holder)
	if errors.Is(err, store.ErrNotFound) {
		return single(failure(q.Message.ID, notHeld()))
	}
	if err != nil {
		return nil, &Error{
			Server: t.name, Kind: ErrUnavailable, Err: fmt.Errorf("%w: %w", errHolder, err),
			Reply: &mcp.Error{Code: mcp.CodeUnavailable, Message: "The call cannot go on at the moment; send the answers again"},
		}
	}
	a := &relayed{
		r: r, t: t, ctx: ctx, request: q.Message, holder: there, seen: time.Now(),
		doc: &store.Doc{Space: spaceRound, Key: holder + "/" + rand.Text()},
	}
	asked := &round{Server: t.name, Timeout: int64(q.Timeout), State: roundAsked}
	if p := q.Caller; p != nil {
		a.doc.Tenant, a.doc.Owner = p.Tenant, p.Subject
		asked.Caller = &auth.Principal{Tenant: p.Tenant, Issuer: p.Issuer, Subject: p.Subject}
	}
	write, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if !r.put(write, a.doc, asked.append(q.Message.Body), documentTime) {
		a.Close()
		return nil, a.unknown()
	}
	return a, nil
}

// Next waits for the response.
func (a *relayed) Next() (*mcp.Message, error) {
	if a.over {
		return nil, io.EOF
	}
	a.over = true
	every := time.NewTicker(lookForRounds)
	defer every.Stop()
	for n := 1; ; n++ {
		select {
		case <-a.ctx.Done():
			return nil, a.t.why(a.ctx, a.ctx, context.Cause(a.ctx))
		case <-a.r.stop:
			return nil, a.unknown()
		case <-every.C:
		}
		gone := n%lookForHolder == 0 && a.gone() // before the answer, which is the last that a node writes
		doc, err := a.r.docs.Doc(a.ctx, everything(), spaceRound, a.doc.Key)
		if err == nil {
			said, message := parseRound(doc.Body)
			if said.State == roundAnswered {
				return a.answer(said, message)
			}
			a.taken = said.State == roundTaken
		}
		switch {
		case errors.Is(err, store.ErrNotFound), gone && (a.taken || err != nil):
			return nil, a.unknown()
		case gone && a.withdraw():
			return failure(a.request.ID, notHeld())
		}
	}
}

// gone reports whether the node is not there that is to answer: its sign of life has
// not been new for too long.
func (a *relayed) gone() bool {
	there, err := a.r.docs.Doc(a.ctx, everything(), spaceHolder, a.holder.Key)
	if err == nil && there.Version != a.holder.Version {
		a.holder, a.seen = there, time.Now()
	}
	silent := time.Since(a.seen) > holderTime
	if silent {
		a.r.expire(a.ctx, a.holder) // nobody else has to wait
	}
	return silent || errors.Is(err, store.ErrNotFound)
}

// withdraw takes a round back, unless the other node has begun with it.
func (a *relayed) withdraw() bool {
	ctx, cancel := context.WithTimeout(a.ctx, storeTime)
	defer cancel()
	return a.r.put(ctx, a.doc, (&round{}).append(nil), documentTime)
}

// unknown says that the other node may have made the round.
func (a *relayed) unknown() error {
	return &Error{
		Server: a.t.name, Kind: ErrOutcomeUnknown, Err: errHolder,
		Reply: &mcp.Error{Code: mcp.CodeOutcomeUnknown, Message: fmt.Sprintf("The node that had the call of the server %q was lost; whether the server has done what was asked is not known", a.t.name)},
	}
}

// kinds are those of Error by their names in documents.
var kinds = map[string]error{"refused": nil, "unavailable": ErrUnavailable, "unknown": ErrOutcomeUnknown}

// failedRound is what a round has come to that has no response.
func failedRound(id jsontext.Value, err error) []byte {
	reply, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		reply = &mcp.Error{Code: mcp.CodeInternal, Message: "The round was not made"}
	}
	said := &round{State: roundAnswered, Kind: "refused"}
	for name, kind := range kinds {
		if kind != nil && errors.Is(err, kind) {
			said.Kind = name
		}
	}
	return said.append(mcp.AppendError(nil, id, reply))
}

// answer returns what the other node has got.
func (a *relayed) answer(said *round, message []byte) (*mcp.Message, error) {
	m, err := mcp.Scan(message, mcp.Limits{Depth: 1 << 16})
	if err != nil {
		return nil, a.t.badAnswer(err)
	}
	if said.Kind == "" {
		return m, nil
	}
	return nil, &Error{Server: a.t.name, Kind: kinds[said.Kind], Reply: m.Error()}
}

// Close gives the round up if it is not over.
func (a *relayed) Close() error {
	a.r.remove(a.doc)
	return nil
}
