package a2a

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mustUnmarshal decodes what has to be accepted.
func mustUnmarshal[T any, P decodableAs[T]](t *testing.T, in string) *T {
	t.Helper()
	v := new(T)
	if err := Unmarshal([]byte(in), P(v)); err != nil {
		t.Fatalf("Unmarshal(%.200s): %v", in, err)
	}
	return v
}

// sendParts returns a valid SendMessage request with those parts.
func sendParts(parts string) string {
	return `{"message":{"messageId":"m","role":"ROLE_USER","parts":[` + parts + `]}}`
}

// Peers that write all keys of a oneof leave the unused ones empty.
func TestRow88_OneContentPerPart(t *testing.T) {
	t.Parallel()
	accepted := []struct {
		in   string
		want Part
	}{
		{`{"text":"hi","url":"","raw":""}`, Text("hi")},
		{`{"raw":"","url":"","text":"hi"}`, Text("hi")},
		{`{"text":"hi","url":null,"raw":null,"data":null}`, Text("hi")},
		{`{"text":"hi","data":""}`, Text("hi")},
		{`{"text":""}`, Text("")},
		{`{"text":"","raw":"","url":"","data":null}`, Text("")},
		{`{"text":"","data":""}`, Text("")},
		{`{"text":"","url":"http://x"}`, URL("http://x", "", "")},
		{`{"text":"","raw":"AA==","url":""}`, Raw([]byte{0}, "", "")},
		{`{"raw":"","url":""}`, Raw([]byte{}, "", "")},
		{`{"raw":""}`, Raw([]byte{}, "", "")},
		{`{"text":"","data":0}`, Data(JSON("0"))},
		{`{"text":"","url":"","raw":"","data":{}}`, Data(JSON("{}"))},
		{`{"text":null,"data":null}`, Data(JSON("null"))},
		{`{"data":""}`, Data(JSON(`""`))},
	}
	for _, tt := range accepted {
		r := mustUnmarshal[SendMessageRequest](t, sendParts(tt.in))
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", tt.in, err)
		}
		if diff := cmp.Diff([]Part{tt.want}, r.Message.Parts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.in, diff)
		}
	}

	for _, in := range []string{
		`{"text":"hi","data":{"a":1}}`,
		`{"text":"hi","data":0}`,
		`{"text":"hi","data":false}`,
		`{"text":"hi","url":"http://x"}`,
		`{"raw":"AA==","url":"http://x"}`,
		`{"text":"a","raw":"AA==","url":"http://x","data":[]}`,
	} {
		err := Unmarshal([]byte(sendParts(in)), new(SendMessageRequest))
		wantFields(t, in, err, "message.parts[0]")
	}
	for _, in := range []string{`{}`, `{"metadata":{}}`, `{"text":null}`, `{"url":null,"mediaType":"text/plain"}`} {
		r := mustUnmarshal[SendMessageRequest](t, sendParts(in))
		wantFields(t, in, r.Validate(), "message.parts[0]")
	}
}

