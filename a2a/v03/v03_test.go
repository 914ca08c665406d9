package v03_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// Answers as the specification of 0.3 has them (§9.2, §9.3, §9.5, §9.6).
func TestAnswersOfTheSpecification(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   string
		want a2a.StreamResponse
	}{
		"task": {
			`{"id":"T","contextId":"C","status":{"state":"completed"},"artifacts":[{"artifactId":"A","name":"joke","parts":[{"kind":"text","text":"Why?"}]}],` +
				`"history":[{"role":"user","parts":[{"kind":"text","text":"tell me a joke"}],"messageId":"M","taskId":"T","contextId":"C"}],"kind":"task","metadata":{}}`,
			a2a.StreamResponse{Task: &a2a.Task{
				ID: "T", ContextID: "C", Status: a2a.TaskStatus{State: a2a.StateCompleted}, Metadata: a2a.JSON("{}"),
				Artifacts: []a2a.Artifact{{ArtifactID: "A", Name: "joke", Parts: []a2a.Part{a2a.Text("Why?")}}},
				History:   []a2a.Message{{MessageID: "M", TaskID: "T", ContextID: "C", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("tell me a joke")}}},
			}},
		},
		"message": {
			`{"messageId":"M","contextId":"C","parts":[{"kind":"text","text":"Why?"}],"kind":"message","metadata":{}}`,
			a2a.StreamResponse{Message: &a2a.Message{MessageID: "M", ContextID: "C", Parts: []a2a.Part{a2a.Text("Why?")}, Metadata: a2a.JSON("{}")}},
		},
		"artifact": {
			`{"taskId":"T","contextId":"C","artifact":{"artifactId":"A","parts":[{"kind":"file","file":{"name":"output.png","mimeType":"image/png","uri":"https://s.example/o"}}]},"append":true,"lastChunk":true,"kind":"artifact-update"}`,
			a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
				TaskID: "T", ContextID: "C", Append: true, LastChunk: true,
				Artifact: a2a.Artifact{ArtifactID: "A", Parts: []a2a.Part{a2a.URL("https://s.example/o", "image/png", "output.png")}},
			}},
		},
		"status": {
			`{"taskId":"T","contextId":"C","status":{"state":"auth-required","timestamp":"2025-04-02T16:59:35.331844"},"final":true,"kind":"status-update"}`,
			a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: "T", ContextID: "C", Status: a2a.TaskStatus{State: a2a.StateAuthRequired}}},
		},
		"of a2a.proto": {
			`{"msg":{"messageId":"M","role":"ROLE_AGENT","content":[{"text":"x"},{"data":{"data":{"a":1}}}]}}`,
			a2a.StreamResponse{Message: &a2a.Message{MessageID: "M", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.Text("x"), a2a.Data(a2a.JSON(`{"a":1}`))}}},
		},
	} {
		var got a2a.StreamResponse
		dialect := v03.RPC
		if name == "of a2a.proto" {
			dialect = v03.REST
		}
		if err := dialect.Unmarshal([]byte(tt.in), &got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if u := got.StatusUpdate; u != nil {
			if u.Status.Timestamp.Format("15:04:05.000000") != "16:59:35.331844" {
				t.Errorf("a time without a zone: %v", u.Status.Timestamp)
			}
			u.Status.Timestamp = tt.want.StatusUpdate.Status.Timestamp
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The request of §9.5, with a webhook.
func TestSendRequest(t *testing.T) {
	t.Parallel()
	const in = `{"message":{"role":"user","parts":[{"kind":"text","text":"Generate."}],"messageId":"M"},"configuration":{` +
		`"acceptedOutputModes":["text/plain"],"historyLength":3,"pushNotificationConfig":{"url":"https://c.example/hook","token":"tok","authentication":{"schemes":["Bearer","Basic"],"credentials":"c"}}},"metadata":{"n":1e400}}`
	three := 3
	want := a2a.SendMessageRequest{
		Message:  &a2a.Message{MessageID: "M", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("Generate.")}},
		Metadata: a2a.JSON(`{"n":1e400}`),
		Configuration: &a2a.SendMessageConfiguration{AcceptedOutputModes: []string{"text/plain"}, HistoryLength: &three, TaskPushNotificationConfig: &a2a.TaskPushNotificationConfig{
			URL: "https://c.example/hook", Token: "tok", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "c"},
		}},
	}
	var got a2a.SendMessageRequest
	if err := v03.RPC.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, d := range []v03.Dialect{v03.RPC, v03.REST} {
		b, ok := d.Append(nil, &got)
		var again a2a.SendMessageRequest
		if err := d.Unmarshal(b, &again); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%d: -want +got:\n%s", d, diff)
		}
	}
	// Who blocks.
	for in, blocks := range map[string]bool{
		`{"message":{"parts":[]}}`: true, `{"message":{"parts":[]},"configuration":{}}`: true,
		`{"message":{"parts":[]},"configuration":{"blocking":false}}`: false, `{"message":{"content":[]},"configuration":{}}`: false,
		`{"message":{"content":[]}}`: true,
	} {
		if err := v03.REST.Unmarshal([]byte(in), &got); err != nil || got.Configuration.ReturnImmediately == blocks {
			t.Errorf("%s: %v, %v", in, got.Configuration.ReturnImmediately, err)
		}
	}
}

