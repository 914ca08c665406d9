package handoff_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/a2aproject/a2a-go/v2/a2apb/v1" // registers the service
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	handoff "handoff.example/handoff"
)

// asked is how an operation is asked for in each binding. %T stands for the id of
// a task, %C for that of its context, %W for that of a webhook of it, and %M for
// that of a message.
type asked struct {
	params    string // of JSON-RPC and gRPC
	method    string // of HTTP
	path      string // below the base of HTTP+JSON
	body      string
	oldMethod string // of JSON-RPC 0.3; "": none
	oldParams string
	oldBody   string // of HTTP+JSON 0.3, when it is another
	reads     bool   // a viewer may
	names     bool   // names a task
}

const (
	toTask    = `"message":{"messageId":"%M","role":"ROLE_USER","taskId":"%T","parts":[{"text":"hello"}]}`
	toTaskOld = `"message":{"kind":"message","messageId":"%M","role":"user","taskId":"%T","parts":[{"kind":"text","text":"hello"}]}`
	restOld   = `"message":{"messageId":"%M","role":"ROLE_USER","taskId":"%T","content":[{"text":"hello"}]}`
	hook      = `"url":"https://hooks.example/planted"`
)

// operations are those of the protocol. A test sees that none of the service's is
// missing.
var operations = map[string]asked{
	"SendMessage":          {params: "{" + toTask + "}", method: "POST", path: "message:send", body: "{" + toTask + "}", oldMethod: "message/send", oldParams: "{" + toTaskOld + "}", oldBody: "{" + restOld + "}", names: true},
	"SendStreamingMessage": {params: "{" + toTask + "}", method: "POST", path: "message:stream", body: "{" + toTask + "}", oldMethod: "message/stream", oldParams: "{" + toTaskOld + "}", oldBody: "{" + restOld + "}", names: true},
	"GetTask":              {params: `{"id":"%T"}`, method: "GET", path: "tasks/%T", oldMethod: "tasks/get", oldParams: `{"id":"%T"}`, reads: true, names: true},
	"ListTasks":            {params: `{"contextId":"%C"}`, method: "GET", path: "tasks?contextId=%C", reads: true},
	"CancelTask":           {params: `{"id":"%T"}`, method: "POST", path: "tasks/%T:cancel", body: "{}", oldMethod: "tasks/cancel", oldParams: `{"id":"%T"}`, names: true},
	"SubscribeToTask":      {params: `{"id":"%T"}`, method: "GET", path: "tasks/%T:subscribe", oldMethod: "tasks/resubscribe", oldParams: `{"id":"%T"}`, reads: true, names: true},
	"CreateTaskPushNotificationConfig": {
		params: `{"taskId":"%T",` + hook + `}`, method: "POST", path: "tasks/%T/pushNotificationConfigs", body: "{" + hook + "}",
		oldMethod: "tasks/pushNotificationConfig/set", oldParams: `{"taskId":"%T","pushNotificationConfig":{` + hook + `}}`,
		oldBody: `{"parent":"tasks/%T","configId":"x","config":{"name":"tasks/%T/pushNotificationConfigs/x","pushNotificationConfig":{` + hook + `}}}`, names: true,
	},
	"GetTaskPushNotificationConfig": {
		params: `{"taskId":"%T","id":"%W"}`, method: "GET", path: "tasks/%T/pushNotificationConfigs/%W",
		oldMethod: "tasks/pushNotificationConfig/get", oldParams: `{"id":"%T","pushNotificationConfigId":"%W"}`, names: true,
	},
	"ListTaskPushNotificationConfigs": {
		params: `{"taskId":"%T"}`, method: "GET", path: "tasks/%T/pushNotificationConfigs",
		oldMethod: "tasks/pushNotificationConfig/list", oldParams: `{"id":"%T"}`, names: true,
	},
	"DeleteTaskPushNotificationConfig": {
		params: `{"taskId":"%T","id":"%W"}`, method: "DELETE", path: "tasks/%T/pushNotificationConfigs/%W",
		oldMethod: "tasks/pushNotificationConfig/delete", oldParams: `{"id":"%T","pushNotificationConfigId":"%W"}`, names: true,
	},
	"GetExtendedAgentCard": {params: `{}`, method: "GET", path: "extendedAgentCard", oldMethod: "agent/getAuthenticatedExtendedCard", oldParams: `{}`, reads: true},
}

var service = func() protoreflect.ServiceDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName("lf.a2a.v1.A2AService")
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.ServiceDescriptor)
}()

func TestNoOperationIsForgotten(t *testing.T) {
	t.Parallel()
	methods := service.Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if _, ok := operations[name]; !ok {
			t.Errorf("%s is in no matrix", name)
		}
	}
	if methods.Len() != len(operations) {
		t.Errorf("the service has %d operations, and %d are in the matrix", methods.Len(), len(operations))
	}
}

// matrix is a node with callers that are to see nothing of each other: alice, bob,
// and alice as a viewer. Alice has a task that waits, with a webhook.
type matrix struct {
	url                    string
	conn                   *grpc.ClientConn
	http                   *http.Client
	task, context, webhook string
}

