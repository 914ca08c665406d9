package handoff_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

const (
	firstKey  = "the-first-key-of-the-rotation-test"
	secondKey = "the-second-key-of-the-rotation-test"
)

// keyed is the configuration of a node that sends webhooks, on a store and with
// keys.
func keyed(store, key string, old ...string) string {
	text := strings.NewReplacer("sqlite:tasks.db", store, "0123456789abcdef0123456789abcdef", key).Replace(configuration)
	text += "outbound: {allow: [127.0.0.1]}\nlease: 500ms\n"
	if len(old) > 0 {
		text += "old_secret_keys: [" + strings.Join(old, ", ") + "]\n"
	}
	return text
}

// lines are what a node logs, one after another.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// await reads until a line has the text.
func (l lines) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line := <-l:
			for _, key := range []string{firstKey, secondKey} {
				if strings.Contains(line, key) {
					t.Errorf("the log shows a key: %s", line)
				}
			}
			if strings.Contains(line, text) {
				return
			}
		case <-deadline:
			t.Fatalf("the log has no %q", text)
		}
	}
}

// sealing is a node with webhooks.
type sealing struct {
	server *httptest.Server
	log    lines
	stop   func()
}

func sealIn(t *testing.T, folder, text string) *sealing {
	t.Helper()
	s := &sealing{log: make(lines, 10_000)}
	node, err := handoff.New(load(t, filepath.Join(folder, "handoff.yaml"), text), handoff.Options{Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(node)
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		s.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// takeTokens is a receiver of webhooks. It returns its URL, and what tells the tokens
// of deliveries.
func takeTokens(t *testing.T) (url string, got chan string) {
	t.Helper()
	got = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("X-A2A-Notification-Token")
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// wantTokens waits for so many deliveries, all with that token.
func wantTokens(t *testing.T, got chan string, want string, n int) {
	t.Helper()
	for range n {
		select {
		case token := <-got:
			if token != want {
				t.Errorf("a delivery with the token %q, want %q", token, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("an event was not delivered")
		}
	}
}

// ask begins a task that waits for its client and has a webhook with a token.
func (s *sealing) ask(t *testing.T, url, token string, got chan string) *a2a.Task {
	t.Helper()
	c := dial(t, s.server.URL+"/agents/echo/", client.Options{})
	response, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message:       client.NewMessage(a2a.Text("ask")),
		Configuration: &a2a.SendMessageConfiguration{TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{URL: url, Token: token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantTokens(t, got, token, 2) // working, and input required
	return response.Task
}

// spare is what a node says when it needs no old key.
const spare = "Nothing in the store is sealed with a key of old_secret_keys"

// rotates rotates the key of a store as docs/operate.md says it, after it was
// done in the wrong way.
func rotates(t *testing.T, store string) {
	folder := t.TempDir()
	url, got := takeTokens(t)
	node := sealIn(t, folder, keyed(store, firstKey))
	task := node.ask(t, url, "tok", got)
	other := node.ask(t, url, "tik", got)
	node.stop()

	// The old key is dropped too early: the node says what to do.
	node = sealIn(t, folder, keyed(store, secondKey))
	node.log.await(t, "add that key to old_secret_keys")
	third := node.ask(t, url, "tak", got)
	node.stop()

	// The keys in the wrong order: all is sealed with the first one.
	node = sealIn(t, folder, keyed(store, firstKey, secondKey))
	node.log.await(t, spare)
	node.stop()

	node = sealIn(t, folder, keyed(store, secondKey, firstKey))
	node.log.await(t, spare)
	node.stop()

	node = sealIn(t, folder, keyed(store, secondKey))
	c := dial(t, node.server.URL+"/agents/echo/", client.Options{})
	for token, of := range map[string]*a2a.Task{"tok": task, "tik": other, "tak": third} {
		send(t, c, client.FollowUp(of, a2a.Text("go on")))
		wantTokens(t, got, token, 3) // working, artifact, completed
	}
}

func TestRotateTheSecretKey(t *testing.T) {
	t.Parallel()
	rotates(t, "sqlite:tasks.db")
}
