package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// cardServer serves what serve says and records which paths were asked for.
type cardServer struct {
	*httptest.Server
	paths []string
}

func newCardServer(t *testing.T, serve http.HandlerFunc) *cardServer {
	t.Helper()
	s := new(cardServer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.paths = append(s.paths, r.URL.RequestURI())
		serve(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func writeCard(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(newCard(a2a.BindingJSONRPC, "https://agent.test").AppendJSON(nil))
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	const wellKnown, before = "/.well-known/agent-card.json", "/.well-known/agent.json"
	tests := []struct {
		name, ref string   // HOST stands for host and port
		serves    string   // the path at which a card is
		asks      []string // every path, in order
	}{
		{"host and port", "HOST", wellKnown, []string{wellKnown}},
		{"origin", "http://HOST", wellKnown, []string{wellKnown}},
		{"origin with a slash", "http://HOST/", wellKnown, []string{wellKnown}},
		{"address of an agent", "http://HOST/agents/x/", "/agents/x" + wellKnown, []string{"/agents/x" + wellKnown}},
		{"address without a slash", "HOST/agents/x", "/agents/x" + wellKnown, []string{"/agents/x" + wellKnown}},
		{"escaped address", "http://HOST/a%2Fb/", "/a%2Fb" + wellKnown, []string{"/a%2Fb" + wellKnown}},
		{"card", "http://HOST/cards/7.json?v=2", "/cards/7.json?v=2", []string{"/cards/7.json?v=2"}},
		{"card without a suffix", "http://HOST/card", "/card", []string{"/card" + wellKnown, "/card" + before, "/card"}},
		{"card from before 0.3.0", "http://HOST", before, []string{wellKnown, before}},
		{"card from before 0.3.0 below an address", "http://HOST/agents/x", "/agents/x" + before, []string{"/agents/x" + wellKnown, "/agents/x" + before}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RequestURI() != tt.serves {
					http.NotFound(w, r)
					return
				}
				if r.Header.Get("A2A-Version") != "1.0" {
					t.Errorf("headers %v", r.Header)
				}
				writeCard(w)
			})
			ref := strings.Replace(tt.ref, "HOST", strings.TrimPrefix(s.URL, "http://"), 1)
			card, err := client.Discover(t.Context(), ref, client.Options{HTTPClient: s.Client()})
			if err != nil {
				t.Fatal(err)
			}
			if card.Name != "Scripted" {
				t.Errorf("got %q", card.Name)
			}
			if d := cmp.Diff(tt.asks, s.paths); d != "" {
				t.Errorf("paths (-want +got):\n%s", d)
			}
		})
	}
}

func TestDiscoverFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "card.json")
	if err := os.WriteFile(path, newCard(a2a.BindingREST, "https://agent.test").AppendJSON(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{path, "file://" + path, "file://localhost" + path} {
		card, err := client.Discover(t.Context(), ref, client.Options{})
		if err != nil || card.Name != "Scripted" {
			t.Errorf("%s: got %v", ref, err)
		}
		if _, err := client.Discover(t.Context(), ref, client.Options{NoFiles: true}); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s without files: got %v", ref, err)
		}
	}
	for _, ref := range []string{"missing.json", "./missing", "file:///missing"} {
		if _, err := client.Discover(t.Context(), ref, client.Options{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v", ref, err)
		}
	}
	// Credentials may go wherever a file of one's own says.
	if _, err := client.Dial(t.Context(), path, client.Options{Credentials: client.Bearer("x")}); err != nil {
		t.Error(err)
	}
}

func TestDiscoverBadReferences(t *testing.T) {
	t.Parallel()
	for ref, text := range map[string]string{
		"":                        "not a host",
		"ftp://agents.test":       "not a host",
		"https://":                "not a host",
		"https://u:s3cret@h.test": "carries credentials",
		"http://[::1":             "not a host",
	} {
		_, err := client.Discover(t.Context(), ref, client.Options{})
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: got %v", ref, err)
		}
	}
}

// Row 118.
func TestDiscoverBadCards(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, text string }{
		"empty":           {`{}`, "invalid card: missing name, description, version, supportedInterfaces"},
		"half interface":  {`{"name":"x","supportedInterfaces":[{"url":"https://h"}]}`, "missing description, version, supportedInterfaces[0].protocolBinding"},
		"old":             {`{"url":"https://h","protocolVersion":"0.3.0"}`, "missing name, description, version"},
		"no JSON":         {`nope`, "not JSON"},
		"no object":       {`[]`, "not JSON"},
		"cut":             {`{"name":`, "invalid card"},
		"wrong type":      {`{"name":{}}`, "invalid card"},
		"larger than 1MB": {`{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "larger than allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tt.body) })
			_, err := client.Discover(t.Context(), s.URL, client.Options{HTTPClient: s.Client()})
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v", err)
			}
			_, isCard := errors.AsType[*client.CardError](err)
			if strings.HasPrefix(tt.text, "invalid") && !isCard {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// A card that lacks what a client can do without is taken.
func TestDiscoverIncompleteCard(t *testing.T) {
	t.Parallel()
	s := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name":"x","supportedInterfaces":[{"url":"https://h","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"skills":[{"id":"a"}]}`)
	})
	if _, err := client.Discover(t.Context(), s.URL, client.Options{HTTPClient: s.Client()}); err != nil {
		t.Error(err)
	}
}

