package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

func TestBytesOfArtifacts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.specs["buyer"].Run = agent.Func(func(_ context.Context, turn *agent.Turn) error {
		html := a2a.Text("<script>alert(1)</script>")
		html.MediaType = "text/html"
		return turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "a/1", Parts: []a2a.Part{
			a2a.Text("grüße"), html, a2a.Raw([]byte{0x89, 'P', 'N', 'G'}, "image/png", "../../etc/pa\u202ess\r\nX: y.png"),
			a2a.Raw([]byte("<svg onload=alert(1)>"), "image/svg+xml", "x.svg"), a2a.Data(a2a.JSON(`{"n":1.50}`)), a2a.URL("https://u:p@files.example/a?token=secret", "", ""),
			a2a.Raw([]byte("x"), "not a type\r\nX: y", ""),
		}}})
	})
	id := n.send("buyer", "", "alice", "buy").ID
	n.settled(id)
	for _, test := range []struct{ part, body, mediaType, disposition string }{
		{"0", "grüße", "text/plain; charset=utf-8", "attachment"},
		{"0?inline", "grüße", "text/plain; charset=utf-8", "inline"},
		{"1?inline", "<script>alert(1)</script>", "text/html; charset=utf-8", "attachment"},
		{"2", "\x89PNG", "image/png", "attachment"},
		{"2?inline", "\x89PNG", "image/png", "inline"},
		{"3?inline", "<svg onload=alert(1)>", "image/svg+xml", "attachment"},
		{"4", `{"n":1.50}`, "application/json", "attachment"},
		{"6", "x", "application/octet-stream", "attachment"},
	} {
		got := n.call("GET", "/tasks/"+id+"/artifacts/a%2F1/"+test.part, "viewer//alice", "").want(http.StatusOK)
		if string(got.body) != test.body || got.header.Get("Content-Type") != test.mediaType {
			t.Errorf("part %s: %q of %s", test.part, got.body, got.header.Get("Content-Type"))
		}
		disposition := got.header.Get("Content-Disposition")
		if !strings.HasPrefix(disposition, test.disposition+";") || strings.Contains(disposition, "/") || strings.Contains(disposition, "202e") {
			t.Errorf("part %s: %s", test.part, disposition)
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(got.header.Get("Content-Security-Policy"), "sandbox") || got.header.Get("X") != "" {
			t.Errorf("part %s: %v", test.part, got.header)
		}
	}
	for path, status := range map[string]int{"a%2F1/7": http.StatusNotFound, "a%2F1/-1": http.StatusNotFound, "a%2F1/x": http.StatusNotFound, "other/0": http.StatusNotFound, "a/1/0": http.StatusNotFound} {
		n.call("GET", "/tasks/"+id+"/artifacts/"+path, "viewer//alice", "").failure(status)
	}
	n.call("GET", "/tasks/"+id+"/artifacts/a%2F1/0", "viewer//bob", "").failure(http.StatusNotFound)
	refused := n.call("GET", "/tasks/"+id+"/artifacts/a%2F1/5", "viewer//alice", "")
	if refused.status < 400 || !strings.Contains(string(refused.body), "https://files.example/a") || strings.Contains(string(refused.body), "secret") {
		t.Errorf("a reference: %d %s", refused.status, refused.body)
	}
}

func TestBytesOfMessages(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	id := n.send("desk", "", "alice", "ask").ID
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 300<<10)
	_, err := n.engine.Send(t.Context(), &engine.Request{
		Spec: n.specs["desk"], Scope: store.ForOwner("", "alice"), Authenticated: true, Caller: agent.Caller{Subject: "alice"},
		Message: &a2a.Message{MessageID: "m/1", TaskID: id, Role: a2a.RoleUser, Parts: []a2a.Part{
			a2a.Text("ask"), a2a.Raw([]byte(png), "image/png", "drawing.png"), a2a.Raw([]byte("<svg onload=alert(1)>"), "image/svg+xml", "x.svg"),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := "/tasks/" + id + "/messages/m%2F1/"
	got := n.call("GET", path+"1?inline", "viewer//alice", "").want(http.StatusOK)
	if string(got.body) != png || got.header.Get("Content-Type") != "image/png" || !strings.HasPrefix(got.header.Get("Content-Disposition"), "inline;") {
		t.Errorf("the image: %d bytes, %v", len(got.body), got.header)
	}
	if got = n.call("GET", path+"2?inline", "viewer//alice", "").want(http.StatusOK); !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment;") ||
		!strings.HasPrefix(got.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("what runs: %v", got.header)
	}
	// The question of the agent is the message of the status.
	var task taskBody
	n.call("GET", "/tasks/"+id, "viewer//alice", "").want(http.StatusOK).decode(&task)
	if got = n.call("GET", "/tasks/"+id+"/messages/"+task.Task.Status.Message.MessageID+"/0", "viewer//alice", "").want(http.StatusOK); string(got.body) != "What?" {
		t.Errorf("the question: %s", got.body)
	}
	for _, wrong := range []string{path + "3", path + "-1", "/tasks/" + id + "/messages/other/0", "/tasks/other/messages/m%2F1/0"} {
		n.call("GET", wrong, "viewer//alice", "").failure(http.StatusNotFound)
	}
	n.call("GET", path+"1", "viewer//bob", "").failure(http.StatusNotFound)
}
