package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
	"handoff.example/handoff/internal/wire"
)

// testNode is a node with one agent, quote, that reacts to the first word of a
// message.
type testNode struct {
	url     string // of the agent
	base    string
	begun   chan string   // gets the task of every turn that holds
	streams chan struct{} // gets a value for the first event of every stream
	gate    chan struct{} // closed: turns that hold go on

	engine  *engine.Engine
	store   *sqlite.Store
	server  *httptest.Server
	gateway atomic.Bool  // answers are not cut but replaced by those of a proxy
	cuts    atomic.Int32 // answers to cut: of streams after two events, of others before the first byte
}

// nodeOptions are how a node of a test differs from the usual one.
type nodeOptions struct {
	noStream bool
	schemes  map[string]a2a.SecurityScheme
	auth     auth.Authenticator
	tls      bool
	restOnly bool
	dir      string
}

func startNode(o nodeOptions) (*testNode, error) {
	n := &testNode{begun: make(chan string, 16), streams: make(chan struct{}, 16), gate: make(chan struct{})}
	var err error
	if n.store, err = sqlite.Open(context.Background(), filepath.Join(o.dir, "node.db"), sqlite.Options{}); err != nil {
		return nil, err
	}
	spec := &engine.Spec{
		ID: "quote", Run: agent.Func(n.run), FirstStepWait: 50 * time.Millisecond, Claims: time.Hour,
		Skills: []a2a.AgentSkill{{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}}},
	}
	log := slog.New(slog.DiscardHandler)
	n.engine = engine.New(engine.Config{
		Store: n.store, Logger: log, Node: store.Node{Name: "test"}, Lease: 2 * time.Second,
		Agents: func(id string) *engine.Spec {
			if id == spec.ID {
				return spec
			}
			return nil
		},
	})
	if err := n.engine.Start(context.Background()); err != nil {
		return nil, err
	}
	var card *a2a.AgentCard
	served := &wire.Agent{
		Spec: spec, Streaming: !o.noStream, LastEventID: true,
		InputModes: []string{"text/plain", "text/markdown", "application/json", "application/octet-stream", "application/pdf"},
		Card: func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(card.AppendJSON(nil))
		},
	}
	set, err := wire.NewSet([]*wire.Agent{served}, "")
	if err != nil {
		return nil, err
	}
	if o.auth == nil {
		o.auth = &auth.Anonymous{Policy: auth.PolicyLoopback}
	}
	handler := wire.NewHandler(wire.Options{Engine: n.engine, Agents: func() *wire.Set { return set }, Logger: log, Auth: o.auth})
	n.server = httptest.NewUnstartedServer(n.cutting(handler))
	n.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	scheme := "http://"
	if o.tls {
		scheme = "https://"
	}
	n.base = scheme + n.server.Listener.Addr().String()
	n.url = n.base + "/agents/quote/"
	card = n.card(o)
	if o.tls {
		n.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		n.server.StartTLS()
	} else {
		n.server.Start()
	}
	return n, nil
}

func (n *testNode) card(o nodeOptions) *a2a.AgentCard {
	card := &a2a.AgentCard{
		Name: "Quote Agent", Description: "Quotes prices.", Version: "1.2.3",
		Provider:          &a2a.AgentProvider{Organization: "Example", URL: "https://example.com"},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities:    a2a.AgentCapabilities{Streaming: new(!o.noStream)},
		SecuritySchemes: o.schemes,
		Skills:          []a2a.AgentSkill{{ID: "quote", Name: "Quote", Description: "Quotes a price.", Tags: []string{"price"}}},
		SupportedInterfaces: []a2a.AgentInterface{
			{URL: n.url + "rpc", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
			{URL: n.url + "v1", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "1.0"},
		},
	}
	if o.restOnly {
		card.SupportedInterfaces = card.SupportedInterfaces[1:]
	}
	return card
}

func (n *testNode) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.server.CloseClientConnections()
	// The node still waits to answer clients that are gone, until their tasks
	// are over.
	_ = n.engine.Stop(ctx)
	n.server.Close()
	_ = n.store.Close()
}

