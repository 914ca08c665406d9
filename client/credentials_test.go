package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func TestCredentials(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for name, tt := range map[string]struct {
			credentials client.Credentials
			got         func(r *http.Request) string
			want        string
		}{
			"bearer": {client.Bearer("t"), func(r *http.Request) string { return r.Header.Get("Authorization") }, "Bearer t"},
			"basic":  {client.Basic("u", "p"), func(r *http.Request) string { return r.Header.Get("Authorization") }, "Basic dTpw"},
			"header": {client.APIKey("header", "X-Key", "k"), func(r *http.Request) string { return r.Header.Get("X-Key") }, "k"},
			"query":  {client.APIKey("query", "key", "a&b"), func(r *http.Request) string { return r.URL.Query().Get("key") }, "a&b"},
			"cookie": {client.APIKey("cookie", "key", "k"), func(r *http.Request) string { return r.Header.Get("Cookie") }, "key=k"},
		} {
			var got string
			p := newPeer(t, binding, func(x *exchange) {
				got = tt.got(x.r)
				x.result(task("t-1", "TASK_STATE_WORKING"))
			})
			if err := getTask(t.Context(), p.client(t, client.Options{Credentials: tt.credentials})); err != nil {
				t.Error(err)
			}
			if got != tt.want {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

func TestCredentialsThatFail(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { x.result(task("t-1", "TASK_STATE_WORKING")) })
		broken := errors.New("no token today")
		for _, credentials := range []client.Credentials{
			client.BearerFunc(func(context.Context) (string, error) { return "", broken }),
			client.APIKey("body", "k", "v"),
			client.APIKey("header", "", "v"),
		} {
			err := getTask(t.Context(), p.client(t, client.Options{Credentials: credentials}))
			if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindCredentials || e.Sent {
				t.Errorf("got %v", err)
			}
		}
		if p.seen() != "" {
			t.Errorf("the peer got %s", p.seen())
		}
	})
}

type userKey struct{}

// Two users of one client send a token each. (Row 139.)
func TestCredentialsOfTheCall(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		tokens := make(chan string, 1)
		p := newPeer(t, binding, func(x *exchange) {
			tokens <- x.r.Header.Get("Authorization")
			x.result(task("t-1", "TASK_STATE_WORKING"))
		})
		c := p.client(t, client.Options{Credentials: client.BearerFunc(func(ctx context.Context) (string, error) {
			return ctx.Value(userKey{}).(string), nil
		})})
		for _, user := range []string{"alice", "bob"} {
			if err := getTask(context.WithValue(t.Context(), userKey{}, user), c); err != nil {
				t.Fatal(err)
			}
			if got := <-tokens; got != "Bearer "+user {
				t.Errorf("got %q for %s", got, user)
			}
		}
	})
}

// Many calls and streams of two users at once over one client and its connections:
// each has the token of its own context, over gRPC too. (Row 139.)
func TestCredentialsOfCallsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var mu sync.Mutex
		wrong := map[string]string{}
		p := newPeer(t, binding, func(x *exchange) {
			got, want := x.r.Header.Get("Authorization"), "Bearer "+x.r.Header.Get("X-User")
			mu.Lock()
			if got != want {
				wrong[x.op] = got
			}
			mu.Unlock()
			if x.op == "SendStreamingMessage" {
				x.event(agentMessage)
				return
			}
			x.result(task("t-1", "TASK_STATE_WORKING"))
		})
		c := p.client(t, client.Options{Credentials: client.CredentialsFunc(func(ctx context.Context, r *http.Request) error {
			user := ctx.Value(userKey{}).(string)
			r.Header.Set("X-User", user)
			return client.Bearer(user).Apply(ctx, r)
		})})
		var group sync.WaitGroup
		for i := range 40 {
			ctx := context.WithValue(t.Context(), userKey{}, []string{"alice", "bob"}[i%2])
			group.Go(func() {
				if i%4 < 2 {
					if err := getTask(ctx, c); err != nil {
						t.Error(err)
					}
					return
				}
				stream, err := c.SendStreamingMessage(ctx, hello())
				if err != nil {
					t.Error(err)
					return
				}
				if events, err := collect(stream); err != nil || len(events) != 1 {
					t.Errorf("%v, %v", events, err)
				}
			})
		}
		group.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(wrong) > 0 {
			t.Errorf("others had the token: %v", wrong)
		}
		if n := len(strings.Fields(p.seen())); n != 40 {
			t.Errorf("%d calls have arrived", n)
		}
	})
}

