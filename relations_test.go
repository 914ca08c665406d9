package handoff_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/agent"
)

// The matrix: every operation, over every binding, by every kind of caller, on a
// task of somebody else and on one that does not exist. The two have to be
// answered alike, byte for byte (A2A §13.1). Operations come from the descriptor of
// the service and from the description of the node's API: one that is added there
// and not here fails the test.

// relatedOperation is what the test knows of an operation.
type relatedOperation struct {
	// params are those of the operation with TASK for the id of a task; "" when it
	// is of no task.
	params string
	// old are the method and the params of version 0.3; "" for none.
	oldMethod, old string
	changes        bool
}

const (
	matrixMessage    = `"messageId":"MESSAGE","role":"ROLE_USER","parts":[{"text":"hello"}]`
	matrixOldMessage = `"kind":"message","messageId":"MESSAGE","role":"user","parts":[{"kind":"text","text":"hello"}]`
)

var matrixOperations = map[string]relatedOperation{
	"SendMessage":                      {`{"message":{` + matrixMessage + `,"taskId":"TASK"}}`, v03.MethodSend, `{"message":{` + matrixOldMessage + `,"taskId":"TASK"}}`, true},
	"SendStreamingMessage":             {`{"message":{` + matrixMessage + `,"taskId":"TASK"}}`, v03.MethodStream, `{"message":{` + matrixOldMessage + `,"taskId":"TASK"}}`, true},
	"GetTask":                          {`{"id":"TASK"}`, v03.MethodGet, `{"id":"TASK"}`, false},
	"ListTasks":                        {"", "", "", false},
	"CancelTask":                       {`{"id":"TASK"}`, v03.MethodCancel, `{"id":"TASK"}`, true},
	"SubscribeToTask":                  {`{"id":"TASK"}`, v03.MethodResubscribe, `{"id":"TASK"}`, false},
	"CreateTaskPushNotificationConfig": {`{"taskId":"TASK","id":"new","url":"https://hooks.example/x"}`, v03.MethodSetPushConfig, `{"taskId":"TASK","pushNotificationConfig":{"id":"new","url":"https://hooks.example/x"}}`, true},
	"GetTaskPushNotificationConfig":    {`{"taskId":"TASK","id":"hook"}`, v03.MethodGetPushConfig, `{"id":"TASK","pushNotificationConfigId":"hook"}`, true},
	"ListTaskPushNotificationConfigs":  {`{"taskId":"TASK"}`, v03.MethodListPushConfigs, `{"id":"TASK"}`, true},
	"DeleteTaskPushNotificationConfig": {`{"taskId":"TASK","id":"hook"}`, v03.MethodDeletePushConfig, `{"id":"TASK","pushNotificationConfigId":"hook"}`, true},
	"GetExtendedAgentCard":             {"", "", "", false},
}

// Other params with which an operation could tell of a task.
var matrixVariants = map[string]relatedOperation{
	"SendMessage with a reference":           {`{"message":{` + matrixMessage + `,"referenceTaskIds":["TASK"]}}`, v03.MethodSend, `{"message":{` + matrixOldMessage + `,"referenceTaskIds":["TASK"]}}`, true},
	"SendStreamingMessage with a reference":  {`{"message":{` + matrixMessage + `,"referenceTaskIds":["TASK"]}}`, v03.MethodStream, `{"message":{` + matrixOldMessage + `,"referenceTaskIds":["TASK"]}}`, true},
	"SendMessage with another context":       {`{"message":{` + matrixMessage + `,"taskId":"TASK","contextId":"elsewhere"}}`, v03.MethodSend, `{"message":{` + matrixOldMessage + `,"taskId":"TASK","contextId":"elsewhere"}}`, true},
	"GetTaskPushNotificationConfig of none":  {`{"taskId":"TASK","id":"none"}`, v03.MethodGetPushConfig, `{"id":"TASK","pushNotificationConfigId":"none"}`, true},
	"GetTask with a wrong history":           {`{"id":"TASK","historyLength":-1}`, v03.MethodGet, `{"id":"TASK","historyLength":-1}`, false},
	"SubscribeToTask after an event":         {`{"id":"TASK"}`, v03.MethodResubscribe, `{"id":"TASK"}`, false},
	"CreateTaskPushNotificationConfig again": {`{"taskId":"TASK","id":"hook","url":"https://hooks.example/y"}`, v03.MethodSetPushConfig, `{"taskId":"TASK","pushNotificationConfig":{"id":"hook","url":"https://hooks.example/y"}}`, true},
}