// outcome is what came of a call: a status of HTTP, whatever the binding, and the
// text of the answer.
type outcome struct {
	status     int
	text       string
	challenged bool // the answer says how to authenticate
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	text := strings.Replace(configuration, "    version: 1.0.0\n", "    version: 1.0.0\n    versions: [\"1.0\", \"0.3\"]\n", 1)
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text)
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler), Authenticator: tokens{
		"alice": {Subject: "alice", Role: handoff.RoleCaller}, "bob": {Subject: "bob", Role: handoff.RoleCaller},
		"viewer": {Subject: "alice", Role: handoff.RoleViewer},
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(node)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	m := &matrix{url: server.URL, http: &http.Client{Transport: &http.Transport{}}}
	if m.conn, err = grpc.NewClient("passthrough:///"+strings.TrimPrefix(m.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.conn.Close()
		m.http.CloseIdleConnections()
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	sent := m.rpc(t, "alice", "1.0", "SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"ask"}]}}`)
	var answer struct {
		Result struct {
			Task struct{ ID, ContextID string }
		}
	}
	if err := json.Unmarshal([]byte(sent.text), &answer); err != nil || answer.Result.Task.ID == "" {
		t.Fatalf("%s, %v", sent.text, err)
	}
	m.task, m.context = answer.Result.Task.ID, answer.Result.Task.ContextID
	made := m.rpc(t, "alice", "1.0", "CreateTaskPushNotificationConfig", `{"taskId":"`+m.task+`","url":"https://hooks.example/alice","token":"hers"}`)
	var config struct{ Result struct{ ID string } }
	if err := json.Unmarshal([]byte(made.text), &config); err != nil || config.Result.ID == "" {
		t.Fatalf("%s, %v", made.text, err)
	}
	m.webhook = config.Result.ID
	return m
}

// bindings are the ways to ask, by their names.
func (m *matrix) bindings() map[string]func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
	return map[string]func(t *testing.T, as, name string, fill func(string) string) (outcome, bool){
		"JSON-RPC": func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
			return m.rpc(t, as, "1.0", name, fill(operations[name].params)), true
		},
		"JSON-RPC 0.3": func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
			o := operations[name]
			if o.oldMethod == "" {
				return outcome{}, false
			}
			return m.rpc(t, as, "", o.oldMethod, fill(o.oldParams)), true
		},
		"HTTP+JSON": func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
			o := operations[name]
			return m.rest(t, as, "1.0", o.method, fill(o.path), fill(o.body)), true
		},
		"HTTP+JSON 0.3": func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
			o := operations[name]
			if o.oldMethod == "" || name == "GetExtendedAgentCard" { // its path is another
				return outcome{}, false
			}
			body := o.body
			if o.oldBody != "" {
				body = o.oldBody
			}
			return m.rest(t, as, "", o.method, fill(o.path), fill(body)), true
		},
		"gRPC": func(t *testing.T, as, name string, fill func(string) string) (outcome, bool) {
			return m.grpc(t, as, name, fill(operations[name].params)), true
		},
	}
}

func (m *matrix) rpc(t *testing.T, as, version, method, params string) outcome {
	t.Helper()
	o := m.rest(t, as, version, "POST", "../rpc", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
	var answer struct{ Error *struct{ Code int } }
	_ = json.Unmarshal([]byte(strings.TrimPrefix(o.text, "data: ")), &answer)
	if answer.Error != nil && o.status == 200 {
		if o.status = 400; answer.Error.Code == -32001 {
			o.status = 404
		}
	}
	return o
}

func (m *matrix) rest(t *testing.T, as, version, method, path, body string) outcome {
	t.Helper()
	url := m.url + "/agents/echo/v1/" + path
	if rest, ok := strings.CutPrefix(path, "../"); ok {
		url = m.url + "/agents/echo/" + rest
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if version != "" {
		r.Header.Set("A2A-Version", version)
	}
	if as != "" {
		r.Header.Set("Authorization", "Bearer "+as)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := m.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	o := outcome{status: response.StatusCode, challenged: response.Header.Get("WWW-Authenticate") != ""}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		for lines := bufio.NewScanner(response.Body); lines.Scan(); { // the first event says enough
			if strings.HasPrefix(lines.Text(), "data: ") {
				o.text = lines.Text()
				return o
			}
		}
		return o
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	o.text = string(data)
	return o
}

func (m *matrix) grpc(t *testing.T, as, name, params string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0"), 20*time.Second)
	defer cancel()
	if as != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+as)
	}
	method := service.Methods().ByName(protoreflect.Name(name))
	in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(strings.Replace(params, "{", `{"tenant":"echo",`, 1)), in); err != nil {
		if err = protojson.Unmarshal([]byte(strings.Replace(params, "{}", `{"tenant":"echo"}`, 1)), in); err != nil {
			t.Fatal(err)
		}
	}
	path := "/lf.a2a.v1.A2AService/" + name
	var header metadata.MD
	var err error
	if method.IsStreamingServer() {
		var stream grpc.ClientStream
		if stream, err = m.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path, grpc.Header(&header)); err == nil {
			_ = stream.SendMsg(in)
			_ = stream.CloseSend()
			err = stream.RecvMsg(out)
			header, _ = stream.Header()
		}
	} else {
		err = m.conn.Invoke(ctx, path, in, out, grpc.Header(&header))
	}
	s, _ := status.FromError(err)
	o := outcome{status: 400, text: s.Message() + fmt.Sprint(s.Details()), challenged: len(header.Get("www-authenticate")) > 0}
	switch s.Code() {
	case codes.OK:
		o.status, o.text = 200, protojson.Format(out)
	case codes.Unauthenticated:
		o.status = 401
	case codes.PermissionDenied:
		o.status = 403
	case codes.NotFound:
		o.status = 404
	}
	return o
}

