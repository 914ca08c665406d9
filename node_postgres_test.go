//go:build postgres

package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// nodeLog is what a node logs.
type nodeLog struct {
	mu   sync.Mutex
	text strings.Builder
	line chan struct{} // has something when a line came
}

func (l *nodeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.line <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

func (l *nodeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// waitFor waits until the log has a text.
func (l *nodeLog) waitFor(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !strings.Contains(l.String(), text) {
		select {
		case <-l.line:
		case <-deadline:
			t.Fatalf("the log has no %q:\n%s", text, l)
		}
	}
}

// member is a node of a store.
type member struct {
	*handoff.Node
	server *httptest.Server
	log    *nodeLog
	stop   func()
}

// join starts a node on a database. Its log is searched for the password at the
// end.
func join(t *testing.T, address, text string) *member {
	t.Helper()
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), strings.Replace(text, "sqlite:tasks.db", address, 1))
	log := &nodeLog{line: make(chan struct{}, 1)}
	node, err := handoff.New(c, handoff.Options{Version: "v9", Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := &member{Node: node, server: httptest.NewServer(node), log: log}
	m.stop = sync.OnceFunc(func() {
		m.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		hidesPassword(t, "the log", log.String())
	})
	t.Cleanup(m.stop)
	return m
}

// get makes a request and returns what came of it.
func get(t *testing.T, url string, headers ...string) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return response.StatusCode, response.Header, string(text)
}

func TestPostgresKeepsTasks(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	first := join(t, address, configuration)
	c := dial(t, first.server.URL+"/agents/echo/", client.Options{})
	done := send(t, c, client.NewMessage(a2a.Text("hello")))
	asked := send(t, c, client.NewMessage(a2a.Text("ask")))
	if done.Status.State != a2a.StateCompleted || asked.Status.State != a2a.StateInputRequired {
		t.Errorf("%s %s", done.AppendJSON(nil), asked.AppendJSON(nil))
	}
	first.stop()
	first.log.waitFor(t, "store=\"postgres://handoff:***@/postgres?host=")
	first.log.waitFor(t, "bus=postgres")

	second := join(t, address, configuration)
	c = dial(t, second.server.URL+"/agents/echo/", client.Options{})
	if got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: done.ID}); err != nil || got.Artifacts[0].Parts[0].Text != "hello" {
		t.Errorf("after a restart: %v %v", got, err)
	}
	if got := send(t, c, client.FollowUp(asked, a2a.Text("this"))); got.Status.State != a2a.StateCompleted {
		t.Errorf("after the answer: %s", got.AppendJSON(nil))
	}
}

func TestTwoNodesServeTheSameTasks(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	one, two := join(t, address, configuration), join(t, address, configuration)
	asked := send(t, dial(t, one.server.URL+"/agents/echo/", client.Options{}), client.NewMessage(a2a.Text("ask")))
	if got := send(t, dial(t, two.server.URL+"/agents/echo/", client.Options{}), client.FollowUp(asked, a2a.Text("this"))); got.Status.State != a2a.StateCompleted {
		t.Errorf("at the other node: %s", got.AppendJSON(nil))
	}
}

func TestNodesWithOtherConfigurationsAreReported(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	one := join(t, address, configuration)
	same := join(t, address, configuration)
	two := join(t, address, strings.NewReplacer("description: Says it again.\n    version", "description: Repeats it.\n    version", "0123456789abcdef0123", "0123456789abcdef9999").Replace(configuration))
	two.log.waitFor(t, `differences="agent echo has another configuration there; secret_key has another configuration there"`)
	same.stop()
	if strings.Contains(same.log.String(), "another configuration") && strings.Index(same.log.String(), "another configuration") < strings.Index(two.log.String(), "joined") {
		t.Errorf("nodes of one configuration: %s", same.log)
	}
	_ = one
}

// TestNewStoreIsTold makes a store, which may be a mistake in its address, and
// then uses it.
func TestNewStoreIsTold(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	first := join(t, address, configuration)
	first.log.waitFor(t, `msg="The store is new, and its tables were made"`)
	first.log.waitFor(t, " schema=test")
	first.stop()
	if second := join(t, address, configuration); strings.Contains(second.log.String(), "The store is new") {
		t.Errorf("the second node: %s", second.log)
	}
}

