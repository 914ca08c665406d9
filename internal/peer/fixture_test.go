package peer_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// agent is an agent elsewhere: it has a card and knows no task.
type agent struct {
	*httptest.Server
	mu       sync.Mutex
	card     string // JSON with %[1]s for the URL of the server
	requests []*http.Request
	accept   func(r *http.Request) bool // nil: everybody
	closed   bool                       // the card is for those only who authenticate
	down     bool
	says     func(r *http.Request) string // the message of its errors
	// sends answers SendMessage, with the result for the nth message of an id.
	sends func(id string, n int) string
	sent  map[string]int
	// canceled are the tasks that it was told to cancel.
	canceled []string
}

const openCard = `{"name":"Supplier","description":"Sells.","version":"1","supportedInterfaces":[{"url":"%[1]s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"sell","name":"Sell","description":"All.","tags":["x"]}]%[2]s}`

// cardWith returns a card with more members.
func cardWith(more string) string { return fmt.Sprintf(openCard, "%[1]s", more) }

func newAgent(t *testing.T, card string) *agent {
	t.Helper()
	a := &agent{card: card}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func newTLSAgent(t *testing.T, card string, configure func(*httptest.Server)) *agent {
	t.Helper()
	a := &agent{card: card}
	a.Server = httptest.NewUnstartedServer(a)
	a.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	configure(a.Server)
	a.StartTLS()
	t.Cleanup(a.Close)
	return a
}

// set changes the agent while it serves.
func (a *agent) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// calls returns the requests for tasks so far.
func (a *agent) calls() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	allowed := a.accept == nil || a.accept(r)
	if strings.HasSuffix(r.URL.Path, a2a.WellKnownCardPath) {
		if a.closed && !allowed {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, strings.ReplaceAll(a.card, "%[1]s", a.URL))
		return
	}
	a.requests = append(a.requests, r)
	if !allowed {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	var q struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params struct {
			ID      string `json:"id"`
			Message struct {
				ID string `json:"messageId"`
			} `json:"message"`
		} `json:"params"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &q)
	w.Header().Set("Content-Type", "application/json")
	if a.sends != nil && q.Method == "SendMessage" {
		if a.sent == nil {
			a.sent = map[string]int{}
		}
		a.sent[q.Params.Message.ID]++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,%s}`, q.ID, a.sends(q.Params.Message.ID, a.sent[q.Params.Message.ID]))
		return
	}
	if q.Method == "CancelTask" {
		a.canceled = append(a.canceled, q.Params.ID)
	}
	text := "no such task"
	if a.says != nil {
		text = a.says(r)
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":%q}}`, q.ID, text)
}

// canary is a server that nobody is to reach.
func canary(t *testing.T) (url string, hits *atomic.Int64) {
	t.Helper()
	hits = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, hits
}

// raised is an inbox that remembers.
type raised struct {
	mu      sync.Mutex
	items   []*store.InboxItem
	settled []string
}

func (r *raised) Raise(_ context.Context, item *store.InboxItem) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.items {
		if known.ID == item.ID {
			return nil
		}
	}
	r.items = append(r.items, item)
	return nil
}

func (r *raised) Settle(_ context.Context, name, by, decision, except string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.items) == 0 || len(r.items) == 1 && r.items[0].ID == except {
		return nil // none is open
	}
	r.settled = append(r.settled, name+" "+decision+" by "+by)
	return nil
}

// directory returns a directory of the peers of a text, as under peers.
func directory(t *testing.T, peers string, change ...func(*peer.Options)) *peer.Directory {
	t.Helper()
	opts := peer.Options{Guard: netguard.New(netguard.Policy{}), Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&opts)
	}
	d := peer.New(opts)
	use(t, d, peers)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	return d
}

func use(t *testing.T, d *peer.Directory, peers string) {
	t.Helper()
	set, err := d.Prepare(parse(t, peers))
	if err != nil {
		t.Fatal(err)
	}
	d.Use(set)
}

func parse(t *testing.T, peers string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte("peers: {"+peers+"}"), "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newSealer(t *testing.T) *auth.Sealer {
	t.Helper()
	s, err := auth.NewSealer(auth.GenerateKey())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func withSealer(t *testing.T) func(*peer.Options) {
	t.Helper()
	s := newSealer(t)
	return func(o *peer.Options) { o.Sealer = s }
}

// dial returns a client, and fails without one.
func dial(t *testing.T, d *peer.Directory, name string, user peer.User) *client.Client {
	t.Helper()
	c, _, err := d.Client(t.Context(), name, user)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask asks for a task that there is not.
func ask(ctx context.Context, c *client.Client) error {
	_, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: "none"})
	return err
}