// relations is a node with a task of ann in acme.
type relations struct {
	t       *testing.T
	url     string
	conn    *grpc.ClientConn
	callers map[string]string // API keys by relation
	methods protoreflect.MethodDescriptors
	task    string
	context string
}

const matrixUnknown = "0192f3a1-7c1e-7000-8000-00000000dead"

func newRelations(t *testing.T) *relations {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(adminPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
secret_key: 0123456789abcdef0123456789abcdef
callers: {anonymous: everywhere, keys: true, basic: [{user: root, password_hash: "`+string(hash)+`", role: admin}]}
webhooks: {enabled: true}
limits: {requests_per_second: 0}
`)
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	card := handoff.NewCard("Desk", "Asks.", "1.0.0", handoff.Skill{ID: "a", Name: "A", Description: "A.", Tags: []string{"x"}})
	card.Versions = []string{"1.0", "0.3"}
	if err := node.Handle("desk", card, func(_ context.Context, turn *agent.Turn) error { return turn.Ask("What?", nil) }); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(node)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(server.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.CloseClientConnections()
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := &relations{t: t, url: server.URL, conn: conn, callers: map[string]string{"anonymous": ""}, methods: pb.File_a2av1_proto.Services().ByName("A2AService").Methods()}
	for relation, k := range map[string][3]string{
		"owner": {"ann", "acme", "caller"}, "other subject": {"ben", "acme", "caller"}, "other tenant": {"ann", "globex", "caller"},
		"no tenant": {"ann", "", "caller"}, "viewer": {"ann", "acme", "viewer"}, "other viewer": {"ben", "acme", "viewer"},
		"operator elsewhere": {"op", "globex", "operator"},
	} {
		g := &guarded{url: m.url}
		m.callers[relation], _ = g.key(t, fmt.Sprintf(`{"subject":%q,"tenant":%q,"role":%q}`, k[0], k[1], k[2]))
	}
	m.callers["wrong key"] = m.callers["owner"][:len(m.callers["owner"])-2] + "xx"
	made := m.call("HTTP+JSON", "SendMessage", "owner", `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"secret of ann"}]}}`)
	var sent struct {
		Task struct{ ID, ContextID string }
	}
	if err := json.Unmarshal([]byte(made.body), &sent); err != nil || sent.Task.ID == "" {
		t.Fatalf("no task: %s", made)
	}
	m.task, m.context = sent.Task.ID, sent.Task.ContextID
	if hook := m.call("HTTP+JSON", "CreateTaskPushNotificationConfig", "owner", m.fill(`{"taskId":"TASK","id":"hook","url":"https://hooks.example/secret"}`, m.task)); hook.code != "200" {
		t.Fatalf("no webhook: %s", hook)
	}
	return m
}

// matrixAnswer is what a caller gets to see.
type matrixAnswer struct{ code, body, headers string }

func (a matrixAnswer) String() string { return a.code + " " + a.headers + " " + a.body }

// alike returns the answer without what differs between any two requests.
func (a matrixAnswer) alike(ids ...string) string {
	text := a.String()
	for _, id := range ids {
		text = strings.ReplaceAll(text, id, "TASK")
	}
	return varies.ReplaceAllString(text, "VARIES")
}

var varies = regexp.MustCompile(`MESSAGE-\d+|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`)

var matrixBindings = []string{"JSON-RPC", "HTTP+JSON", "gRPC", "JSON-RPC 0.3"}

// fill puts the id of a task into params.
func (m *relations) fill(params, task string) string {
	return strings.NewReplacer("TASK", task, "MESSAGE", fmt.Sprintf("MESSAGE-%d", serial.Add(1))).Replace(params)
}

// serial numbers messages.
var serial atomic.Int64

// call calls an operation of 1.0 with params in their JSON form.
func (m *relations) call(binding, operation, relation, params string, headers ...string) matrixAnswer {
	m.t.Helper()
	method := m.methods.ByName(protoreflect.Name(operation))
	switch binding {
	case "JSON-RPC":
		return m.http(relation, http.MethodPost, "/agents/desk/rpc", `{"jsonrpc":"2.0","id":1,"method":"`+operation+`","params":`+params+`}`, append(headers, "A2A-Version", "1.0")...)
	case "HTTP+JSON":
		verb, path, body := m.rest(method, params)
		return m.http(relation, verb, "/agents/desk/v1"+path, body, append(headers, "A2A-Version", "1.0")...)
	case "gRPC":
		return m.grpc(method, relation, params)
	}
	m.t.Fatalf("there is no binding %s", binding)
	return matrixAnswer{}
}

// rest makes the request that the annotations of the service say.
func (m *relations) rest(method protoreflect.MethodDescriptor, params string) (verb, path, body string) {
	m.t.Helper()
	options, _ := method.Options().(*descriptorpb.MethodOptions)
	rule, _ := proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule)
	switch pattern := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		verb, path = http.MethodGet, pattern.Get
	case *annotations.HttpRule_Post:
		verb, path = http.MethodPost, pattern.Post
	case *annotations.HttpRule_Delete:
		verb, path = http.MethodDelete, pattern.Delete
	default:
		m.t.Fatalf("%s has no HTTP rule", method.Name())
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(params), &fields); err != nil {
		m.t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\{(\w+)=\*\}`).FindAllStringSubmatch(path, -1) {
		field := method.Input().Fields().ByName(protoreflect.Name(name[1])).JSONName()
		path = strings.Replace(path, name[0], url.PathEscape(fmt.Sprint(fields[field])), 1)
		delete(fields, field)
	}
	if rule.GetBody() == "*" {
		data, err := json.Marshal(fields)
		if err != nil {
			m.t.Fatal(err)
		}
		return verb, path, string(data)
	}
	query := url.Values{}
	for name, value := range fields {
		query.Set(name, fmt.Sprint(value))
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return verb, path, ""
}

