package protobuf

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"handoff.example/handoff/a2a"
)

var testBounds = Bounds{Depth: a2a.MaxDepth, Objects: 20_000}

const fullMessage = `{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_AGENT","parts":[` +
	`{"text":"","metadata":{"a":1}},{"raw":"AAEC","filename":"f.bin","mediaType":"application/octet-stream"},` +
	`{"url":"https://x/y","mediaType":"text/html"},{"data":{"n":null,"list":[1,"two",{"x":false}]}},{"data":null}],` +
	`"metadata":{"k":"v"},"extensions":["https://e"],"referenceTaskIds":["r1","r2"]}`

const fullTask = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_AUTH_REQUIRED","message":` + fullMessage + `,"timestamp":"2026-01-02T03:04:05.678Z"},` +
	`"artifacts":[{"artifactId":"a","name":"n","description":"d","parts":[{"text":"x"}],"metadata":{"m":{}},"extensions":["https://e"]}],` +
	`"history":[` + fullMessage + `],"metadata":{"deep":[[[]]]}}`

const fullCard = `{"name":"n","description":"d","supportedInterfaces":[{"url":"https://x","protocolBinding":"JSONRPC","tenant":"t","protocolVersion":"1.0"},{"url":"x:443","protocolBinding":"GRPC","protocolVersion":"1.0"}],` +
	`"provider":{"url":"https://p","organization":"o"},"version":"1.2","documentationUrl":"https://d",` +
	`"capabilities":{"streaming":true,"pushNotifications":false,"extensions":[{"uri":"https://e","description":"d","required":true,"params":{"p":1}}],"extendedAgentCard":true},` +
	`"securitySchemes":{"a":{"apiKeySecurityScheme":{"description":"d","location":"header","name":"X"}},` +
	`"b":{"httpAuthSecurityScheme":{"description":"d","scheme":"Bearer","bearerFormat":"JWT"}},` +
	`"c":{"oauth2SecurityScheme":{"description":"d","flows":{"authorizationCode":{"authorizationUrl":"https://a","tokenUrl":"https://t","refreshUrl":"https://r","scopes":{"s":"d"},"pkceRequired":true}},"oauth2MetadataUrl":"https://m"}},` +
	`"d":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://t","refreshUrl":"https://r","scopes":{"s":"d"}}}}},` +
	`"e":{"oauth2SecurityScheme":{"flows":{"implicit":{"authorizationUrl":"https://a","refreshUrl":"https://r","scopes":{"s":"d"}}}}},` +
	`"f":{"oauth2SecurityScheme":{"flows":{"password":{"tokenUrl":"https://t","refreshUrl":"https://r","scopes":{"s":"d"}}}}},` +
	`"g":{"oauth2SecurityScheme":{"flows":{"deviceCode":{"deviceAuthorizationUrl":"https://a","tokenUrl":"https://t","refreshUrl":"https://r","scopes":{"s":"d"}}}}},` +
	`"h":{"openIdConnectSecurityScheme":{"description":"d","openIdConnectUrl":"https://o"}},"i":{"mtlsSecurityScheme":{"description":"d"}}},` +
	`"securityRequirements":[{"schemes":{"c":{"list":["s"]},"i":{"list":[]}}}],"defaultInputModes":["text/plain"],"defaultOutputModes":["text/html"],` +
	`"skills":[{"id":"s","name":"n","description":"d","tags":["t"],"examples":["e"],"inputModes":["a/b"],"outputModes":["c/d"],"securityRequirements":[{"schemes":{"b":{"list":["x"]}}}]}],` +
	`"signatures":[{"protected":"p","signature":"s","header":{"kid":"1"}}],"iconUrl":"https://i"}`

const fullConfig = `{"tenant":"t","id":"i","taskId":"k","url":"https://u","token":"o","authentication":{"scheme":"Bearer","credentials":"c"}}`