func TestPostgresRefusals(t *testing.T) {
	t.Parallel()
	address := aSchema(t)
	newer := aSchema(t)
	join(t, newer, configuration).stop()
	execute(t, newer, "UPDATE schema_info SET min_program = 99", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")
	escaped := strings.SplitN(strings.TrimPrefix(address, "postgres://handoff:"), "@", 2)[0]
	of := func(user, address string) string {
		return strings.Replace(address, "postgres://handoff:", "postgres://"+user+":", 1)
	}
	elsewhere := strings.Replace(address, "search_path=", "application_name=", 1)
	readable := aSchema(t)
	join(t, readable, configuration).stop()
	execute(t, readable,
		"CREATE ROLE reader LOGIN PASSWORD '"+databasePassword+"'",
		"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO reader', current_schema()); EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO reader', current_schema()); END $$",
		"CREATE ROLE lost LOGIN PASSWORD '"+databasePassword+"'", "ALTER ROLE lost SET search_path = ''",
		"CREATE ROLE idle LOGIN PASSWORD '"+databasePassword+"'", "ALTER ROLE idle SET default_transaction_read_only = on",
	)
	for _, tt := range []struct{ name, address, problem, advice string }{
		{"wrong password", strings.Replace(address, escaped, "wrong"+escaped, 1), "password authentication failed", "Check the user and the password"},
		{"no database", strings.Replace(address, "/postgres?", "/other?", 1), `"other" does not exist`, "Make the database first"},
		{"nobody there", "postgres://handoff:" + escaped + "@127.0.0.1:1/handoff", "127.0.0.1:1", "this machine reaches the host and port"},
		{"no such host", "postgres://handoff:" + escaped + "@nowhere.invalid/handoff", "nowhere.invalid", "its name is not known"},
		{"user may only read", of("reader", readable), "the user reader may not write committers, epochs, events, job_ids, jobs, nodes, revisions, task_keys, tasks", "own the tables"},
		{"user may make nothing", of("reader", address), "permission denied", "GRANT USAGE, CREATE ON SCHEMA"},
		{"no schema", of("lost", elsewhere), "search_path names no schema", "search_path="},
		{"read only", of("idle", address), "takes no changes (default_transaction_read_only is on)", "Turn default_transaction_read_only off"},
		{"unknown parameter", address + "&no_such_setting=1", `"no_such_setting"`, "parameter behind the ?"},
		{"newer tables", newer, "need a program that knows 99", "Upgrade this program"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := &nodeLog{line: make(chan struct{}, 1)}
			c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), strings.Replace(configuration, "sqlite:tasks.db", tt.address, 1))
			_, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
			var refusal *handoff.StoreError
			if !errors.As(err, &refusal) {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(err.Error(), tt.problem) || !strings.Contains(refusal.Advice, tt.advice) {
				t.Errorf("%v: %s", err, refusal.Advice)
			}
			hidesPassword(t, "the error", err.Error()+refusal.Advice)
			hidesPassword(t, "the log", log.String())
		})
	}
}

func TestANodeWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	d, err := postgrestest.NewWithPassword(databasePassword)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	node := join(t, addressOf(d, "away"), "lease: 1s\n"+configuration)
	rest := dial(t, node.server.URL+"/agents/echo/", client.Options{Transports: []string{a2a.BindingREST}})
	task := send(t, rest, client.NewMessage(a2a.Text("hello")))
	if status, _, body := get(t, node.server.URL+"/readyz"); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, body)
	}
	if err := d.Stop("immediate"); err != nil {
		t.Fatal(err)
	}
	if status, _, body := get(t, node.server.URL+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readiness without a database: %d %s", status, body)
	}
	if status, _, body := get(t, node.server.URL+"/healthz"); status != http.StatusOK {
		t.Errorf("health without a database: %d %s", status, body)
	}
	for _, path := range []string{"/agents/echo/v1/tasks/" + task.ID, "/api/v1/tasks/" + task.ID} {
		status, header, body := get(t, node.server.URL+path, "A2A-Version", "1.0")
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q: %s", path, status, header.Get("Retry-After"), body)
		}
		hidesPassword(t, path, body)
	}
	request := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, task.ID)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, node.server.URL+"/agents/echo/rpc", strings.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	response, err := node.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("JSON-RPC: %d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(30 * time.Second)
	for {
		status, _, _ := get(t, node.server.URL+"/readyz")
		got, err := rest.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
		if status == http.StatusOK && err == nil && got.Status.State == a2a.StateCompleted {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("when the database is back: %d %v %v\n%s", status, got, err, node.log)
		}
	}
}

// What one node commits, the stream at another one hears of over NATS.
func TestNodesHearOfEachOtherOverNATS(t *testing.T) {
	t.Parallel()
	natsServer, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: nats.RANDOM_PORT, NoSigs: true, Username: "node", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	natsServer.Start()
	t.Cleanup(func() {
		natsServer.Shutdown()
		natsServer.WaitForShutdown()
	})
	if !natsServer.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS does not start")
	}
	address := aSchema(t)
	bus := "bus: nats://node:s3cret@" + natsServer.Addr().String() + "\n"
	one, two := join(t, address, bus+configuration), join(t, address, bus+configuration)
	one.log.waitFor(t, "bus=nats://node:***@127.0.0.1:")
	asked := send(t, dial(t, one.server.URL+"/agents/echo/", client.Options{}), client.NewMessage(a2a.Text("ask")))
	c := dial(t, two.server.URL+"/agents/echo/", client.Options{})
	stream, err := c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: asked.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if first, err := stream.Next(); err != nil || first.Task == nil {
		t.Fatalf("the stream begins with %v %v", first, err)
	}
	send(t, dial(t, one.server.URL+"/agents/echo/", client.Options{}), client.FollowUp(asked, a2a.Text("this")))
	for {
		e, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.StatusUpdate != nil && e.StatusUpdate.Status.State == a2a.StateCompleted {
			break
		}
	}
	if _, _, body := get(t, two.server.URL+"/api/v1/status"); strings.Contains(body, "s3cret") {
		t.Errorf("the status shows the password: %s", body)
	}
	for _, m := range []*member{one, two} {
		m.stop()
		if strings.Contains(m.log.String(), "s3cret") {
			t.Errorf("the log shows the password:\n%s", m.log)
		}
	}
}