func TestCardCache(t *testing.T) {
	t.Parallel()
	type answer struct {
		status int
		header map[string]string
	}
	tests := []struct {
		name  string
		first map[string]string
		then  []answer // the answers to later requests
		wait  time.Duration
		asks  []string // the condition of every request
	}{
		{name: "fresh", first: map[string]string{"Cache-Control": "public, max-age=60"}, wait: 59 * time.Second, asks: []string{""}},
		{name: "expired", first: map[string]string{"Cache-Control": "max-age=60"}, wait: 61 * time.Second, asks: []string{"", ""}},
		{name: "aged", first: map[string]string{"Cache-Control": "max-age=60", "Age": "50"}, wait: 11 * time.Second, asks: []string{"", ""}},
		{
			name: "unchanged", first: map[string]string{"ETag": `"1"`, "Cache-Control": "max-age=60"},
			then: []answer{{304, map[string]string{"Cache-Control": "max-age=60"}}}, wait: 61 * time.Second, asks: []string{"", `"1"`},
		},
		{
			name: "unchanged twice", first: map[string]string{"ETag": `"1"`},
			then: []answer{{304, nil}, {304, nil}}, asks: []string{"", `"1"`, `"1"`},
		},
		{name: "changed", first: map[string]string{"ETag": `"1"`}, then: []answer{{200, nil}}, asks: []string{"", `"1"`}},
		{name: "date", first: map[string]string{"Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT"}, then: []answer{{304, nil}}, asks: []string{"", "Sat, 01 Jan 2000 00:00:00 GMT"}},
		{name: "not to be stored", first: map[string]string{"ETag": `"1"`, "Cache-Control": "no-store"}, asks: []string{"", ""}},
		{name: "always asked", first: map[string]string{"ETag": `"1"`, "Cache-Control": "no-cache, max-age=60"}, then: []answer{{304, nil}}, asks: []string{"", `"1"`}},
		{name: "nothing said", asks: []string{"", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asks []string
				rt := roundTripper(func(r *http.Request) *http.Response {
					w := httptest.NewRecorder()
					n := len(asks)
					asks = append(asks, r.Header.Get("If-None-Match")+r.Header.Get("If-Modified-Since"))
					a := answer{200, tt.first}
					if n > 0 {
						a = answer{200, nil}
						if n <= len(tt.then) {
							a = tt.then[n-1]
						}
					}
					for name, value := range a.header {
						w.Header().Set(name, value)
					}
					if a.status == 304 {
						w.WriteHeader(304)
					} else {
						writeCard(w)
					}
					return w.Result()
				})
				opts := client.Options{HTTPClient: &http.Client{Transport: rt}, Cards: new(client.CardCache)}
				for i := range max(2, 1+len(tt.then)) {
					if i > 0 {
						time.Sleep(tt.wait)
					}
					card, err := client.Discover(t.Context(), "https://agent.test", opts)
					if err != nil {
						t.Fatal(err)
					}
					card.Name += " changed by its reader"
					if card.Name != "Scripted changed by its reader" {
						t.Errorf("got %q", card.Name)
					}
				}
				if d := cmp.Diff(tt.asks, asks); d != "" {
					t.Errorf("requests (-want +got):\n%s", d)
				}
			})
		})
	}
}