// http sends a request, and reads the answer or the first event of a stream.
func (m *relations) http(relation, verb, path, body string, headers ...string) matrixAnswer {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, verb, m.url+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key := m.callers[relation]; key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	a := matrixAnswer{code: fmt.Sprint(response.StatusCode)}
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		if name != "Date" && name != "X-Request-Id" && name != "Content-Length" {
			a.headers += name + ": " + strings.Join(response.Header[name], ", ") + "; "
		}
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		line, err := bufio.NewReader(response.Body).ReadString('}')
		if err != nil && !errors.Is(err, io.EOF) {
			m.t.Fatal(err)
		}
		a.body = line
		return a
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	a.body = string(data)
	return a
}

// grpc calls an operation over gRPC, and takes the first answer.
func (m *relations) grpc(method protoreflect.MethodDescriptor, relation, params string) matrixAnswer {
	m.t.Helper()
	message := func(d protoreflect.MessageDescriptor) proto.Message {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			m.t.Fatal(err)
		}
		return kind.New().Interface()
	}
	in, out := message(method.Input()), message(method.Output())
	if err := protojson.Unmarshal([]byte(params), in); err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0")
	if key := m.callers[relation]; key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	stream, err := m.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: method.IsStreamingServer()}, "/"+string(method.Parent().FullName())+"/"+string(method.Name()))
	if err == nil {
		err = errors.Join(stream.SendMsg(in), stream.CloseSend())
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = stream.RecvMsg(out)
	}
	if err != nil {
		s := status.Convert(err)
		return matrixAnswer{code: s.Code().String(), body: protojson.Format(s.Proto())}
	}
	return matrixAnswer{code: "OK", body: protojson.Format(out)}
}

// on calls an operation on a task, over a binding; false when the binding does not
// have it.
func (m *relations) on(binding, operation string, o relatedOperation, relation, task string) (matrixAnswer, bool) {
	name, variant, _ := strings.Cut(operation, " ")
	var headers []string
	if variant == "after an event" {
		headers = []string{"Last-Event-ID", "1"}
	}
	if binding != "JSON-RPC 0.3" {
		return m.call(binding, name, relation, m.fill(o.params, task), headers...), true
	}
	if o.old == "" {
		return matrixAnswer{}, false
	}
	return m.http(relation, http.MethodPost, "/agents/desk/rpc", `{"jsonrpc":"2.0","id":1,"method":"`+o.oldMethod+`","params":`+m.fill(o.old, task)+`}`, headers...), true
}

