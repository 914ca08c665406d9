package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Credentials authenticate the requests of a client. Apply is called for every
// request, from several goroutines, with the context of the call, so that each
// call can carry a token of its own. It may change the headers and the query,
// not the host.
//
// A request that carries credentials goes to the origin of the agent's card
// only, or to one of Options.Origins.
type Credentials interface {
	Apply(ctx context.Context, r *http.Request) error
}

// Refresher is implemented by Credentials that can get a new secret. Refresh is
// called when a request was answered with 401, with the values of
// WWW-Authenticate; when it returns nil the request is sent once more.
type Refresher interface {
	Refresh(ctx context.Context, challenges []string) error
}

// CredentialsFunc is a function that is Credentials.
type CredentialsFunc func(ctx context.Context, r *http.Request) error

// Apply calls f.
func (f CredentialsFunc) Apply(ctx context.Context, r *http.Request) error { return f(ctx, r) }

// Bearer returns credentials that send a token as "Authorization: Bearer"
// (RFC 6750).
func Bearer(token string) Credentials {
	return BearerFunc(func(context.Context) (string, error) { return token, nil })
}

// BearerFunc is Bearer with a token that is asked for at every request. An
// empty token sends the request without credentials.
func BearerFunc(token func(ctx context.Context) (string, error)) Credentials {
	return CredentialsFunc(func(ctx context.Context, r *http.Request) error {
		t, err := token(ctx)
		if err != nil {
			return fmt.Errorf("get token: %w", err)
		}
		if t != "" {
			r.Header.Set("Authorization", "Bearer "+t)
		}
		return nil
	})
}

// Basic returns HTTP Basic credentials (RFC 7617).
func Basic(user, password string) Credentials {
	return CredentialsFunc(func(_ context.Context, r *http.Request) error {
		r.SetBasicAuth(user, password)
		return nil
	})
}

// APIKey returns credentials that send a key where an API key security scheme
// asks for it (A2A §4.5.2): location is header, query or cookie, name that of
// the header, parameter or cookie.
func APIKey(location, name, key string) Credentials {
	return CredentialsFunc(func(_ context.Context, r *http.Request) error {
		if name == "" {
			return errors.New("an API key needs the name of its parameter")
		}
		switch location {
		case "header":
			r.Header.Set(name, key)
		case "query":
			q := r.URL.Query()
			q.Set(name, key)
			r.URL.RawQuery = q.Encode()
		case "cookie":
			r.AddCookie(&http.Cookie{Name: name, Value: key})
		default:
			return fmt.Errorf("an API key goes in header, query or cookie, not in %q", location)
		}
		return nil
	})
}
