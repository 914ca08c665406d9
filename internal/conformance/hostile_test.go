package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/conformance"
)

// hostileCard names every binding at one address.
func hostileCard(base string) string {
	return `{"name": "Hostile", "description": "d", "version": "1", "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
	"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
	"skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
	"supportedInterfaces": [
		{"url": "` + base + `/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
		{"url": "` + base + `/v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
		{"url": "` + strings.TrimPrefix(base, "http://") + `", "protocolBinding": "GRPC", "protocolVersion": "1.0"}]}`
}

// hostile serves a card, and everything else as it likes.
func hostile(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	var base string
	base = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "agent-card.json") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, hostileCard(base))
			return
		}
		answer(w, r)
	}))
	return base
}

// repeat writes a text until nobody reads it any more.
func repeat(w http.ResponseWriter, r *http.Request, text string) {
	chunk := strings.Repeat(text, max(1, 64<<10/len(text)))
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// TestHostileAgents runs everything on agents that want to keep it busy for ever.
func TestHostileAgents(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"silent in the middle": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc": "2.0", `)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"silent stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"endless answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"result": "`)
			repeat(w, r, "x")
		},
		"endless stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			repeat(w, r, "data: {}\n\n")
		},
		"endless event": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			repeat(w, r, "x")
		},
		"endless comments": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			repeat(w, r, ": x\n\n")
		},
		"deep JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Repeat(`{"result":`, 90_000))
		},
		"wide JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tasks":[`+strings.Repeat(`{},`, 30_000)+`{}]}}`)
		},
		"endless messages of gRPC": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			repeat(w, r, "\x00\x00\x00\x00\x00")
		},
		"a huge message of gRPC": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			_, _ = io.WriteString(w, "\x00\xff\xff\xff\xff")
			repeat(w, r, "x")
		},
		"a redirect to itself": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
		"nonsense": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc": [], "id": {}, "error": {"code": "x", "data": {"a": null}}, "result": 7, "tasks": [1, null, {"status": []}], "status": 3, "task": []}`)
		},
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := conformance.Run(t.Context(), conformance.Options{
				Reference: hostile(t, answer), Text: "hello", Client: client.Options{HTTPClient: httpClient(t)},
				CallTimeout: time.Second, TaskTimeout: time.Second, Total: time.Minute,
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.OK {
				t.Error("it is ok")
			}
			if !report.Complete {
				t.Error("the time was over")
			}
			for _, on := range []string{overRPC, overREST, overGRPC} {
				if r := find(t, report, "interface.reachable", on); r.Outcome != conformance.Fail && name != "nonsense" && name != "wide JSON" {
					t.Errorf("%s: %s: %s", on, r.Outcome, r.Seen)
				}
			}
			for _, r := range report.Results {
				if len(r.Sent) > 4000 || len(r.Seen) > 4000 {
					t.Errorf("%s quotes %d and %d bytes", r.ID, len(r.Sent), len(r.Seen))
				}
			}
		})
	}
}

// TestTimeIsBounded ends a run on an agent that answers late every time.
func TestTimeIsBounded(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	release := make(chan struct{})
	url := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) > 2 {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"conformance-1","result":{}}`)
	})
	defer close(release)
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: url, Client: client.Options{HTTPClient: httpClient(t), Transports: []string{overRPC}}, Total: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Complete {
		t.Error("the run is complete")
	}
	last := report.Results[len(report.Results)-1]
	if last.Outcome != conformance.Skip || !strings.Contains(last.Seen, "no time was left") {
		t.Errorf("%s: %s: %s", last.ID, last.Outcome, last.Seen)
	}
}

// TestManyInterfaces exercises no more of them than it should.
func TestManyInterfaces(t *testing.T) {
	t.Parallel()
	var base string
	base = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "agent-card.json") {
			w.Header().Set("Content-Type", "application/json")
			one := `{"url": "` + base + `/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t`
			list := ""
			for i := range 1000 {
				list += one + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `"},`
			}
			_, _ = io.WriteString(w, strings.Replace(hostileCard(base), `"supportedInterfaces": [`, `"supportedInterfaces": [`+list, 1))
			return
		}
		http.NotFound(w, r)
	}))
	report, err := conformance.Run(t.Context(), conformance.Options{Reference: base, Client: client.Options{HTTPClient: httpClient(t)}})
	if err != nil {
		t.Fatal(err)
	}
	exercised := 0
	for _, i := range report.Interfaces {
		if i.Exercised {
			exercised++
		}
	}
	if exercised != 8 || len(report.Interfaces) > 32 {
		t.Errorf("%d of %d interfaces are exercised", exercised, len(report.Interfaces))
	}
}