type roundTripper func(r *http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func TestCardCacheIsBounded(t *testing.T) {
	t.Parallel()
	asks := 0
	rt := roundTripper(func(*http.Request) *http.Response {
		asks++
		w := httptest.NewRecorder()
		w.Header().Set("Cache-Control", "max-age=60")
		card := newCard(a2a.BindingJSONRPC, "https://agent.test")
		card.Description = strings.Repeat("x", 100<<10)
		w.Write(card.AppendJSON(nil))
		return w.Result()
	})
	opts := client.Options{HTTPClient: &http.Client{Transport: rt}, Cards: new(client.CardCache)}
	get := func(path string) {
		if _, err := client.Discover(t.Context(), "https://agent.test/"+path+"/", opts); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 { // 20 MB
		get(strings.Repeat("x", i+1))
	}
	get(strings.Repeat("x", 200))
	if asks != 200 {
		t.Errorf("the newest card was asked for again: %d requests", asks)
	}
	get("x")
	if asks != 201 {
		t.Errorf("the oldest card was kept: %d requests", asks)
	}
}

func TestChoiceOfInterface(t *testing.T) {
	t.Parallel()
	iface := func(binding, version string) a2a.AgentInterface {
		return a2a.AgentInterface{URL: "https://h.test/" + binding + version, ProtocolBinding: binding, ProtocolVersion: version}
	}
	all := []a2a.AgentInterface{iface("GRPC", "1.0"), iface("JSONRPC", "0.3"), iface("HTTP+JSON", "1.0"), iface("JSONRPC", "1.0"), iface("JSONRPC", "1.1.4")}
	tests := []struct {
		name      string
		offered   []a2a.AgentInterface
		preferred []string
		want      string
	}{
		{"order of the card", all, nil, "https://h.test/GRPC1.0"},
		{"order of the client", all, []string{"JSONRPC"}, "https://h.test/JSONRPC1.0"},
		{"gRPC of 0.3", []a2a.AgentInterface{iface("GRPC", "0.3")}, nil, "https://h.test/GRPC0.3"},
		{"later minor version", all[4:], nil, "https://h.test/JSONRPC1.1.4"},
		{"preference that is not offered", all[2:3], []string{"JSONRPC"}, "https://h.test/HTTP+JSON1.0"},
		{"before 1.0, when there is nothing else", all[1:2], []string{"HTTP+JSON"}, "https://h.test/JSONRPC0.3"},
		{"HTTP+JSON before 1.0", []a2a.AgentInterface{iface("CUSTOM", "1.0"), iface("HTTP+JSON", "0.3")}, nil, "https://h.test/HTTP+JSON0.3"},
		{"before 1.0, in the order of the card", []a2a.AgentInterface{iface("HTTP+JSON", "0.3"), all[1]}, nil, "https://h.test/HTTP+JSON0.3"},
		{"before 1.0, in the order of the client", []a2a.AgentInterface{iface("HTTP+JSON", "0.3"), all[1]}, []string{"JSONRPC"}, "https://h.test/JSONRPC0.3"},
		{"nothing that is spoken", []a2a.AgentInterface{iface("CUSTOM", "1.0"), iface("GRPC", "0.2"), iface("JSONRPC", "0.2")}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			card := newCard("", "")
			card.SupportedInterfaces = tt.offered
			c, err := client.New(card, client.Options{Transports: tt.preferred})
			if tt.want == "" {
				e, ok := errors.AsType[*client.InterfaceError](err)
				if !ok || !strings.Contains(e.Error(), "it offers CUSTOM 1.0 at https://h.test/CUSTOM1.0, GRPC 0.2 at") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Interface().URL; got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	card := newCard(a2a.BindingJSONRPC, "https://h.test")
	for text, opts := range map[string]client.Options{
		"Version":                       {Version: "0.2"},
		"Transports":                    {Transports: []string{"SOAP"}},
		"belongs in Credentials":        {Headers: http.Header{"Authorization": {"x"}}},
		"Origins":                       {Origins: []string{"h.test"}},
		"Extensions":                    {Extensions: []string{"a,b"}},
		"CardURL or Options.Origins":    {Credentials: client.Bearer("x")},
		"origin not allowed":            {Credentials: client.Bearer("x"), CardURL: "https://other.test/card.json"},
		"https://h.test:443; list it":   {Credentials: client.Bearer("x"), CardURL: "http://h.test"},
		"the card names https://h.test": {Credentials: client.Bearer("x"), Origins: []string{"https://h.test:8443"}},
	} {
		if _, err := client.New(card, opts); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	for _, address := range []string{"", "h.test", "/rpc", "ftp://h.test", "https://u:s3cret@h.test"} {
		card := newCard(a2a.BindingJSONRPC, "")
		card.SupportedInterfaces[0].URL = address
		if _, err := client.New(card, client.Options{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

func TestDialFollowsRedirectsWithoutCredentials(t *testing.T) {
	t.Parallel()
	s := newCardServer(t, func(w http.ResponseWriter, _ *http.Request) { writeCard(w) })
	moved := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, s.URL+"/card.json", http.StatusFound)
	})
	opts := client.Options{HTTPClient: s.Client()}
	if _, err := client.Discover(t.Context(), moved.URL, opts); err != nil {
		t.Error(err)
	}
	opts.Credentials = client.Bearer("x")
	_, err := client.Discover(t.Context(), moved.URL, opts)
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused {
		t.Errorf("got %v", err)
	}
	opts.Origins = []string{s.URL}
	if _, err := client.Discover(t.Context(), moved.URL, opts); err != nil {
		t.Error(err)
	}
}

// Row S13.
func TestEndlessRedirects(t *testing.T) {
	t.Parallel()
	s := newCardServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
	})
	_, err := client.Discover(t.Context(), s.URL, client.Options{HTTPClient: s.Client()})
	if e, ok := errors.AsType[*client.TransportError](err); !ok || e.Kind != client.KindRefused || len(s.paths) != 6 {
		t.Errorf("got %v after %d requests", err, len(s.paths))
	}
	u, _ := url.Parse(s.URL)
	if err != nil && !strings.Contains(err.Error(), u.Host) {
		t.Errorf("got %v", err)
	}
}
