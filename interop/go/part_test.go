package interop

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d ", i+1)
	}
	return b.String()
}

// echoed sends parts and returns what comes back of them: over a blocking send,
// a read, and a stream.
func echoed(p *peer, parts ...*a2a.Part) map[string]a2a.ContentParts {
	p.t.Helper()
	message := func() *a2a.Message {
		return a2a.NewMessage(a2a.MessageRoleUser, append([]*a2a.Part{a2a.NewTextPart("echo parts")}, parts...)...)
	}
	task := p.send(message())
	wantState(p.t, task, a2a.TaskStateCompleted)
	got := map[string]a2a.ContentParts{
		"send": task.Artifacts[0].Parts[1:],
		"get":  p.get(task.ID, nil).Artifacts[0].Parts[1:],
	}
	for _, event := range p.stream(message()) {
		if e, ok := event.(*a2a.TaskArtifactUpdateEvent); ok {
			got["stream"] = e.Artifact.Parts[1:]
		}
	}
	return got
}

func TestEveryKindOfDataComesBack(t *testing.T) {
	eachBinding(t, operations{opParts}, func(t *testing.T, p *peer) {
		parts := []*a2a.Part{
			a2a.NewDataPart(0.0), a2a.NewDataPart(-1.5e-7), a2a.NewDataPart(false), a2a.NewDataPart(true),
			a2a.NewDataPart(""), a2a.NewDataPart("s"), a2a.NewDataPart([]any{}), a2a.NewDataPart([]any{1.0, nil, []any{"x"}}),
			a2a.NewDataPart(map[string]any{}), a2a.NewDataPart(map[string]any{"n": nil, "<a href=\"x?a=1&b=2\">": map[string]any{"": false}}),
		}
		if p.binding == a2a.TransportProtocolGRPC {
			parts = objectsOnly(p, parts)
		}
		for where, got := range echoed(p, parts...) {
			if diff := cmp.Diff(a2a.ContentParts(parts), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", where, diff)
			}
		}
	})
}

// objectsOnly checks that this client sends no data over gRPC but objects, and
// returns the parts that have such.
func objectsOnly(p *peer, parts []*a2a.Part) []*a2a.Part {
	p.t.Helper()
	p.cannot("send data that is no object, such as a number, a list or null")
	var objects []*a2a.Part
	for _, part := range parts {
		if _, ok := part.Data().(map[string]any); ok {
			objects = append(objects, part)
			continue
		}
		_, err := p.SendMessage(p.t.Context(), &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, part)})
		if err == nil || !strings.Contains(err.Error(), "DataPart value must be a map") {
			p.t.Errorf("%v as data: the error is %v; the client can send it now", part.Data(), err)
		}
	}
	return objects
}

// A data part whose value is null is sent as such and comes back as such. Where
// there is JSON, this client then takes the null for a missing key and refuses
// the whole answer.
func TestNullAsDataIsBeyondThisClient(t *testing.T) {
	eachBinding(t, operations{opParts}, func(t *testing.T, p *peer) {
		if p.binding == a2a.TransportProtocolGRPC {
			objectsOnly(p, []*a2a.Part{a2a.NewDataPart(nil)})
			return
		}
		p.cannot("read a data part whose value is null: it refuses the answer")
		_, err := p.SendMessage(t.Context(), &a2a.SendMessageRequest{
			Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("echo null"), a2a.NewDataPart(nil)),
		})
		if err == nil || !strings.Contains(err.Error(), "unknown part content type: [data]") {
			t.Errorf("the error is %v; the client can read null now, or the server dropped it", err)
		}
	})
}