// TestNoCard says so as an error.
func TestNoCard(t *testing.T) {
	t.Parallel()
	url := listen(t, http.NotFoundHandler())
	_, err := conformance.Run(t.Context(), conformance.Options{Reference: url, Client: client.Options{HTTPClient: httpClient(t)}})
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conformance.Run(ctx, conformance.Options{Reference: url, Client: client.Options{HTTPClient: httpClient(t)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestOldAgent has an agent of 0.3 alone, which fails for that and is exercised in
// its own version.
func TestOldAgent(t *testing.T) {
	t.Parallel()
	var base string
	base = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "agent-card.json") {
			if r.Header.Get("A2A-Version") != "" {
				t.Errorf("a request names the version %s", r.Header.Get("A2A-Version"))
			}
			body, _ := io.ReadAll(r.Body)
			var call struct{ ID, Method string }
			decode(body, &call)
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"no %s"}}`, call.ID, call.Method)
			return
		}
		_, _ = io.WriteString(w, `{"name": "Old", "description": "d", "version": "1", "protocolVersion": "0.3.0", "url": "`+base+`/rpc", "preferredTransport": "JSONRPC",
			"additionalInterfaces": [{"url": "`+base+`", "transport": "HTTP+JSON"}],
			"capabilities": {}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
			"skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}]}`)
	}))
	report, err := conformance.Run(t.Context(), conformance.Options{Reference: base, Client: client.Options{HTTPClient: httpClient(t)}})
	if err != nil {
		t.Fatal(err)
	}
	r := find(t, report, "card.interface", "")
	if report.OK || r.Outcome != conformance.Fail || !strings.Contains(r.Seen, "version 1.0") || !strings.Contains(r.Seen, "0.3") {
		t.Errorf("%s: %s", r.Outcome, r.Seen)
	}
	for id, want := range map[string]conformance.Outcome{
		"v03.reachable": conformance.Pass, "v03.get-unknown": conformance.Pass, "v03.method": conformance.Fail, "v03.auth": conformance.Skip,
	} {
		if got := find(t, report, id, overOld); got.Outcome != want {
			t.Errorf("%s: %s %s", id, got.Outcome, got.Seen)
		}
	}
	for _, i := range report.Interfaces {
		if i.Exercised != (i.Binding == overRPC) || !i.Exercised && !strings.Contains(i.Reason, "0.3") {
			t.Errorf("%+v", i)
		}
	}
}

// TestCredentialsStayAtTheirOrigin has a card send its caller elsewhere.
func TestCredentialsStayAtTheirOrigin(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Add(1)
		if r.Header.Get("Authorization") != "" && !strings.Contains(r.Header.Get("Authorization"), "never-issued") {
			t.Errorf("%s carries credentials", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, "{}")
	}))
	base := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, hostileCard(other))
	}))
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: base, Text: "hello", Client: client.Options{HTTPClient: httpClient(t), Credentials: client.Bearer("a-token-that-is-good")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if elsewhere.Load() == 0 {
		t.Error("nothing was asked there")
	}
	if r := find(t, report, "task.get-unknown", overRPC); r.Outcome != conformance.Skip || !strings.Contains(r.Seen, "another origin") {
		t.Errorf("%s: %s", r.Outcome, r.Seen)
	}
	if !report.Refused {
		t.Error("the report does not say that the caller was refused")
	}
}

// TestForeignInterfacesAreGuarded has a card of a public host name a private
// address.
func TestForeignInterfacesAreGuarded(t *testing.T) {
	t.Parallel()
	private := listen(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the private address was asked") }))
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, hostileCard(private))
	}))
	t.Cleanup(public.Close)
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: "http://agents.example.com/",
		Client:    client.Options{HTTPClient: &http.Client{Transport: &toServer{address: strings.TrimPrefix(public.URL, "http://"), base: httpClient(t).Transport}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []string{overRPC, overREST, overGRPC} {
		if r := find(t, report, "interface.reachable", on); r.Outcome != conformance.Fail || !strings.Contains(r.Seen, "not allowed") {
			t.Errorf("%s: %s: %s", on, r.Outcome, r.Seen)
		}
	}
}

// toServer sends every request to one server, as a name server would.
type toServer struct {
	address string
	base    http.RoundTripper
}

func (s *toServer) RoundTrip(r *http.Request) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.URL.Host = s.address
	return s.base.RoundTrip(again)
}

