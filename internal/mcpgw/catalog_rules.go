package mcpgw

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/mcpgw/policy"
)

// rules are what policy says of calls of an item by a caller.
type rules struct {
	dir    *Directory
	caller *auth.Principal
	item   *item
}

var _ Rules = (*rules)(nil)

// Admit takes a place for a call.
func (r *rules) Admit(context.Context) (func(), error) {
	d := r.item.decision
	if !d.Denied && d.Missing(r.caller) {
		return nil, &ScopeError{Scopes: d.Scopes, Message: "The credential lacks scopes: " + strings.Join(d.Scopes, " ") + " are needed"}
	}
	return r.dir.opts.Guard.Admit(r.caller, d)
}

// Terms looks at the arguments of a call.
func (r *rules) Terms(ctx context.Context, arguments jsontext.Value, key string) (*Terms, error) {
	d := r.item.decision
	if d.On.Kind != policy.Tools {
		return &Terms{Timeout: d.Timeout}, nil
	}
	var input *policy.Schema
	if r.item.input != nil {
		var err error
		if input, err = r.item.input(); err != nil {
			return nil, mcp.Errorf(mcp.CodeBadAnswer, "The input schema of the tool cannot be used: %s", err.Error())
		}
	}
	o, err := d.Arguments(arguments, key, input)
	if wrong, ok := errors.AsType[*policy.InputError](err); ok {
		return nil, &Result{Message: wrong.Error()}
	}
	if err != nil {
		return nil, err
	}
	if err := r.dir.opts.Guard.Spend(ctx, r.caller, d, o); err != nil {
		return nil, err
	}
	t := &Terms{
		Key: o.Key, Approve: o.Approve, Recorded: d.Recorded(o.Approve, o.Key), Timeout: d.Timeout, Task: d.Task, TaskAfter: d.TaskAfter, HandleAfter: d.HandleAfter,
		Idempotent: r.item.trusted && (r.item.readOnly || r.item.idempotent),
	}
	if d.Idempotent != nil {
		t.Idempotent = *d.Idempotent
	}
	if r.item.hasOutput {
		t.HandleAfter = 0 // a handle is not what the outputSchema promises (TOL-07)
	}
	return t, nil
}

// open are the rules of the gateway's own tools.
type open struct{}

func (open) Admit(context.Context) (func(), error) { return func() {}, nil }

func (open) Terms(context.Context, jsontext.Value, string) (*Terms, error) { return &Terms{}, nil }