// filled returns what replaces the ids in a request.
func filled(task, contextID, webhook string) func(string) string {
	replacer := strings.NewReplacer("%T", task, "%C", contextID, "%W", webhook, "%M", "m"+rand.Text())
	return replacer.Replace
}

// each calls test for every operation on every binding.
func (m *matrix) each(t *testing.T, test func(t *testing.T, name string, call func(as string, fill func(string) string) outcome)) {
	t.Helper()
	for name := range operations {
		for binding, ask := range m.bindings() {
			if _, ok := ask(t, "", name, filled("x", "x", "x")); !ok {
				continue
			}
			t.Run(name+"/"+binding, func(t *testing.T) {
				test(t, name, func(as string, fill func(string) string) outcome {
					o, _ := ask(t, as, name, fill)
					return o
				})
			})
		}
	}
}

// What is not a caller's does not exist: whoever knows the ids of somebody else's
// task gets the answer that there is for ids that nobody has, on every binding,
// and changes nothing (S1; A2A §13.1).
func TestRowS1_NobodyReachesTheTaskOfAnother(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	hers := func() string {
		return m.rpc(t, "alice", "1.0", "GetTask", `{"id":"`+m.task+`"}`).text +
			m.rpc(t, "alice", "1.0", "ListTaskPushNotificationConfigs", `{"taskId":"`+m.task+`"}`).text
	}
	before := hers()
	if !strings.Contains(before, "INPUT_REQUIRED") || !strings.Contains(before, "hooks.example/alice") {
		t.Fatalf("alice sees %s", before)
	}
	m.each(t, func(t *testing.T, name string, call func(as string, fill func(string) string) outcome) {
		// As long as those that there are, so that the answers can be compared.
		const task, contextID = "01900000-0000-7000-8000-000000000000", "01900000-0000-7000-8000-000000000001"
		webhook := strings.Repeat("0", len(m.webhook))
		unknown := call("bob", filled(task, contextID, webhook))
		foreign := call("bob", filled(m.task, m.context, m.webhook))
		same := strings.NewReplacer(m.task, task, m.context, contextID, m.webhook, webhook).Replace(foreign.text)
		if foreign.status != unknown.status || same != unknown.text {
			t.Errorf("a foreign task: %d %s\nan unknown one: %d %s", foreign.status, foreign.text, unknown.status, unknown.text)
		}
		if operations[name].names && foreign.status != 404 {
			t.Errorf("status %d: %s", foreign.status, foreign.text)
		}
		if strings.Contains(foreign.text, "hooks.example/alice") || strings.Contains(foreign.text, "hers") {
			t.Errorf("a secret of alice's: %s", foreign.text)
		}
	})
	refers := `{"message":{"messageId":"r","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":["` + m.task + `"]}}`
	if o := m.rpc(t, "bob", "1.0", "SendMessage", refers); o.status != 404 {
		t.Errorf("a reference to the task: %d %s", o.status, o.text)
	}
	if after := hers(); after != before {
		t.Errorf("alice's task has changed:\n%s\nbefore:\n%s", after, before)
	}
}

// Nothing is answered to nobody, and how to authenticate is said, on every
// binding.
func TestRow113_NobodyGetsNothing(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	m.each(t, func(t *testing.T, _ string, call func(as string, fill func(string) string) outcome) {
		for _, as := range []string{"", "guess"} {
			if o := call(as, filled(m.task, m.context, m.webhook)); o.status != 401 || !o.challenged {
				t.Errorf("as %q: %d %s, challenged %v", as, o.status, o.text, o.challenged)
			}
		}
	})
}

// A viewer reads what is its own and changes nothing, on every binding.
func TestRowS26_AViewerOnlyReads(t *testing.T) {
	t.Parallel()
	m := newMatrix(t)
	m.each(t, func(t *testing.T, name string, call func(as string, fill func(string) string) outcome) {
		o := call("viewer", filled(m.task, m.context, m.webhook))
		switch {
		case !operations[name].reads && o.status != 403:
			t.Errorf("status %d: %s", o.status, o.text)
		case operations[name].reads && operations[name].names && (o.status != 200 || !strings.Contains(o.text, m.task)):
			t.Errorf("status %d: %s", o.status, o.text)
		case operations[name].reads && o.status == 403:
			t.Errorf("status %d: %s", o.status, o.text)
		}
	})
}