// TestSecretsAreHidden has an agent repeat what it was sent.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "a-token-that-is-good"
	url := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"I got `+r.Header.Get("Authorization")+`"}}`)
	})
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: url, Client: client.Options{HTTPClient: httpClient(t), Credentials: client.Bearer(secret), Transports: []string{overRPC}},
		Hide: func(text string) string { return strings.ReplaceAll(text, secret, "***") },
	})
	if err != nil {
		t.Fatal(err)
	}
	hidden := false
	for _, r := range report.Results {
		if strings.Contains(r.Seen, secret) || strings.Contains(r.Sent, secret) {
			t.Errorf("%s tells the secret", r.ID)
		}
		hidden = hidden || strings.Contains(r.Seen, "***")
	}
	if !hidden {
		t.Error("nothing was hidden")
	}
}

// TestKeysInURLsAreNotTold asks for a card that is given for a key in the URL
// only.
func TestKeysInURLsAreNotTold(t *testing.T) {
	t.Parallel()
	const secret = "a-key-that-is-good"
	var base string
	base = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("key") != secret {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "No."}}`)
			return
		}
		_, _ = io.WriteString(w, hostileCard(base))
	}))
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: base, Client: client.Options{HTTPClient: httpClient(t), Credentials: client.APIKey("query", "key", secret)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(report); strings.Contains(text, secret) {
		t.Errorf("the report tells the key: %s", text)
	}
}

// TestBusyAgents asks again where the agent says when, and says so where it has
// no time at all.
func TestBusyAgents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		every int32 // request that is refused
		busy  bool
	}{"every second request": {2, false}, "every request": {1, true}} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			url := listen(t, &tamper{next: startNode(t, streaming), before: func(m *message) {
				if m.rpc && count.Add(1)%test.every == 0 {
					m.answer(http.StatusTooManyRequests, "application/json", "{}")
					m.header.Set("Retry-After", "0")
				}
			}})
			report, err := conformance.Run(t.Context(), conformance.Options{
				Reference: url + agentPath, Text: "echo hello", Client: client.Options{HTTPClient: httpClient(t), Transports: []string{overRPC}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.Busy != test.busy || !report.OK {
				t.Errorf("busy %v, ok %v", report.Busy, report.OK)
			}
			want := conformance.Pass
			if test.busy {
				want = conformance.Skip
			}
			if r := find(t, report, "task.get", overRPC); r.Outcome != want && !test.busy {
				t.Errorf("%s: %s", r.Outcome, r.Seen)
			}
			if r := find(t, report, "interface.reachable", overRPC); r.Outcome != want {
				t.Errorf("%s: %s", r.Outcome, r.Seen)
			}
		})
	}
}

// TestOverTLS exercises every binding behind a certificate.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(startNode(t, streaming))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	c := server.Client()
	report, err := conformance.Run(t.Context(), conformance.Options{
		Reference: server.URL + agentPath, Text: "echo hello", Client: client.Options{HTTPClient: c},
		TLS: c.Transport.(*http.Transport).TLSClientConfig,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome == conformance.Fail || r.Outcome == conformance.Warn {
			t.Errorf("%s %s over %s: %s", r.Outcome, r.ID, r.Interface, r.Seen)
		}
	}
	for _, on := range []string{overRPC, overREST, overGRPC} {
		if r := find(t, report, "stream.end", on); r.Outcome != conformance.Pass {
			t.Errorf("%s: %s: %s", on, r.Outcome, r.Seen)
		}
	}
	if r := find(t, report, "card.encrypted", ""); r.Outcome != conformance.Pass {
		t.Errorf("%s: %s", r.Outcome, r.Seen)
	}
}

// TestFound tells the card before anything else is asked.
func TestFound(t *testing.T) {
	t.Parallel()
	var told *a2a.AgentCard
	url := listen(t, startNode(t, streaming))
	_, err := conformance.Run(t.Context(), conformance.Options{
		Reference: url + agentPath, Client: client.Options{HTTPClient: httpClient(t), Transports: []string{overRPC}},
		Found: func(c *a2a.AgentCard) { told = c },
	})
	if err != nil || told == nil || told.Name != "Fixture" {
		t.Errorf("%v, %v", told, err)
	}
}