func TestRelationsOfPrincipals(t *testing.T) {
	t.Parallel()
	m := newRelations(t)
	for i := range m.methods.Len() {
		if name := string(m.methods.Get(i).Name()); matrixOperations[name] == (relatedOperation{}) && name != "ListTasks" && name != "GetExtendedAgentCard" {
			t.Errorf("the matrix has no expectation for %s", name)
		}
	}
	if n := m.methods.Len(); n != len(matrixOperations) {
		t.Errorf("the service has %d operations, the matrix %d", n, len(matrixOperations))
	}
	before := m.call("HTTP+JSON", "GetTask", "owner", m.fill(`{"id":"TASK"}`, m.task))
	all := maps.Clone(matrixOperations)
	maps.Copy(all, matrixVariants)
	for _, operation := range slices.Sorted(maps.Keys(all)) {
		o := all[operation]
		if o.params == "" {
			continue
		}
		for _, binding := range matrixBindings {
			for _, relation := range slices.Sorted(maps.Keys(m.callers)) {
				if relation == "owner" || relation == "viewer" && !o.changes {
					continue
				}
				theirs, there := m.on(binding, operation, o, relation, m.task)
				if !there {
					continue
				}
				unknown, _ := m.on(binding, operation, o, relation, matrixUnknown)
				if a, b := theirs.alike(m.task), unknown.alike(matrixUnknown); a != b {
					t.Errorf("%s over %s by %s tells a task of somebody else from none:\n%s\n%s", operation, binding, relation, a, b)
				}
				if theirs.code == "OK" || theirs.code == "200" && !strings.Contains(theirs.body, `"error"`) {
					t.Errorf("%s over %s by %s is let through: %s", operation, binding, relation, theirs)
				}
				if viewer := strings.HasSuffix(relation, "viewer"); viewer && o.changes && !refusedAs(theirs, "403", "PermissionDenied", "-31403") {
					t.Errorf("%s over %s by %s is not refused for the role: %s", operation, binding, relation, theirs)
				}
				if relation == "wrong key" && !refusedAs(theirs, "401", "Unauthenticated", "-31401") {
					t.Errorf("%s over %s by a wrong key: %s", operation, binding, theirs)
				}
			}
		}
	}
	if after := m.call("HTTP+JSON", "GetTask", "owner", m.fill(`{"id":"TASK"}`, m.task)); after != before {
		t.Errorf("the task was\n%s\nand is\n%s", before, after)
	}
	hooks := m.call("HTTP+JSON", "ListTaskPushNotificationConfigs", "owner", m.fill(`{"taskId":"TASK"}`, m.task))
	if !strings.Contains(hooks.body, "hooks.example/secret") || strings.Contains(hooks.body, `"new"`) {
		t.Errorf("the webhooks of the task are %s", hooks)
	}
}

func refusedAs(a matrixAnswer, codes ...string) bool {
	return slices.Contains(codes, a.code) || slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(a.body, `"code":`+code) })
}

// What a list tells of, and in its totals, are the caller's own tasks.
func TestRelationsOfLists(t *testing.T) {
	t.Parallel()
	m := newRelations(t)
	for _, binding := range matrixBindings[:3] {
		for _, relation := range slices.Sorted(maps.Keys(m.callers)) {
			for _, params := range []string{`{}`, `{"contextId":"` + m.context + `"}`, `{"contextId":"` + m.context + `","pageSize":1}`} {
				a := m.call(binding, "ListTasks", relation, params)
				own := relation == "owner" || relation == "viewer"
				if found := strings.Contains(a.body, m.task); found != own {
					t.Errorf("ListTasks %s over %s by %s: found %v: %s", params, binding, relation, found, a)
				}
				if !own && (strings.Contains(a.body, `"totalSize":1`) || strings.Contains(a.body, `"totalSize": 1`)) {
					t.Errorf("ListTasks %s over %s by %s counts what it does not show: %s", params, binding, relation, a)
				}
			}
			if a := m.call(binding, "GetExtendedAgentCard", relation, `{}`); strings.Contains(a.body, m.task) || a.code == "200" && !strings.Contains(a.body, `"error"`) {
				t.Errorf("GetExtendedAgentCard over %s by %s: %s", binding, relation, a)
			}
		}
	}
}

