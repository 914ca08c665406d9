package handoff_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// atEnd is called when all tests have ended.
var atEnd []func() error

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, f := range atEnd {
			if err := f(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
		os.Exit(code)
	}))
}

const configuration = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
agents:
  echo:
    name: Echo
    description: Says it again.
    version: 1.0.0
    skills: [{id: echo, name: Echo, description: Says it again., tags: [demo]}]
    run:
      script:
        - when: {text: "^ask"}
          do: [{ask: "What?"}]
        - when: {grant: approve}
          do: [{complete: granted}]
        - when: {text: "^auth"}
          do: [{authorize: "May I?", operation: post}]
        - when: {text: "(.*)"}
          do: [{artifact: {parts: [{text: "{{.Text}}"}]}}]
`

// load writes a configuration and loads it.
func load(t *testing.T, file, text string) *handoff.Config {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := handoff.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func start(t *testing.T, c *handoff.Config, opts handoff.Options) (*handoff.Node, *httptest.Server) {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	node, err := handoff.New(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(node)
	t.Cleanup(func() {
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node, server
}

func dial(t *testing.T, url string, options client.Options) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	options.HTTPClient = &http.Client{Transport: transport}
	c, err := client.Dial(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func send(t *testing.T, c *client.Client, m *a2a.Message) *a2a.Task {
	t.Helper()
	response, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: m})
	if err != nil {
		t.Fatal(err)
	}
	return response.Task
}

func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	node, server := start(t, load(t, file, configuration), handoff.Options{})
	c := dial(t, server.URL+"/agents/echo/", client.Options{})
	asked := send(t, c, client.NewMessage(a2a.Text("ask")))

	change := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := node.Reload()
		return err
	}
	if err := change(strings.Replace(configuration, "tasks.db", "other.db", 1)); err == nil || !strings.Contains(err.Error(), "store") {
		t.Errorf("a reload with another store: %v", err)
	}
	if err := change(strings.Replace(configuration, "name: Echo", "nam: Echo", 1)); err == nil {
		t.Error("a reload with a misspelt key worked")
	}
	if got := send(t, c, client.NewMessage(a2a.Text("still here"))); got.Status.State != a2a.StateCompleted {
		t.Errorf("after refused reloads: %s", got.AppendJSON(nil))
	}
	// The agent gets another name: its tasks stay readable and take no messages.
	if err := change(strings.Replace(configuration, "  echo:", "  parrot:", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: asked.ID}); err != nil {
		t.Errorf("get from a removed agent: %v", err)
	}
	_, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("x"))})
	if a2a.CodeOf(err) != a2a.CodeUnsupportedOperation {
		t.Errorf("send to a removed agent: %v", err)
	}
	if got, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: asked.ID}); err != nil || got.Status.State != a2a.StateCanceled {
		t.Errorf("cancel at a removed agent: %v", err)
	}
	parrot := dial(t, server.URL+"/agents/parrot/", client.Options{})
	if got := send(t, parrot, client.NewMessage(a2a.Text("hi"))); got.Artifacts[0].Parts[0].Text != "hi" {
		t.Errorf("the new agent: %s", got.AppendJSON(nil))
	}
}

// A stream counts until it ends, also when the configuration is another one then.
func TestStreamsCountOverReloads(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	limited := func(streams int) string { return configuration + fmt.Sprintf("limits: {streams: %d}\n", streams) }
	node, server := start(t, load(t, file, limited(0)), handoff.Options{})
	c := dial(t, server.URL+"/agents/echo/", client.Options{})
	asked := send(t, c, client.NewMessage(a2a.Text("ask")))
	open, err := c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: asked.ID})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(limited(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Reload(); err != nil {
		t.Fatal(err)
	}
	again := func() error {
		stream, err := c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: asked.ID})
		if err == nil {
			_ = stream.Close()
		}
		return err
	}
	if err := again(); a2a.CodeOf(err) != a2a.CodeResourceExhausted {
		t.Errorf("a second stream after a reload: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	for err = again(); a2a.CodeOf(err) == a2a.CodeResourceExhausted; err = again() { // until the node has noticed
	}
	if err != nil {
		t.Errorf("a stream when the first has ended: %v", err)
	}
}

// tokens knows callers by bearer tokens.
type tokens map[string]handoff.Principal

func (k tokens) Authenticate(r *http.Request) (handoff.Principal, error) {
	p, ok := k[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	if !ok {
		return handoff.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "who are you?")
	}
	return p, nil
}

func TestCallersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	node, server := start(t, load(t, file, configuration), handoff.Options{Authenticator: tokens{
		"a": {Subject: "alice", Role: handoff.RoleCaller}, "b": {Subject: "bob", Role: handoff.RoleCaller}, "v": {Subject: "alice", Role: handoff.RoleViewer},
	}})
	as := func(token string) *client.Client {
		return dial(t, server.URL+"/agents/echo/", client.Options{Credentials: client.Bearer(token)})
	}
	alice, bob, viewer := as("a"), as("b"), as("v")
	task := send(t, alice, client.NewMessage(a2a.Text("auth")))
	_, unknown := bob.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "nope"})
	_, foreign := bob.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
	if unknown == nil || foreign == nil || unknown.Error() != foreign.Error() {
		t.Errorf("unknown %v, foreign %v", unknown, foreign)
	}
	if _, err := bob.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("cancel: %v", err)
	}
	if _, err := bob.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.FollowUp(task, a2a.Text("x"))}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("send: %v", err)
	}
	if _, err := viewer.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil {
		t.Errorf("the viewer's get: %v", err)
	}
	if _, err := viewer.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); a2a.CodeOf(err) != a2a.CodePermissionDenied {
		t.Errorf("the viewer's cancel: %v", err)
	}
	if _, err := as("x").GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); a2a.CodeOf(err) != a2a.CodeUnauthenticated {
		t.Errorf("a stranger: %v", err)
	}
	if err := node.Grant(t.Context(), &handoff.Decision{Grant: task.ID + "-1", Approved: true, By: "carol", Data: a2a.JSON(`{"token":"s3cret"}`)}); err != nil {
		t.Errorf("grant with data: %v", err)
	}
	done, err := alice.Wait(t.Context(), task.ID, client.WaitOptions{})
	if err != nil || done.Status.State != a2a.StateCompleted {
		t.Errorf("after the grant: %v %v", done, err)
	}
}

func TestServeAndShutDown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	c := load(t, file, strings.Replace(configuration, "store:", "listen: 127.0.0.1:0\nstore:", 1))
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handoff.New(c, handoff.Options{}); err == nil || !strings.Contains(err.Error(), "lock") && !strings.Contains(err.Error(), "use") {
		t.Errorf("a second node on the store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- node.ListenAndServe(ctx) }()
	cancel()
	if err := <-done; err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	again, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("after a shutdown: %v", err)
	}
	if err := again.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTheAdminSocketReplacesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := load(t, filepath.Join(dir, "handoff.yaml"), strings.Replace(configuration, "store:", "listen: 127.0.0.1:0\nstore:", 1))
	precious := handoff.SocketPath(c)
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.ListenAndServe(t.Context()); err == nil || !strings.Contains(err.Error(), precious) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

func TestANodeLeavesTheSocketOfALivingOneAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	serve := func(store string) error {
		c := load(t, filepath.Join(dir, store+".yaml"), strings.Replace(configuration, "store: sqlite:tasks.db", "listen: 127.0.0.1:0\nsocket: s\nstore: sqlite:"+store+".db", 1))
		node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return node.ListenAndServe(t.Context())
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := serve("first"); err == nil || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "--socket") {
		t.Errorf("beside a living node: %v", err)
	}
	// One that nobody answers on is replaced: it is what a crash leaves behind.
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(dir, "second.yaml"), strings.Replace(configuration, "store: sqlite:tasks.db", "listen: 127.0.0.1:0\nsocket: s\nstore: sqlite:second.db", 1))
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- node.ListenAndServe(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after a dead one: %v", err)
	}
}

func TestAReloadSaysWhatChangedInACard(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	var log strings.Builder
	node, err := handoff.New(load(t, file, configuration), handoff.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Shutdown(context.Background())
	load(t, file, strings.Replace(configuration, "description: Says it again.\n    version", "description: Repeats it.\n    version", 1))
	if _, err := node.Reload(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `change="description: Says it again. -> Repeats it."`) {
		t.Errorf("the log says %s", log.String())
	}
}

func TestCallbacksComeToTheNodeThatWaits(t *testing.T) {
	t.Parallel()
	callbacks := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		callbacks <- r.Header.Get("Handoff-Callback")
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(service.Close)
	for own, want := range map[string]string{
		"":                                  "https://agents.example.com/callbacks/",
		"node_url: http://10.0.0.7:8080/\n": "http://10.0.0.7:8080/callbacks/",
	} {
		text := own + "public_url: https://agents.example.com\ncallers: {anonymous: everywhere}\n" + configuration[:strings.Index(configuration, "      script:")] + "      http: " + service.URL + "/turn\n"
		_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text), handoff.Options{})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/agents/echo/v1/message:send", strings.NewReader(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := <-callbacks; !strings.HasPrefix(got, want) {
			t.Errorf("with %q: the callback is %q", own, got)
		}
	}
}
