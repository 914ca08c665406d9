package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/inbox"
	"handoff.example/handoff/internal/job"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configuration = `
public_url: https://agents.example.com
secret_key: ${KEY_OF_THE_TEST:-0123456789abcdef0123456789abcdef}
agents:
  desk: {name: Desk, description: Answers., version: 1.0.0, skills: [{id: a, name: A, description: Does a., tags: [x]}], run: {script: [{do: [{complete: done}]}]}}
  dock: {name: Dock, description: Answers., version: 1.0.0, tenants: [acme], skills: [{id: a, name: A, description: Does a., tags: [x]}], run: {script: [{do: [{complete: done}]}]}}
callers: {keys: true}
`

// node is an API on a real engine and store. Its callers say in a header who
// they are: role, tenant and subject with slashes between.
type node struct {
	t      *testing.T
	store  *sqlite.Store
	engine *engine.Engine
	server *httptest.Server
	config *config.Config
	specs  map[string]*engine.Spec

	reload func() ([]config.Change, error)
	peers  []store.Node // that the store has besides this one

	changes changes.Feed
	jobs    *job.Runner // that only some tests start
}

type sealer struct{}

func (sealer) Seal(b []byte) ([]byte, error) { return append([]byte("sealed:"), b...), nil }
func (sealer) Open(b []byte) ([]byte, error) { return bytes.TrimPrefix(b, []byte("sealed:")), nil }

