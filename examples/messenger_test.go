package examples_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

const messengerSecret = "a-secret-of-the-messenger"

// messenger is a messenger: what people were told, each thing once, in order. It
// fails whenever somebody tells it something for the first time.
type messenger struct {
	t   *testing.T
	api string

	mu      sync.Mutex
	tried   map[string]int // by key
	heard   []string       // by conversation and text
	changed chan struct{}
}

func newMessenger(t *testing.T) *messenger {
	m := &messenger{t: t, tried: map[string]int{}, changed: make(chan struct{}, 100)}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.api = server.URL + "/sendMessage"
	return m
}

// ServeHTTP takes something to tell.
func (m *messenger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var told struct {
		Conversation string `json:"conversation"`
		Text         string `json:"text"`
		Key          string `json:"key"`
	}
	if err := json.UnmarshalRead(r.Body, &told); err != nil || r.Header.Get("Authorization") != "Bearer its-token" {
		m.t.Errorf("told: %v, %v", err, r.Header)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.tried[told.Key]++; m.tried[told.Key] {
	case 1:
		http.Error(w, "not now", http.StatusBadGateway)
		return
	case 2:
	default: // it is known by its key
		return
	}
	m.heard = append(m.heard, told.Conversation+": "+told.Text)
	m.changed <- struct{}{}
}

// wants waits until that is all that people were told.
func (m *messenger) wants(want ...string) {
	m.t.Helper()
	late := time.After(30 * time.Second)
	for {
		m.mu.Lock()
		got := strings.Join(m.heard, "\n")
		m.mu.Unlock()
		if got == strings.Join(want, "\n") {
			return
		}
		select {
		case <-m.changed:
		case <-late:
			m.t.Fatalf("people were told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
}

// tells tells the surface what somebody has written.
func (m *messenger) tells(surface, id, conversation, text, secret string) int {
	m.t.Helper()
	body := fmt.Sprintf(`{"id":%q,"conversation":%q,"text":%q}`, id, conversation, text)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + body))
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, surface+"/messenger", strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("X-Messenger-Timestamp", at)
	r.Header.Set("X-Messenger-Signature", hex.EncodeToString(mac.Sum(nil)))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

var surfaceReady = regexp.MustCompile(`The surface is ready.*address=(\S+)`)

// surface starts the program between a messenger and an agent.
func surface(t *testing.T, m *messenger, agent, dir, listen string) (base string, kill func()) {
	t.Helper()
	program, err := built("./messenger")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-listen", listen, "-agent", agent, "-api", m.api, "-db", filepath.Join(dir, "messenger.db"))
	cmd.Env = append(os.Environ(), "MESSENGER_SECRET="+messengerSecret, "MESSENGER_TOKEN=its-token")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { // as kill -9 does
		cancel()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if match := surfaceReady.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return "http://" + match[1], kill
		}
		t.Log(lines.Text())
	}
	t.Fatal("the surface ended before it was ready")
	return "", nil
}

// A conversation over a messenger that tells things twice and takes nothing at first,
// with an agent's question as numbered options, over the death of the surface.
func TestMessenger(t *testing.T) {
	t.Parallel()
	e := start(t, "messenger", "handoff.yaml")
	m := newMessenger(t)
	dir := t.TempDir()
	base, kill := surface(t, m, e.address(), dir, "127.0.0.1:0")
	if got := m.tells(base, "u-0", "ana", "Book a slot", "another secret"); got != http.StatusUnauthorized {
		t.Errorf("a wrong signature: HTTP %d", got)
	}
	for range 2 {
		if got := m.tells(base, "u-1", "ana", "Book a slot for PO-2026-0184", messengerSecret); got != http.StatusOK {
			t.Fatalf("HTTP %d", got)
		}
	}
	shown := []string{"ana: I look at the docks.", "ana: Which dock shall it be?\n1. Dock A\n2. Dock B\n3. Dock C"}
	m.wants(shown...)

	kill()
	base, _ = surface(t, m, e.address(), dir, strings.TrimPrefix(base, "http://"))
	m.tells(base, "u-1", "ana", "Book a slot for PO-2026-0184", messengerSecret) // that it was killed is no answer
	m.tells(base, "u-2", "ana", "2", messengerSecret)
	shown = append(shown, "ana: Dock B is yours, 11 Sep, 08:00 to 10:00.\nBooked.")
	m.wants(shown...)

	m.tells(base, "u-3", "bob", "hello there", messengerSecret)
	shown = append(shown, "bob: Hello! I book delivery slots.")
	m.wants(shown...)
	m.tells(base, "u-4", "ana", "Sing", messengerSecret)
	shown = append(shown, "ana: That did not work: I only book delivery slots.")
	m.wants(shown...)
	m.tells(base, "u-5", "ana", "/new", messengerSecret)
	shown = append(shown, "ana: We begin anew.")
	m.wants(shown...)

	forged := post(t, base+"/agent/ana", `{"statusUpdate":{"taskId":"x","contextId":"y","status":{"state":"TASK_STATE_COMPLETED"}}}`)
	if forged.StatusCode != http.StatusUnauthorized {
		t.Errorf("an event without the token: HTTP %d", forged.StatusCode)
	}
}