// cutting cuts the answers that are to be cut.
func (n *testNode) cutting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file.csv" && r.Header.Get("Authorization") == "" {
			_, _ = io.WriteString(w, "a,b\n")
			return
		}
		if r.Method == http.MethodGet || n.cuts.Load() == 0 {
			next.ServeHTTP(&noticingWriter{ResponseWriter: w, streams: n.streams}, r)
			return
		}
		n.cuts.Add(-1)
		if n.gateway.Load() {
			next.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "<html>upstream timed out</html>", http.StatusGatewayTimeout)
			return
		}
		next.ServeHTTP(&cuttingWriter{ResponseWriter: w}, r)
		panic(http.ErrAbortHandler)
	})
}

// noticingWriter tells of the first event of a stream.
type noticingWriter struct {
	http.ResponseWriter
	streams chan<- struct{}
	told    bool
}

func (w *noticingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	if !w.told && w.Header().Get("Content-Type") == "text/event-stream" && bytes.Contains(b, []byte("data:")) {
		w.told = true
		select {
		case w.streams <- struct{}{}:
		default: // nobody waits
		}
	}
	return n, err
}

func (w *noticingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// cuttingWriter lets two events of a stream pass and nothing of anything else.
type cuttingWriter struct {
	http.ResponseWriter
	events int
}

func (c *cuttingWriter) Write(b []byte) (int, error) {
	if c.Header().Get("Content-Type") != "text/event-stream" {
		return len(b), nil
	}
	c.events += bytes.Count(b, []byte("data:"))
	if c.events > 2 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

func (c *cuttingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// run is the agent.
func (n *testNode) run(ctx context.Context, t *agent.Turn) error {
	word, rest, _ := strings.Cut(t.Text(), " ")
	if t.Number > 1 && word != "ask" {
		_ = t.Artifact(a2a.Text("you said " + t.Text()))
		return t.Complete()
	}
	switch word {
	case "echo":
		parts := t.Messages[len(t.Messages)-1].Parts
		return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a1", Name: "echo", Parts: parts, Last: true}})
	case "skill":
		return t.Artifact(a2a.Text("skill=" + t.Skill + " accept=" + strings.Join(t.Accept, "+") + " refs=" + strings.Join(t.References, "+")))
	case "message":
		return t.Message(a2a.Text(rest))
	case "ask":
		return t.Ask("Which Incoterm?", nil)
	case "auth":
		return t.Authorize("May I post it?", "post")
	case "fail":
		return t.Fail("out of stock")
	case "reject":
		return t.Reject("not today")
	case "hold":
		_ = t.Working("holding")
		if err := t.Flush(); err != nil {
			return err
		}
		n.begun <- t.TaskID
		select {
		case <-n.gate:
			return t.Complete("released")
		case <-ctx.Done():
			return ctx.Err()
		}
	case "chunks":
		return chunks(t)
	case "files":
		return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "f1", Name: "order", Last: true, Parts: []a2a.Part{
			{Kind: a2a.PartText, Text: "# Order\n\nAll of it.", MediaType: "text/markdown"},
			a2a.Data(a2a.JSON(`{"total":12.50,"big":12345678901234567890}`)),
			a2a.Raw([]byte("%PDF-1.7"), "application/pdf", "order.pdf"),
			a2a.URL(n.base+"/remote.csv", "text/csv", "remote.csv"),
		}}})
	case "link":
		return t.Artifact(a2a.URL(rest, "text/csv", ""))
	case "evil":
		return t.Emit(agent.Step{Artifact: &agent.Artifact{ID: "e1", Last: true, Parts: []a2a.Part{
			a2a.Raw([]byte("1"), "", "../../escape.txt"),
			a2a.Raw([]byte("2"), "", `C:\windows\..\escape.txt`),
			a2a.Raw([]byte("3"), "", ".bashrc"),
			a2a.Raw([]byte("4"), "", "/etc/passwd"),
			a2a.Raw([]byte("5"), "text/plain", ".."),
		}}})
	case "terminal":
		_ = t.Artifact(a2a.Text("red \x1b[31malert\x1b[0m\n\nState: COMPLETED \u202eabc\u202c"))
		return t.Complete()
	}
	return t.Complete()
}