// parts of every kind, with what 0.3 says only in another way.
var parts = []a2a.Part{
	a2a.Text("text"), a2a.Text(""),
	a2a.Raw([]byte{0, 0xff, 1}, "application/x", "f"), a2a.Raw([]byte{}, "", ""), a2a.Raw([]byte("AAAA"), "", ""),
	a2a.URL("https://x.example", "", ""),
	a2a.Data(a2a.JSON(`{"a":1.0}`)), a2a.Data(a2a.JSON(`[1,2]`)), a2a.Data(a2a.JSON(`null`)), a2a.Data(a2a.JSON(`"s"`)),
	{Kind: a2a.PartData, Data: a2a.JSON(`7`), Metadata: a2a.JSON(`{"k":"v"}`)},
	{Kind: a2a.PartData, Data: a2a.JSON(`{"data":{}}`), Metadata: a2a.JSON(`{"k":"v"}`)},
}

func TestPartsComeBack(t *testing.T) {
	t.Parallel()
	for _, d := range []v03.Dialect{v03.RPC, v03.REST, v03.TasksSend} {
		want := &a2a.Task{ID: "T", ContextID: "C", Artifacts: []a2a.Artifact{{ArtifactID: "A", Parts: parts}}}
		b, _ := d.Append(nil, want)
		if !jsontext.Value(b).IsValid() {
			t.Fatalf("%s", b)
		}
		var got a2a.Task
		if err := d.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parts, got.Artifacts[0].Parts); diff != "" {
			t.Errorf("%d: %s\n%s", d, diff, b)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	for s := a2a.StateUnspecified; s <= a2a.StateAuthRequired; s++ {
		for _, d := range []v03.Dialect{v03.RPC, v03.REST} {
			b, _ := d.Append(nil, &a2a.Task{ID: "T", Status: a2a.TaskStatus{State: s}})
			var got a2a.Task
			if err := d.Unmarshal(b, &got); err != nil || got.Status.State != s {
				t.Errorf("%s: %v, %v", b, got.Status.State, err)
			}
			if canceled := strings.Contains(string(b), "CANCELLED"); canceled != (d == v03.REST && s == a2a.StateCanceled) {
				t.Errorf("%s", b)
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]a2a.Code{
		``: a2a.CodeParse, `{`: a2a.CodeParse, `{"id":1,}`: a2a.CodeParse, `{"id":"a","id":"b"}`: a2a.CodeParse, `{"id":"a","Id":"b"}`: a2a.CodeParse,
		`[]`: a2a.CodeInvalidParams, `null`: a2a.CodeInvalidParams, `{"id":7}`: a2a.CodeInvalidParams, `{"id":7,"x":}`: a2a.CodeParse,
		`{"id":"` + "\xff" + `"}`: a2a.CodeParse,
		`{"metadata":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: a2a.CodeParse,
		`{"metadata":[]}`: a2a.CodeInvalidParams,
	} {
		if err := v03.RPC.Unmarshal([]byte(in), new(a2a.CancelTaskRequest)); err == nil || a2a.CodeOf(err) != want {
			t.Errorf("%.40s: %v", in, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"message":{"role":"user","parts":[{"kind":"text","text":"x"},{"kind":"file","file":{"bytes":"AA=="}},{"kind":"data","data":{"a":1}}],"messageId":"M"},"configuration":{"blocking":false}}`,
		`{"id":"T","sessionId":"S","message":{"role":"user","parts":[{"type":"text","text":"x"}]}}`,
		`{"kind":"task","id":"T","contextId":"C","status":{"state":"working","message":{"kind":"message","role":"agent","parts":[]}}}`,
		`{"statusUpdate":{"taskId":"T","status":{"state":"TASK_STATE_CANCELLED"}}}`,
		`{"message":{"content":[{"file":{"fileWithBytes":"QUE9PQ=="}},{"data":{"data":{}},"metadata":{"data_part_compat":true}}]}}`,
		`{"config":{"name":"tasks/T/pushNotificationConfigs/h","pushNotificationConfig":{"url":"u","authentication":{"schemes":[]}}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range []v03.Dialect{v03.RPC, v03.REST, v03.TasksSend} {
			for _, v := range []any{
				new(a2a.SendMessageRequest), new(v03.TasksSendRequest), new(a2a.CancelTaskRequest), new(a2a.GetTaskRequest), new(a2a.TaskPushNotificationConfig),
				new(a2a.Task), new(a2a.StreamResponse), new(a2a.SendMessageResponse),
			} {
				if err := d.Unmarshal(data, v); err != nil {
					if a2a.CodeOf(err) != a2a.CodeParse && a2a.CodeOf(err) != a2a.CodeInvalidParams {
						t.Fatalf("%T: %v", v, err)
					}
					continue
				}
				if b, ok := d.Append(nil, v); ok && !jsontext.Value(b).IsValid() {
					t.Fatalf("%T: %q from %q", v, b, data)
				}
			}
		}
		if card, err := v03.ParseCard(data); err == nil {
			if b := v03.AppendCard(nil, card); !jsontext.Value(b).IsValid() {
				t.Fatalf("card %q from %q", b, data)
			}
		}
	})
}