// rotating are credentials whose token has to be refreshed.
type rotating struct {
	token     atomic.Int32
	refreshes atomic.Int32
	fail      bool
}

func (c *rotating) Apply(_ context.Context, r *http.Request) error {
	r.Header.Set("Authorization", "Bearer "+string('0'+c.token.Load()))
	return nil
}

func (c *rotating) Refresh(_ context.Context, challenges []string) error {
	c.refreshes.Add(1)
	if c.fail || len(challenges) != 1 || challenges[0] != "Bearer error=expired" {
		return errors.New("no new token")
	}
	c.token.Add(1)
	return nil
}

// Row 139.
func TestRefreshAfter401(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		accept := "Bearer 1"
		p := newPeer(t, binding, func(x *exchange) {
			if x.r.Header.Get("Authorization") != accept {
				x.w.Header().Set("WWW-Authenticate", "Bearer error=expired")
				x.body(401, "text/plain", "expired")
				return
			}
			x.result(taskEvent("t-1", "TASK_STATE_COMPLETED"))
		})
		credentials := new(rotating)
		c := p.client(t, client.Options{Credentials: credentials})
		if _, err := c.SendMessage(t.Context(), hello()); err != nil {
			t.Error(err)
		}
		if p.seen() != "SendMessage SendMessage" {
			t.Errorf("the peer got %s", p.seen())
		}
		// A new token that is no better is the end.
		accept = "Bearer 9"
		_, err := c.SendStreamingMessage(t.Context(), hello())
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) || credentials.refreshes.Load() != 2 {
			t.Errorf("got %v after %d refreshes", err, credentials.refreshes.Load())
		}
		credentials.fail = true
		_, err = c.SendMessage(t.Context(), hello())
		if !errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) {
			t.Errorf("got %v", err)
		}
	})
}

// Credentials never follow a redirect to another origin. (Row S9.)
func TestCrossOriginRedirects(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var hits atomic.Int32
		var got http.Header
		canary := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			got = r.Header
			http.Error(w, "no", http.StatusNotFound)
		}))
		canary.Config.Protocols = withH2C()
		canary.Start()
		t.Cleanup(canary.Close)
		p := newPeer(t, binding, func(x *exchange) {
			http.Redirect(x.w, x.r, canary.URL+"/", http.StatusTemporaryRedirect)
		})
		for _, credentials := range []client.Credentials{client.Bearer("t"), client.APIKey("header", "X-Key", "t"), nil} {
			err := getTask(t.Context(), p.client(t, client.Options{Credentials: credentials}))
			e, ok := errors.AsType[*client.TransportError](err)
			if !ok || e.Kind != client.KindRefused || !strings.Contains(e.Error(), "origin not allowed") {
				t.Errorf("got %v", err)
			}
		}
		if hits.Load() != 0 {
			t.Errorf("the canary was hit %d times", hits.Load())
		}
		allowed := p.client(t, client.Options{Credentials: client.APIKey("header", "X-Key", "t"), Origins: []string{canary.URL}})
		_ = getTask(t.Context(), allowed)
		if hits.Load() != 1 || got.Get("X-Key") != "t" {
			t.Errorf("%d hits, headers %v", hits.Load(), got)
		}
	})
}

func TestRedirectWithinTheOrigin(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var bodies []string
		p := newPeer(t, binding, func(x *exchange) {
			bodies = append(bodies, x.op+" "+x.r.Header.Get("Authorization"))
			if !strings.HasPrefix(x.r.URL.Path, "/new") {
				http.Redirect(x.w, x.r, "/new"+x.r.URL.Path, http.StatusPermanentRedirect)
				return
			}
			x.result(agentMessage)
		})
		if _, err := p.client(t, client.Options{Credentials: client.Bearer("t")}).SendMessage(t.Context(), hello()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"SendMessage Bearer t", "SendMessage Bearer t"}, bodies); d != "" {
			t.Error(d)
		}
	})
}