// The id of a message is the caller's own: that somebody else has used it before
// cannot be noticed.
func TestRelationsOfMessageIDs(t *testing.T) {
	t.Parallel()
	m := newRelations(t)
	params := `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"another text"}]}}`
	for _, relation := range []string{"other subject", "other tenant", "no tenant", "anonymous"} {
		for _, binding := range matrixBindings[:3] {
			a := m.call(binding, "SendMessage", relation, strings.Replace(params, "another text", relation, 1))
			if strings.Contains(a.body, m.task) || strings.Contains(a.body, "secret of ann") || a.code != "OK" && a.code != "200" || strings.Contains(a.body, `"error"`) {
				t.Errorf("a message of %s over %s with the id of one of ann: %s", relation, binding, a)
			}
		}
	}
	if a := m.call("JSON-RPC", "SendMessage", "owner", params); !strings.Contains(a.body, `"error"`) {
		t.Errorf("ann sends another message under the same id: %s", a)
	}
}

// Owners get what others do not, over every binding: without this, a matrix in
// which nothing works would be green.
func TestRelationsOfTheOwner(t *testing.T) {
	t.Parallel()
	for _, binding := range matrixBindings {
		m := newRelations(t)
		order := slices.Sorted(maps.Keys(matrixOperations))
		slices.SortStableFunc(order, func(a, b string) int { // canceling and deleting come last
			last := map[string]int{"DeleteTaskPushNotificationConfig": 1, "CancelTask": 2}
			return last[a] - last[b]
		})
		for _, operation := range order {
			o := matrixOperations[operation]
			if o.params == "" {
				continue
			}
			if a, there := m.on(binding, operation, o, "owner", m.task); there && (a.code != "OK" && a.code != "200" && a.code != "204" || strings.Contains(a.body, `"error"`)) {
				t.Errorf("%s over %s by the owner: %s", operation, binding, a)
			}
		}
	}
}

// The node's API, for callers that are no operators and for those of another
// tenant.
func TestRelationsOfTheAPI(t *testing.T) {
	t.Parallel()
	m := newRelations(t)
	var description struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(m.http("anonymous", http.MethodGet, "/api/v1/openapi.json", "").body), &description); err != nil || len(description.Paths) < 10 {
		t.Fatalf("%d paths, %v", len(description.Paths), err)
	}
	asked := 0
	for path, methods := range description.Paths {
		for verb, text := range methods {
			var operation struct {
				Role string `json:"x-role"`
			}
			if verb == "parameters" || json.Unmarshal(text, &operation) != nil || operation.Role == "none" {
				continue
			}
			asked++
			for _, relation := range slices.Sorted(maps.Keys(m.callers)) {
				if relation == "owner" || relation == "viewer" {
					continue
				}
				ask := func(task string) matrixAnswer {
					return m.http(relation, strings.ToUpper(verb), "/api/v1"+strings.ReplaceAll(path, "{id}", task), "{}")
				}
				theirs, unknown := ask(m.task), ask(matrixUnknown)
				if a, b := theirs.alike(m.task), unknown.alike(matrixUnknown); strings.Contains(path, "{id}") && a != b {
					t.Errorf("%s %s by %s tells a task of somebody else from none:\n%s\n%s", verb, path, relation, a, b)
				}
				if bytes.Contains([]byte(theirs.body), []byte("secret of ann")) || !strings.Contains(path, "{id}") && strings.Contains(theirs.body, m.task) {
					t.Errorf("%s %s by %s tells of a task of ann: %s", verb, path, relation, theirs)
				}
				if strings.Contains(path, "{id}") && theirs.code == "200" {
					t.Errorf("%s %s by %s is let through: %s", verb, path, relation, theirs)
				}
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d operations were asked", asked)
	}
	if list := m.http("other subject", http.MethodGet, "/api/v1/tasks", ""); !strings.Contains(list.body, `"total_size":0`) {
		t.Errorf("ben lists %s", list)
	}
	if list := m.http("operator elsewhere", http.MethodGet, "/api/v1/tasks", ""); !strings.Contains(list.body, `"total_size":0`) {
		t.Errorf("an operator of another tenant lists %s", list)
	}
}