func TestRow89_DataOfEveryType(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`0`, `-0.0`, `1e5`, `12345678901234567890`, `false`, `true`, `null`, `""`, `"s"`, `[]`, `[1,null]`, `{}`,
		`{"b":1,"a":{"c":null}}`, `{"n":1.10}`,
	} {
		in := `{"data":` + data + `,"metadata":{"k":null}}`
		p := mustUnmarshal[Part](t, in)
		if got := string(p.AppendJSON(nil)); got != in {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func TestRow90_NoHTMLEscapes(t *testing.T) {
	t.Parallel()
	const text = `<a href="x?a=1&b=2">` + "\u2028\u2029\u007f😀"
	p := Text(text)
	got := p.AppendJSON(nil)
	if want := `{"text":"<a href=\"x?a=1&b=2\">` + "\u2028\u2029\u007f😀" + `"}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if back := mustUnmarshal[Part](t, string(got)); back.Text != text {
		t.Errorf("read back %q", back.Text)
	}
}

func TestRow92_LargeRaw(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef\x00\xff\xfe"), 9<<20/19)
	want := sha256.Sum256(content)
	event := StreamResponse{ArtifactUpdate: &TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c",
		Artifact: Artifact{ArtifactID: "a", Parts: []Part{Raw(content, "application/octet-stream", "big.bin")}},
	}}
	back := mustUnmarshal[StreamResponse](t, string(event.AppendJSON(nil)))
	if got := sha256.Sum256(back.ArtifactUpdate.Artifact.Parts[0].Raw); got != want {
		t.Errorf("the bytes changed on the way")
	}
}

func TestRow93_NullIsAbsent(t *testing.T) {
	t.Parallel()
	task := mustUnmarshal[Task](t, `{"id":"t","contextId":null,"status":{"state":"TASK_STATE_WORKING","message":null,"timestamp":null},"history":null,"metadata":null,"artifacts":null}`)
	want := Task{ID: "t", Status: TaskStatus{State: StateWorking}}
	if diff := cmp.Diff(want, *task); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	// Zero values of every type hold no null.
	for _, g := range goldens {
		if got := string(g.new().AppendJSON(nil)); strings.Contains(got, "null") {
			t.Errorf("the zero value of %s is %s", g.name, got)
		}
	}
	skill := AgentCard{Skills: []AgentSkill{{}}}
	if got := string(skill.AppendJSON(nil)); !strings.Contains(got, `"tags":[]`) || strings.Contains(got, "null") {
		t.Errorf("card is %s", got)
	}
}

func TestRow94_Enums(t *testing.T) {
	t.Parallel()
	for s := StateUnspecified; s <= StateAuthRequired; s++ {
		byName := mustUnmarshal[TaskStatus](t, `{"state":"`+s.String()+`"}`)
		byNumber := mustUnmarshal[TaskStatus](t, fmt.Sprintf(`{"state":%d}`, s))
		want := `{"state":"` + s.String() + `"}`
		if byName.State != s || byNumber.State != s || string(byName.AppendJSON(nil)) != want {
			t.Errorf("%v: %v by name, %v by number, written %s", s, byName.State, byNumber.State, byName.AppendJSON(nil))
		}
		if !strings.HasPrefix(s.String(), "TASK_STATE_") {
			t.Errorf("state %d is %v", s, s)
		}
	}
	for r := RoleUnspecified; r <= RoleAgent; r++ {
		byName := mustUnmarshal[Message](t, `{"role":"`+r.String()+`"}`)
		byNumber := mustUnmarshal[Message](t, fmt.Sprintf(`{"role":%d}`, r))
		if byName.Role != r || byNumber.Role != r || !strings.HasPrefix(r.String(), "ROLE_") {
			t.Errorf("%v: %v by name, %v by number", r, byName.Role, byNumber.Role)
		}
	}
	wantFields(t, "role", Unmarshal([]byte(`{"message":{"role":"user"}}`), new(SendMessageRequest)), "message.role")
	wantFields(t, "status", Unmarshal([]byte(`{"status":"BOGUS"}`), new(ListTasksRequest)), "status")
	// A value that is none of the enum's is not printed as one.
	task := Task{Status: TaskStatus{State: 77}}
	if got := string(task.AppendJSON(nil)); !strings.Contains(got, `"TASK_STATE_UNSPECIFIED"`) {
		t.Errorf("state 77 is written as %s", got)
	}
}

func TestRow95_UnknownFields(t *testing.T) {
	t.Parallel()
	const x = `"x_new":{"a":[1,{"b":null}]}`
	in := `{` + x + `,"message":{` + x + `,"messageId":"m","role":"ROLE_USER","parts":[{` + x + `,"text":"a"}]},` +
		`"configuration":{` + x + `,"taskPushNotificationConfig":{` + x + `,"url":"https://h/x","authentication":{` + x + `,"scheme":"Bearer"}},"historyLength":1}}`
	r := mustUnmarshal[SendMessageRequest](t, in)
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	want := strings.ReplaceAll(in, x+",", "")
	if diff := cmp.Diff(want, string(r.AppendJSON(nil))); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestRow96_NoOldFields(t *testing.T) {
	t.Parallel()
	in := `{"kind":"status-update","statusUpdate":{"kind":"status-update","final":true,"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	r := mustUnmarshal[StreamResponse](t, in)
	want := `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	if diff := cmp.Diff(want, string(r.AppendJSON(nil))); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestRow100_RequiredFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in     string
		fields []string
	}{
		{`{}`, []string{"message"}},
		{`{"message":null}`, []string{"message"}},
		{`{"message":{}}`, []string{"message.messageId", "message.role", "message.parts"}},
		{`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]}}`, []string{"message.messageId"}},
		{`{"message":{"messageId":"","role":"ROLE_USER","parts":[{"text":"a"}]}}`, []string{"message.messageId"}},
		{`{"message":{"messageId":"m","parts":[{"text":"a"}]}}`, []string{"message.role"}},
		{`{"message":{"messageId":"m","role":"ROLE_UNSPECIFIED","parts":[{"text":"a"}]}}`, []string{"message.role"}},
		{`{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`, []string{"message.role"}},
		{`{"message":{"messageId":"m","role":"ROLE_USER"}}`, []string{"message.parts"}},
		{`{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`, []string{"message.parts"}},
		{`{"message":{"messageId":"m","role":"ROLE_USER","parts":null}}`, []string{"message.parts"}},
		{sendParts(`{"text":"a"},{}`), []string{"message.parts[1]"}},
	}
	for _, tt := range tests {
		r := mustUnmarshal[SendMessageRequest](t, tt.in)
		wantFields(t, tt.in, r.Validate(), tt.fields...)
	}
	if err := mustUnmarshal[SendMessageRequest](t, sendParts(`{"text":"a"}`)).Validate(); err != nil {
		t.Errorf("a complete request: %v", err)
	}
}

// wantFields checks that err is an invalid-parameters error about exactly those
// fields, in its violations and in its message.
func wantFields(t *testing.T, what string, err error, fields ...string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeInvalidParams {
		t.Errorf("%s gave %v, want invalid parameters", what, err)
		return
	}
	var got []string
	for _, v := range e.Violations {
		got = append(got, v.Field)
		if !strings.Contains(e.Message, v.Field+": "+v.Description) {
			t.Errorf("%s: the message %q does not name %s", what, e.Message, v.Field)
		}
	}
	if diff := cmp.Diff(fields, got); diff != "" {
		t.Errorf("%s: fields (-want +got):\n%s", what, diff)
	}
}