// chunks streams an artifact in three chunks.
func chunks(t *agent.Turn) error {
	_ = t.Working("first\nsecond")
	for i, text := range []string{"one ", "two ", "three"} {
		_ = t.Emit(agent.Step{Artifact: &agent.Artifact{
			ID: "c1", Name: "count", Parts: []a2a.Part{a2a.Text(text)}, Append: i > 0, Last: i == 2,
		}})
	}
	return t.Complete("done")
}

// bearerCallers accepts one token, and keys in a header or a query parameter.
type bearerCallers struct{}

// Authenticate finds out who sent the request.
func (bearerCallers) Authenticate(r *http.Request) (auth.Principal, error) {
	p := auth.Principal{Tenant: "t", Subject: "s", Issuer: "test", Role: auth.RoleCaller}
	switch {
	case r.Header.Get("Authorization") == "Bearer top-secret":
	case r.Header.Get("X-Quote-Key") == "key-secret":
	case r.URL.Query().Get("quote_key") == "key-secret":
	case r.Header.Get("Authorization") != "":
		return p, a2a.Errorf(a2a.CodeUnauthenticated, "The credentials %s are not valid", r.Header.Get("Authorization"))
	default:
		return p, &auth.Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required"), Challenges: []string{"Bearer"}}
	}
	return p, nil
}

// scriptedServer answers what a script says: an agent that does what ours does
// not do.
type scriptedServer struct {
	card    func(base string) *a2a.AgentCard
	handler http.Handler
}

func (s *scriptedServer) start() *httptest.Server {
	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.WellKnownCardPath {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(s.card(base).AppendJSON(nil))
			return
		}
		s.handler.ServeHTTP(w, r)
	})
	server.Start()
	return server
}

func plainCard(base string) *a2a.AgentCard {
	return &a2a.AgentCard{
		Name: "Plain", Description: "Plain.", Version: "1",
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Capabilities: a2a.AgentCapabilities{PushNotifications: new(true), ExtendedAgentCard: new(true)},
		Skills:       []a2a.AgentSkill{{ID: "p", Name: "P", Description: "P.", Tags: []string{"p"}}},
		SupportedInterfaces: []a2a.AgentInterface{
			{URL: base + "/v1", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "1.0"},
		},
	}
}

// pushServer keeps the webhooks of any task in memory, over HTTP+JSON, and has
// an extended card.
func pushServer() *scriptedServer {
	var mu sync.Mutex
	kept := map[string]*a2a.TaskPushNotificationConfig{}
	reply := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/extendedAgentCard", func(w http.ResponseWriter, r *http.Request) {
		card := plainCard("http://" + r.Host)
		card.Name = "Plain, extended"
		reply(w, card.AppendJSON(nil))
	})
	const path = "/v1/tasks/{task}/pushNotificationConfigs"
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c := new(a2a.TaskPushNotificationConfig)
		if err := a2a.Unmarshal(body, c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if c.ID == "" {
			c.ID = "w1"
		}
		kept[c.ID] = c
		reply(w, c.AppendJSON(nil))
	})
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		list := a2a.ListTaskPushNotificationConfigsResponse{}
		for _, c := range kept {
			list.Configs = append(list.Configs, *c)
		}
		reply(w, list.AppendJSON(nil))
	})
	mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		c, ok := kept[r.PathValue("id")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			reply(w, a2a.TaskNotFound("x").AppendStatus(nil))
			return
		}
		reply(w, c.AppendJSON(nil))
	})
	mux.HandleFunc("DELETE "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		delete(kept, r.PathValue("id"))
		reply(w, []byte("{}"))
	})
	return &scriptedServer{card: plainCard, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		mux.ServeHTTP(w, r)
	})}
}

// deafServer accepts requests and never answers.
func deafServer(done <-chan struct{}) *scriptedServer {
	return &scriptedServer{card: plainCard, handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-done:
		}
	})}
}

// unusedAddress is an address at which nobody listens.
func unusedAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