func TestPartsKeepWhatTheyHave(t *testing.T) {
	eachBinding(t, operations{opParts}, func(t *testing.T, p *peer) {
		file := a2a.NewRawPart([]byte("%PDF-1.7"))
		file.Filename, file.MediaType = "größe 報告.pdf", "application/pdf"
		file.Metadata = map[string]any{"k": nil, "n": 1.0}
		link := a2a.NewFileURLPart("https://example.com/a?b=c&d=%20", "image/png")
		empty := a2a.NewTextPart("")
		unicode := a2a.NewTextPart("Ünïcödé 日本語 한국어 😀 \u2028 \u0000 <>&\"\\ \r\n\t")
		for where, got := range echoed(p, file, link, empty, unicode) {
			if diff := cmp.Diff(a2a.ContentParts{file, link, empty, unicode}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", where, diff)
			}
		}
	})
}

// Over HTTP the stream of this client ends at lines of 10 MiB, and 9 MB are 12 MB as
// base64; a file of 7 MB passes.
func TestLargeFile(t *testing.T) {
	eachBinding(t, operations{opParts}, func(t *testing.T, p *peer) {
		source := rand.NewChaCha8([32]byte{})
		for _, size := range []int{7_000_000, 9_000_000} {
			content := make([]byte, size)
			if _, err := source.Read(content); err != nil {
				t.Fatal(err)
			}
			message := func() *a2a.Message {
				return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("echo file"), a2a.NewRawPart(content))
			}
			zero := 0
			task := p.send(message(), func(c *a2a.SendMessageConfig) { c.HistoryLength = &zero })
			if got := task.Artifacts[0].Parts[1].Raw(); sha256.Sum256(got) != sha256.Sum256(content) {
				t.Errorf("%d bytes came back as %d other ones", size, len(got))
			}
			var got []byte
			var failed error
			for event, err := range p.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{
				Message: message(), Config: &a2a.SendMessageConfig{HistoryLength: &zero},
			}) {
				if failed = err; err != nil {
					break
				}
				if e, ok := event.(*a2a.TaskArtifactUpdateEvent); ok {
					got = e.Artifact.Parts[1].Raw()
				}
			}
			tooLong := size > 7_500_000 && p.binding != a2a.TransportProtocolGRPC
			if tooLong {
				p.cannot("stream an event of more than 10 MiB")
			}
			if tooLong != (failed != nil) {
				t.Errorf("the stream of %d bytes ended with %v", size, failed)
			} else if !tooLong && !bytes.Equal(got, content) {
				t.Errorf("%d bytes were streamed as %d other ones", size, len(got))
			}
		}
	})
}

// Whatever one binding returns, the others return too.
func TestAllBindingsShowTheSameTask(t *testing.T) {
	t.Parallel()
	var peers []*peer
	for _, binding := range bindings {
		record(t, binding, operations{opSend, opGet, opList})
		peers = append(peers, dial(t, fixture, binding))
	}
	for _, trigger := range []string{"echo x", "ask", "burst 20", "latefail", "reject", "auth"} {
		m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(trigger), a2a.NewDataPart(map[string]any{"a": []any{nil, 1.0}}))
		m.Metadata = map[string]any{"k": nil, "x": map[string]any{"y": 1.0}}
		list := func(p *peer, contextID string) *a2a.ListTasksResponse {
			page, err := p.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: contextID, IncludeArtifacts: true})
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		sent := peers[0].send(m)
		listed := list(peers[0], sent.ContextID)
		for _, p := range peers {
			if diff := cmp.Diff(sent, p.get(sent.ID, nil), equateEmpty(p)); diff != "" {
				t.Errorf("%s: what was answered and what is read differ (-%s send +%s get):\n%s", trigger, bindings[0], p.binding, diff)
			}
			if diff := cmp.Diff(listed, list(p, sent.ContextID), equateEmpty(p)); diff != "" {
				t.Errorf("%s: the lists differ (-%s +%s):\n%s", trigger, bindings[0], p.binding, diff)
			}
		}
	}
}

// equateEmpty compares empty lists and none alike over gRPC, which has no
// difference.
func equateEmpty(p *peer) cmp.Option {
	if p.binding == a2a.TransportProtocolGRPC {
		return cmpopts.EquateEmpty()
	}
	return cmp.Options{}
}