// What an operation returns says the same as protobuf, in whose own JSON form the
// generated code writes it.
func TestResultsAsProtobuf(t *testing.T) {
	t.Parallel()
	update := `{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":{"x":1}}`
	chunk := `{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"x"}]},"append":true,"lastChunk":true,"metadata":{"x":1}}`
	for _, c := range []struct {
		text string
		into interface {
			a2a.Decodable
			interface{ AppendJSON(dst []byte) []byte }
		}
	}{
		{fullTask, &a2a.Task{}},
		{`{"task":` + fullTask + `}`, &a2a.SendMessageResponse{}},
		{`{"message":` + fullMessage + `}`, &a2a.SendMessageResponse{}},
		{`{"task":` + fullTask + `}`, &a2a.StreamResponse{}},
		{`{"message":` + fullMessage + `}`, &a2a.StreamResponse{}},
		{`{"statusUpdate":` + update + `}`, &a2a.StreamResponse{}},
		{`{"artifactUpdate":` + chunk + `}`, &a2a.StreamResponse{}},
		{`{"tasks":[` + fullTask + `],"nextPageToken":"p","pageSize":7,"totalSize":9}`, &a2a.ListTasksResponse{}},
		{fullConfig, &a2a.TaskPushNotificationConfig{}},
		{`{"configs":[` + fullConfig + `],"nextPageToken":"p"}`, &a2a.ListTaskPushNotificationConfigsResponse{}},
		{fullCard, &a2a.AgentCard{}},
	} {
		if err := a2a.Unmarshal([]byte(c.text), c.into); err != nil {
			t.Fatal(err)
		}
		m, err := Encode(c.into)
		if err != nil {
			t.Fatal(err)
		}
		text, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if json.Unmarshal(c.into.AppendJSON(nil), &want) != nil || json.Unmarshal(text, &got) != nil {
			t.Fatalf("%T is not JSON", c.into)
		}
		if diff := cmp.Diff(prune(want), prune(got)); diff != "" {
			t.Errorf("%T: %s", c.into, diff)
		}
		again, ok := reflect.New(reflect.TypeOf(c.into).Elem()).Interface().(a2a.Decodable)
		if _, isCard := again.(*a2a.AgentCard); !ok || isCard {
			continue // a card is read from its JSON
		}
		if err := Decode(m, again, a2a.MaxDepth); err != nil {
			t.Fatal(err)
		}
		var back any
		if json.Unmarshal(again.(interface{ AppendJSON(dst []byte) []byte }).AppendJSON(nil), &back) != nil {
			t.Fatalf("%T is not JSON", again)
		}
		if diff := cmp.Diff(forget(prune(want), "tenant"), prune(back)); diff != "" { // the tenant has led to the agent
			t.Errorf("%T did not come back: %s", c.into, diff)
		}
	}
	if _, err := Encode(nil); err == nil {
		t.Error("nothing was encoded")
	}
}

// forget drops the members of a name.
func forget(v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, name)
		for _, value := range v {
			forget(value, name)
		}
	case []any:
		for _, value := range v {
			forget(value, name)
		}
	}
	return v
}

// prune drops the empty lists of an object, which protobuf does not tell from
// absent ones. Free JSON has none at those names here.
func prune(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		if list, ok := v.([]any); ok {
			for i := range list {
				list[i] = prune(list[i])
			}
		}
		return v
	}
	for name, value := range object {
		if list, ok := value.([]any); ok && len(list) == 0 && name == "list" {
			delete(object, name)
			continue
		}
		object[name] = prune(value)
	}
	return object
}

// Requests of protobuf are read as their JSON is.
func TestParametersOfProtobuf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		message proto.Message
		want    a2a.Decodable
		got     a2a.Decodable
	}{
		{
			`{"message":` + fullMessage + `,"configuration":{"acceptedOutputModes":["a/b"],"historyLength":0,"returnImmediately":true,"taskPushNotificationConfig":{"id":"i","url":"https://u","authentication":{"scheme":"s","credentials":"c"}}},"metadata":{"a":[1]}}`,
			&pb.SendMessageRequest{}, &a2a.SendMessageRequest{}, &a2a.SendMessageRequest{},
		},
		{`{"id":"t","historyLength":3}`, &pb.GetTaskRequest{}, &a2a.GetTaskRequest{}, &a2a.GetTaskRequest{}},
		{
			`{"contextId":"c","status":"TASK_STATE_FAILED","pageSize":3,"pageToken":"p","historyLength":0,"statusTimestampAfter":"2026-01-02T03:04:05Z","includeArtifacts":true}`,
			&pb.ListTasksRequest{}, &a2a.ListTasksRequest{}, &a2a.ListTasksRequest{},
		},
		{`{"id":"t","metadata":{"a":1}}`, &pb.CancelTaskRequest{}, &a2a.CancelTaskRequest{}, &a2a.CancelTaskRequest{}},
		{`{"id":"t"}`, &pb.SubscribeToTaskRequest{}, &a2a.SubscribeToTaskRequest{}, &a2a.SubscribeToTaskRequest{}},
		{`{"id":"i","taskId":"t","url":"https://u","token":"o"}`, &pb.TaskPushNotificationConfig{}, &a2a.TaskPushNotificationConfig{}, &a2a.TaskPushNotificationConfig{}},
		{`{"id":"i","taskId":"t"}`, &pb.GetTaskPushNotificationConfigRequest{}, &a2a.GetTaskPushNotificationConfigRequest{}, &a2a.GetTaskPushNotificationConfigRequest{}},
		{`{"taskId":"t","pageSize":4,"pageToken":"p"}`, &pb.ListTaskPushNotificationConfigsRequest{}, &a2a.ListTaskPushNotificationConfigsRequest{}, &a2a.ListTaskPushNotificationConfigsRequest{}},
		{`{"id":"i","taskId":"t"}`, &pb.DeleteTaskPushNotificationConfigRequest{}, &a2a.DeleteTaskPushNotificationConfigRequest{}, &a2a.DeleteTaskPushNotificationConfigRequest{}},
		{`{}`, &pb.GetExtendedAgentCardRequest{}, &a2a.GetExtendedAgentCardRequest{}, &a2a.GetExtendedAgentCardRequest{}},
	} {
		if err := a2a.Unmarshal([]byte(c.text), c.want); err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal([]byte(c.text), c.message); err != nil {
			t.Fatal(err)
		}
		if err := Decode(c.message, c.got, a2a.MaxDepth); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, c.got, cmp.Comparer(sameJSON)); diff != "" {
			t.Errorf("%T: %s", c.got, diff)
		}
		sent, err := Encode(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.message, sent, protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
			t.Errorf("%T is sent as %s", c.want, diff)
		}
		if err := Decode(&structpb.Struct{}, c.got, a2a.MaxDepth); err == nil {
			t.Errorf("%T was read from a message of another type", c.got)
		}
	}
}