// run is the agent of the tests: it does what the first word of the message
// says.
func run(ctx context.Context, t *agent.Turn) error {
	switch word, _, _ := strings.Cut(t.Text(), " "); {
	case t.Grant != nil && t.Grant.Approved:
		return t.Artifact(a2a.Text("granted: " + t.Grant.Note + string(t.Grant.Data)))
	case t.Grant != nil:
		return t.Reject("denied")
	case word == "ask":
		return t.Ask("What?", nil)
	case word == "form" && t.Cause == agent.CauseMessage && len(t.Messages) == 1 && t.Messages[0].Parts[0].Kind == a2a.PartText:
		return t.Ask("How many?", a2a.JSON(`{"type":"object","required":["qty"],"properties":{"qty":{"type":"integer"}}}`))
	case word == "fail":
		return t.Fail("no")
	case word == "pay":
		return t.Authorize("Pay 5 EUR?", "pay")
	case word == "hold":
		if err := t.Working("holding"); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
	return t.Artifact(a2a.Text("said " + t.Text()))
}

func callerOf(r *http.Request) (auth.Principal, error) {
	role, rest, ok := strings.Cut(r.Header.Get("X-Caller"), "/")
	tenant, subject, _ := strings.Cut(rest, "/")
	p := auth.Principal{Tenant: tenant, Subject: subject, Issuer: "test"}
	if subject == "root" {
		p.Issuer = auth.IssuerSocket
	}
	switch {
	case !ok:
		return p, &auth.Refusal{Err: a2a.Errorf(a2a.CodeUnauthenticated, "Authentication is required"), Challenges: []string{"Bearer"}}
	case role == "viewer":
		p.Role = auth.RoleViewer
	case role == "caller":
		p.Role = auth.RoleCaller
	case role == "operator":
		p.Role = auth.RoleOperator
	case role == "admin":
		p.Role = auth.RoleAdmin
	}
	return p, nil
}

type authenticator struct{}

func (authenticator) Authenticate(r *http.Request) (auth.Principal, error) { return callerOf(r) }

func newNode(t *testing.T) *node {
	t.Helper()
	cfg, err := config.Parse([]byte(configuration), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, store: st, config: cfg, specs: map[string]*engine.Spec{}}
	for _, id := range []string{"desk", "dock", "gone", "buyer"} {
		n.specs[id] = &engine.Spec{ID: id, Run: agent.Func(run), FirstStepWait: time.Second, Claims: time.Hour, Retention: time.Hour}
	}
	log := slog.New(slog.DiscardHandler)
	n.specs["peer:supplier"] = &engine.Spec{
		ID: "peer:supplier", Peer: "supplier", Run: agent.Func(run), Answers: engine.AnswersTask, OnInterrupt: engine.InterruptResume, Claims: time.Hour, Retention: time.Hour,
	}
	told := changes.NewStore(st, &n.changes)
	handlers := map[string]job.Handler{}
	for _, kind := range engine.JobKinds() {
		handlers[kind] = func(ctx context.Context, j *store.Job) error { return n.engine.DoJob(ctx, j) }
	}
	n.jobs = job.NewRunner(st, handlers, log)
	n.engine = engine.New(engine.Config{
		JobsDue: n.jobs.Due, Store: told, Node: store.Node{Name: "test/1", Version: "v0", Digest: map[string]string{"lease": "10s"}}, Logger: log, Sealer: sealer{},
		Agents: func(id string) *engine.Spec { return n.specs[id] },
	})
	if err := n.engine.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.reload = func() ([]config.Change, error) { return nil, errors.New("listen can only be changed by a restart") }
	recorder := audit.New(st, log)
	recorder.Set(audit.Settings{Level: audit.All})
	n.server = httptest.NewServer(api.New(api.Options{
		Tools: knownTools{}, Audit: recorder, Peers: newPeers(t, st), Delegator: delegator{n}, Delegations: st,
		Engine: n.engine, Auth: authenticator{}, Logger: log, Version: "v1.2.3",
		Config: func() *config.Config { return n.config }, Reload: func() ([]config.Change, error) { return n.reload() },
		Nodes: func(ctx context.Context) ([]store.Node, error) {
			list, err := st.Nodes(ctx)
			return append(list, n.peers...), err
		},
		Bus: func() *bus.State {
			return &bus.State{Kind: "nats", Server: "127.0.0.1:4222", Connected: true, Since: time.Now()}
		},
		Store: told, Changes: &n.changes, Gateway: func() http.Handler { return http.HandlerFunc(serveTools) },
		Card: func(id, tenant, base string) ([]byte, bool, error) {
			document, ok, err := card.NewPublisher(n.config, nil).Document(id, tenant, base)
			return document.Body(), ok, err
		},
		Inbox: inbox.New(inbox.Options{
			Store: told, Scope: store.ForAll(), Engine: n.engine, Agents: func(id string) *engine.Spec { return n.specs[id] }, Logger: log,
			Settings: func() inbox.Settings { return inbox.Settings{} }, Keys: [][]byte{[]byte("key")}, Base: func() string { return "https://agents.example.com" },
		}),
		Webhooks: push.New(push.Options{Store: st, Scope: store.ForAll(), Guard: netguard.New(netguard.Policy{}), Logger: log}),
		ConsoleLink: func(context.Context) (string, time.Time, error) {
			return "http://127.0.0.1:8080/console/?once=secret", time.Now(), nil
		},
		Keys: auth.NewKeys(st, log), Backup: st.Backup, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, "handoff_tasks 1\n")
		}),
	}))
	t.Cleanup(func() {
		n.server.Close()
		n.server.Client().CloseIdleConnections()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // no grace
		if err := errors.Join(n.engine.Stop(ctx), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// send sends a message to an agent as somebody.
func (n *node) send(agentID, tenant, subject, text string) *a2a.Task {
	n.t.Helper()
	response, err := n.engine.Send(n.t.Context(), &engine.Request{
		Spec: n.specs[agentID], Scope: store.ForOwner(tenant, subject), Authenticated: subject != "",
		Caller:  agent.Caller{Tenant: tenant, Subject: subject},
		Message: &a2a.Message{MessageID: subject + text, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}},
		Config:  a2a.SendMessageConfiguration{ReturnImmediately: strings.HasPrefix(text, "hold")},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return response.Task
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

// call sends a request as somebody. A body that is not empty is JSON.
func (n *node) call(method, path, caller, body string, headers ...string) *answer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.server.URL+api.Prefix+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("X-Caller", caller)
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := n.server.Client().Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	read := io.ReadAll
	if strings.HasPrefix(path, "/changes") && response.StatusCode == http.StatusOK {
		read = readEvent // it does not end
	}
	b, err := read(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return &answer{n.t, response.StatusCode, response.Header, b}
}

// readEvent reads one server-sent event.
func readEvent(r io.Reader) ([]byte, error) {
	var event []byte
	one := make([]byte, 1)
	for !bytes.HasSuffix(event, []byte("\n\n")) {
		if _, err := io.ReadFull(r, one); err != nil {
			return event, err
		}
		event = append(event, one[0])
	}
	return event, nil
}

// ok fails the test unless the answer has that status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

func (a *answer) decode(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v, json.MatchCaseInsensitiveNames(true)); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
}

type taskBody struct {
	Agent, Tenant, Owner string
	Turn, Events         int
	Running, Stale       bool
	Task                 a2a.Task
}

func (a *answer) task() *taskBody {
	a.t.Helper()
	var body taskBody
	a.want(http.StatusOK).decode(&body)
	return &body
}

type listBody struct {
	Tasks         []taskBody
	NextPageToken string `json:"next_page_token"`
	TotalSize     int    `json:"total_size"`
}

func (a *answer) list() *listBody {
	a.t.Helper()
	var body listBody
	a.want(http.StatusOK).decode(&body)
	return &body
}

type errorBody struct {
	Error struct {
		Code    int
		Status  string
		Message string
		Details []struct{ Reason string }
	}
}

func (a *answer) failure(status int) *errorBody {
	a.t.Helper()
	var body errorBody
	a.want(status).decode(&body)
	return &body
}