// Row S13: a peer that redirects for ever, within its origin and keeping the method,
// is given up after a few requests, also where a stream was asked for.
func TestEndlessRedirectsOfCalls(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		for name, ask := range map[string]func(*client.Client) error{
			"call":   func(c *client.Client) error { _, err := c.SendMessage(t.Context(), hello()); return err },
			"stream": func(c *client.Client) error { _, err := c.SendStreamingMessage(t.Context(), hello()); return err },
		} {
			var requests atomic.Int32
			p := newPeer(t, binding, func(x *exchange) {
				requests.Add(1)
				http.Redirect(x.w, x.r, "/again"+x.r.URL.Path, http.StatusTemporaryRedirect)
			})
			err := ask(p.client(t, client.Options{Credentials: client.Bearer("t")}))
			e, ok := errors.AsType[*client.TransportError](err)
			if !ok || e.Kind != client.KindRefused || !strings.Contains(e.Error(), "redirects") || requests.Load() != 6 {
				t.Errorf("%s: %v after %d requests", name, err, requests.Load())
			}
		}
	})
}

// Nothing goes from https to http, allowed origin or not. (Row S9.)
func TestRedirectFromHTTPSToHTTP(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		plain := newPeer(t, binding, func(x *exchange) { x.result(task("t-1", "TASK_STATE_WORKING")) })
		secure := httptest.NewUnstartedServer(http.RedirectHandler(plain.server.URL, http.StatusTemporaryRedirect))
		secure.EnableHTTP2 = true
		secure.StartTLS()
		t.Cleanup(secure.Close)
		c, err := client.New(newCard(binding, secure.URL), client.Options{HTTPClient: secure.Client(), Origins: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		err = getTask(t.Context(), c)
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused || plain.seen() != "" {
			t.Errorf("got %v after %s", err, plain.seen())
		}
	})
}

// A redirect that would turn a send into a GET is refused.
func TestRedirectThatChangesTheMethod(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		p := newPeer(t, binding, func(x *exchange) { http.Redirect(x.w, x.r, "/elsewhere", http.StatusFound) })
		_, err := p.client(t, client.Options{}).SendMessage(t.Context(), hello())
		if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused || p.seen() != "SendMessage" {
			t.Errorf("got %v after %s", err, p.seen())
		}
	})
}

// A card behind authentication is asked for without credentials first. (Row 139.)
func TestCardBehindAuthentication(t *testing.T) {
	t.Parallel()
	var got []string
	s := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer t" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Cache-Control", "max-age=60")
		writeCard(w)
	})
	opts := client.Options{HTTPClient: s.Client(), Credentials: client.Bearer("t"), Cards: new(client.CardCache)}
	for range 2 { // what needs credentials is not cached
		if _, err := client.Discover(t.Context(), s.URL, opts); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"", "Bearer t", "", "Bearer t"}, got); d != "" {
		t.Error(d)
	}
}

// A card that names another host gets no token there. (Row S9.)
func TestCardThatNamesAnotherOrigin(t *testing.T) {
	t.Parallel()
	s := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) { writeCard(w) })
	_, err := client.Dial(t.Context(), s.URL, client.Options{HTTPClient: s.Client(), Credentials: client.Bearer("t")})
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused || !strings.Contains(err.Error(), "https://agent.test:443") {
		t.Errorf("got %v", err)
	}
	if _, err := client.Dial(t.Context(), s.URL, client.Options{HTTPClient: s.Client(), Credentials: client.Bearer("t"), Origins: []string{"https://agent.test"}}); err != nil {
		t.Error(err)
	}
}

func TestWith(t *testing.T) {
	onEach(t, func(t *testing.T, binding string) {
		var got string
		p := newPeer(t, binding, func(x *exchange) {
			got = x.r.Header.Get("Authorization")
			x.result(task("t-1", "TASK_STATE_WORKING"))
		})
		c := p.client(t, client.Options{Credentials: client.Bearer("one")})
		other, err := c.With(func(o *client.Options) { o.Credentials = client.Bearer("two") })
		if err != nil {
			t.Fatal(err)
		}
		if err := getTask(t.Context(), other); err != nil || got != "Bearer two" {
			t.Errorf("got %q, %v", got, err)
		}
		if err := getTask(t.Context(), c); err != nil || got != "Bearer one" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