func sameJSON(a, b a2a.JSON) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && cmp.Equal(x, y)
}

// The faults of a message name the field.
func TestFaultsOfProtobuf(t *testing.T) {
	t.Parallel()
	deep := structpb.NewStringValue("x")
	for range 95 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	bad := &structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}}
	for field, m := range map[string]*pb.SendMessageRequest{
		"metadata":                  {Metadata: bad},
		"message.metadata":          {Message: &pb.Message{Metadata: bad}},
		"message.parts[1].metadata": {Message: &pb.Message{Parts: []*pb.Part{{}, {Metadata: bad}}}},
		"message.parts[0].data":     {Message: &pb.Message{Parts: []*pb.Part{{Content: &pb.Part_Data{Data: deep}}}}},
	} {
		err := Decode(m, &a2a.SendMessageRequest{}, a2a.MaxDepth)
		e, ok := err.(*a2a.Error) //nolint:errorlint // it is not wrapped
		if !ok || e.Code != a2a.CodeInvalidParams || len(e.Violations) != 1 || e.Violations[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestNumbersAsJavaScriptWritesThem(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0", "-0", "1", "-1", "0.1", "123456789012345680000", "1e+21", "1.5e-7", "0.000001", "1e-7", "5e-324", "1.7976931348623157e+308", "9007199254740993",
	} {
		got := string(appendNumber(nil, nearest(text)))
		want := strings.Replace(text, "9007199254740993", "9007199254740992", 1)
		if got != want {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// FuzzProto reads bytes as a request. What is accepted is JSON, within the bounds
// of JSON, and says the same when it is sent back.
func FuzzProto(f *testing.F) {
	for _, text := range []string{
		`{"message":` + fullMessage + `}`, `{"tenant":"a/b","message":{"messageId":"m","parts":[{"data":[1,2,{"a":null}]}]},"metadata":{"":{}}}`, `{}`,
	} {
		var m pb.SendMessageRequest
		if err := protojson.Unmarshal([]byte(text), &m); err != nil {
			f.Fatal(err)
		}
		data, err := proto.Marshal(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("\x12\x00"))
	f.Add([]byte("\x22\x0c\x0a\x0a\x0a\x01a\x12\x05\x2a\x03\x0a\x01\x0a"))
	f.Add([]byte{0x12, 0x0d, 0x2a, 0x0b, 0x22, 0x09, 0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m pb.SendMessageRequest
		if Unmarshal(data, &m, testBounds) != nil {
			return
		}
		var q, again a2a.SendMessageRequest
		if Decode(&m, &q, a2a.MaxDepth) != nil {
			return
		}
		text := q.AppendJSON(nil)
		if !jsontext.Value(text).IsValid() {
			t.Fatalf("not JSON: %q", text)
		}
		if q.Message == nil {
			return
		}
		sent, err := protoOfMessage(q.Message)
		if err != nil {
			t.Fatal(err)
		}
		metadata, err := structOfJSON(q.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		back, err := proto.Marshal(&pb.SendMessageRequest{Message: sent, Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		var second pb.SendMessageRequest
		if err := Unmarshal(back, &second, testBounds); err != nil {
			t.Fatal(err)
		}
		if err := Decode(&second, &again, a2a.MaxDepth); err != nil {
			t.Fatal(err)
		}
		again.Configuration, again.Tenant = q.Configuration, q.Tenant
		if got := again.AppendJSON(nil); !bytes.Equal(got, text) {
			t.Errorf("%s became %s", text, got)
		}
	})
}
