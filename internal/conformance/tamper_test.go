package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/conformance"
)

// The nodes that tests stand in front of, by the file of examples/fixture.
const (
	streaming   = "handoff.yaml"
	noStreaming = "no-streaming.yaml"
	extension   = "required-extension.yaml"

	both            = "0.3 handoff.yaml" // the same, which speak 0.3 too
	bothNoStreaming = "0.3 no-streaming.yaml"
)

// startNode returns a node with the agent of examples/fixture.
func startNode(t *testing.T, file string) http.Handler {
	t.Helper()
	file, speaksOld := strings.CutPrefix(file, "0.3 ")
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "fixture", file))
	if err != nil {
		t.Fatal(err)
	}
	if speaksOld {
		const versions = `versions: ["1.0"]`
		if !bytes.Contains(text, []byte(versions)) {
			t.Fatal("the fixture names no versions")
		}
		text = bytes.Replace(text, []byte(versions), []byte(`versions: ["1.0", "0.3"]`), 1)
	}
	path := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(node) })
	return node
}

// stop stops a node, and does not wait for tasks, of which some have no end. A
// server waits for its answers when it is closed, so that a node with such a task
// has to be stopped before. What was not written any more does not matter.
func stop(node http.Handler) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = node.(*handoff.Node).Shutdown(ctx)
}

// listen serves a handler over HTTP/1.1 and HTTP/2 in the clear.
func listen(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

const agentPath = "/agents/fixture/"

// message is a request and its answer, to be changed.
type message struct {
	r       *http.Request
	request []byte
	op      string // of the protocol, or card
	rpc     bool   // over JSON-RPC
	status  int
	header  http.Header
	body    []byte
}

// tamper is a server that is not as it should be: before changes requests, after
// changes answers.
type tamper struct {
	next   http.Handler
	before func(*message)
	after  func(*message)
}

func (s *tamper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := &message{r: r}
	m.request, _ = io.ReadAll(r.Body)
	m.findOp()
	if s.before != nil {
		s.before(m)
	}
	if m.status == 0 {
		m.r.Body = io.NopCloser(bytes.NewReader(m.request))
		m.r.ContentLength = int64(len(m.request))
		recorder := httptest.NewRecorder()
		s.next.ServeHTTP(recorder, m.r)
		m.status, m.header, m.body = recorder.Code, recorder.Header(), recorder.Body.Bytes()
	}
	if s.after != nil {
		s.after(m)
	}
	m.header.Del("Content-Length")
	for name, values := range m.header {
		w.Header()[name] = values
	}
	w.WriteHeader(m.status)
	_, _ = w.Write(m.body)
}

func (m *message) findOp() {
	path := m.r.URL.Path
	switch {
	case strings.HasSuffix(path, "agent-card.json"):
		m.op = "card"
	case strings.HasSuffix(path, "/rpc"):
		m.rpc = true
		var call struct{ Method string }
		_ = json.Unmarshal(m.request, &call)
		m.op = call.Method
	case strings.HasPrefix(path, "/lf.a2a.v1.A2AService/"):
		m.op = filepath.Base(path)
	case strings.Contains(path, "/v1/tasks/") && m.r.Method == http.MethodGet && !strings.Contains(path, ":") && !strings.Contains(path, "push"):
		m.op = "GetTask"
	case strings.Contains(path, "/v1/"):
		m.op = "other"
	}
}

// answer sets an answer, which the agent behind is then not asked for.
func (m *message) answer(status int, mediaType, body string) {
	m.status, m.header, m.body = status, http.Header{"Content-Type": {mediaType}}, []byte(body)
}

// refuse sets an error of JSON-RPC.
func (m *message) refuse(code int) {
	m.edit(func(o map[string]any) {
		delete(o, "result")
		o["error"] = map[string]any{"code": code, "message": "No."}
	})
}

// succeed sets a result of JSON-RPC.
func (m *message) succeed(result any) {
	m.edit(func(o map[string]any) {
		delete(o, "error")
		o["result"] = result
	})
}

// edit changes the JSON of the answer, or that of each event.
func (m *message) edit(change func(map[string]any)) {
	if !strings.HasPrefix(m.header.Get("Content-Type"), "text/event-stream") {
		m.body = changed(m.body, change)
		return
	}
	m.events(func(events []string) []string {
		for i, e := range events {
			events[i] = string(changed([]byte(e), change))
		}
		return events
	})
}

// events changes the data of the events of a stream.
func (m *message) events(change func([]string) []string) {
	var events []string
	for line := range strings.Lines(string(m.body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, strings.TrimSpace(data))
		}
	}
	var out strings.Builder
	for _, e := range change(events) {
		out.WriteString("data: " + e + "\n\n")
	}
	m.body = []byte(out.String())
}

func changed(data []byte, change func(map[string]any)) []byte {
	var o map[string]any
	if json.Unmarshal(data, &o) != nil {
		return data
	}
	change(o)
	out, _ := json.Marshal(o)
	return out
}

// task changes the task of an answer, wherever it stands.
func (m *message) task(change func(map[string]any)) {
	m.edit(func(o map[string]any) {
		if result, ok := o["result"].(map[string]any); ok {
			o = result
		}
		if task, ok := o["task"].(map[string]any); ok {
			o = task
		}
		if _, ok := o["status"].(map[string]any); ok {
			change(o)
		}
	})
}

// asks reports whether the request holds a text.
func (m *message) asks(text string) bool { return bytes.Contains(m.request, []byte(text)) }

// find returns the result of a check; on names the interface, "" the card.
func find(t *testing.T, r *conformance.Report, id, on string) conformance.Result {
	t.Helper()
	for _, result := range r.Results {
		if result.ID == id && (result.Interface == on || result.Interface == "") {
			return result
		}
	}
	t.Fatalf("there is no result of %s over %s", id, on)
	return conformance.Result{}
}

func decode(data []byte, v any) { _ = json.Unmarshal(data, v) }
