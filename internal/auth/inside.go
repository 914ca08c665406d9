package auth

import (
	"context"
	"net/http"
)

type callerKey struct{}

// WithCaller returns a context for requests that the node makes to itself in the
// name of a caller whom it has authenticated already.
func WithCaller(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, callerKey{}, p)
}

// Inside is an authenticator that knows the callers of WithCaller too. Nothing that
// comes over the network has one.
type Inside struct{ Authenticator }

// Authenticate returns the caller of a request.
func (i Inside) Authenticate(r *http.Request) (Principal, error) {
	if p, ok := r.Context().Value(callerKey{}).(Principal); ok {
		return p, nil
	}
	return i.Authenticator.Authenticate(r)
}
