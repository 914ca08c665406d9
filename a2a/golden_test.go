package a2a

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	jsonv2 "github.com/go-json-experiment/json"
)

// object is a value of the protocol that can be read and written.
type object interface {
	Decodable
	AppendJSON(dst []byte) []byte
}

// golden is an object, what some peer may send for it, and what we send.
type golden struct {
	name string
	new  func() object
	in   string
	want string // "" when it is in
}

func as[T any, P interface {
	*T
	object
}]() object {
	return P(new(T))
}

const goldenUser = `{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","parts":[{"text":"hi"}],"metadata":{"k":null},"extensions":["https://e/1"],"referenceTaskIds":["t0"]}`

const goldenStatus = `{"state":"TASK_STATE_COMPLETED","message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"done"}]},"timestamp":"2026-03-14T09:26:53.589Z"}`

const goldenArtifact = `{"artifactId":"a1","name":"quote","description":"A quote","parts":[{"raw":"AAH+/w==","filename":"q.bin","mediaType":"application/octet-stream"}],"metadata":{"n":1.0},"extensions":["https://e/1"]}`

var goldens = []golden{
	{"task", as[Task], `{"id":"t1","contextId":"c1","status":` + goldenStatus + `,"artifacts":[` + goldenArtifact + `],"history":[` + goldenUser + `],"metadata":{"b":1,"a":2}}`, ""},
	{"empty task", as[Task], `{}`, `{"id":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
	{"task without artifacts asked for", as[Task], `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"artifacts":[]}`, ""},
	{"task with empty lists", as[Task], `{"id":"t","status":{"state":2},"history":[],"metadata":{}}`, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{}}`},
	{"unknown fields at every level", as[Task], `{"kind":"task","id":"t","status":{"x":[{"y":1}],"state":"TASK_STATE_WORKING","message":{"z":{},"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a","w":null}]}}}`, `{"id":"t","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a"}]}}}`},
	{"message", as[Message], goldenUser, ""},
	{"message in snake case", as[Message], `{"message_id":"m1","context_id":"c1","task_id":"t1","role":1,"parts":[{"text":"hi"}],"reference_task_ids":["t0"]}`, `{"messageId":"m1","contextId":"c1","taskId":"t1","role":"ROLE_USER","parts":[{"text":"hi"}],"referenceTaskIds":["t0"]}`},
	{"empty message", as[Message], `{}`, `{"messageId":"","role":"ROLE_UNSPECIFIED","parts":[]}`},
	{"text part", as[Part], `{"text":"a\u0041\u2028\"\\\n","metadata":{"x":[1,2]},"mediaType":"text/plain"}`, "{\"text\":\"aA\u2028\\\"\\\\\\n\",\"metadata\":{\"x\":[1,2]},\"mediaType\":\"text/plain\"}"},
	{"escaped name", as[Part], `{"te\u0078t":"a","\u006dedia_type":"b"}`, `{"text":"a","mediaType":"b"}`},
	{"surrogate pair", as[Part], `{"text":"\ud83d\ude00"}`, `{"text":"😀"}`},
	{"raw part, URL alphabet, no padding", as[Part], `{"raw":"AAH-_w"}`, `{"raw":"AAH+/w=="}`},
	{"raw part, URL alphabet, padding", as[Part], `{"raw":"AAH-_w=="}`, `{"raw":"AAH+/w=="}`},
	{"raw part, standard alphabet, no padding, escaped", as[Part], `{"raw":"AAH+\/w"}`, `{"raw":"AAH+/w=="}`},
	{"empty file", as[Part], `{"raw":"","filename":"empty"}`, ""},
	{"url part", as[Part], `{"url":"https://h/a?b=1&c=<2>","filename":"f","media_type":"image/png"}`, `{"url":"https://h/a?b=1&c=<2>","filename":"f","mediaType":"image/png"}`},
	{"data part", as[Part], `{ "data" : {"b": 1.0e2, "a":[ ], "s":"\u0041<"} }`, `{"data":{"b": 1.0e2, "a":[ ], "s":"\u0041<"}}`},
	{"part without content", as[Part], `{}`, ""},
	{"artifact", as[Artifact], goldenArtifact, ""},
	{"empty artifact", as[Artifact], `{"name":null}`, `{"artifactId":"","parts":[]}`},
	{"timestamp with an offset", as[TaskStatus], `{"state":"TASK_STATE_WORKING","timestamp":"2026-03-14T10:26:53.5891239999+01:00"}`, `{"state":"TASK_STATE_WORKING","timestamp":"2026-03-14T09:26:53.589Z"}`},
	{"timestamp without fraction", as[TaskStatus], `{"state":5,"timestamp":"2026-03-14T09:26:53Z"}`, `{"state":"TASK_STATE_CANCELED","timestamp":"2026-03-14T09:26:53.000Z"}`},
	{"status update", as[TaskStatusUpdateEvent], `{"taskId":"t","contextId":"c","status":` + goldenStatus + `,"metadata":{"a":1}}`, ""},
	{"empty status update", as[TaskStatusUpdateEvent], `{"final":true}`, `{"taskId":"","contextId":"","status":{"state":"TASK_STATE_UNSPECIFIED"}}`},
	{"artifact update", as[TaskArtifactUpdateEvent], `{"taskId":"t","contextId":"c","artifact":` + goldenArtifact + `,"append":true,"lastChunk":true,"metadata":{"a":1}}`, ""},
	{"first chunk", as[TaskArtifactUpdateEvent], `{"task_id":"t","context_id":"c","artifact":{"artifact_id":"a"},"append":false,"last_chunk":false}`, `{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[]}}`},
	{"stream task", as[StreamResponse], `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, ""},
	{"stream message", as[StreamResponse], `{"message":` + goldenUser + `}`, ""},
	{"stream status update", as[StreamResponse], `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`, ""},
	{"stream artifact update", as[StreamResponse], `{"artifact_update":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[]}},"task":null}`, `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[]}}}`},
	{"send response task", as[SendMessageResponse], `{"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}`, ""},
	{"send response message", as[SendMessageResponse], `{"message":` + goldenUser + `}`, ""},
	{"send request", as[SendMessageRequest], `{"tenant":"x","message":` + goldenUser + `,"configuration":{"acceptedOutputModes":["text/plain"],"taskPushNotificationConfig":{"url":"https://h/x","token":"s","authentication":{"scheme":"Bearer","credentials":"c"}},"historyLength":0,"returnImmediately":true},"metadata":{"a":[]}}`, ""},
	{"send request in snake case with nulls", as[SendMessageRequest], `{"tenant":null,"message":null,"configuration":{"accepted_output_modes":null,"task_push_notification_config":null,"history_length":"5","return_immediately":null},"metadata":null}`, `{"configuration":{"historyLength":5}}`},
	{"get request", as[GetTaskRequest], `{"tenant":"x","id":"t","historyLength":5.0}`, `{"tenant":"x","id":"t","historyLength":5}`},
	{"get request, exponent", as[GetTaskRequest], `{"id":"t","history_length":1e2}`, `{"id":"t","historyLength":100}`},
	{"list request", as[ListTasksRequest], `{"tenant":"x","contextId":"c","status":"TASK_STATE_AUTH_REQUIRED","pageSize":10,"pageToken":"p","historyLength":0,"statusTimestampAfter":"2026-03-14T09:26:53.589Z","includeArtifacts":true}`, ""},
	{"empty list request", as[ListTasksRequest], `{"status":0,"includeArtifacts":false,"page_token":""}`, `{}`},
	{"list response", as[ListTasksResponse], `{"tasks":[{"id":"t","status":{"state":"TASK_STATE_WORKING"}}],"nextPageToken":"p","pageSize":1,"totalSize":2}`, ""},
	{"empty list response", as[ListTasksResponse], `{}`, `{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}`},
	{"cancel request", as[CancelTaskRequest], `{"tenant":"x","id":"t","metadata":{"why":"<late>"}}`, ""},
	{"subscribe request", as[SubscribeToTaskRequest], `{"tenant":"x","id":"t"}`, ""},
	{"push config", as[TaskPushNotificationConfig], `{"tenant":"x","id":"p","taskId":"t","url":"https://h/x","token":"s","authentication":{"scheme":"Basic"}}`, ""},
	{"get config request", as[GetTaskPushNotificationConfigRequest], `{"tenant":"x","taskId":"t","id":"p"}`, ""},
	{"delete config request", as[DeleteTaskPushNotificationConfigRequest], `{"tenant":"x","taskId":"t","id":"p"}`, ""},
	{"list configs request", as[ListTaskPushNotificationConfigsRequest], `{"taskId":"t","pageSize":2,"pageToken":"p","tenant":"x"}`, ""},
	{"list configs response", as[ListTaskPushNotificationConfigsResponse], `{"configs":[{"id":"p","url":"https://h/x"}],"nextPageToken":"n"}`, ""},
	{"empty list configs response", as[ListTaskPushNotificationConfigsResponse], `{}`, `{"configs":[],"nextPageToken":""}`},
	{"extended card request", as[GetExtendedAgentCardRequest], `{"tenant":"x"}`, ""},
	{"card", as[AgentCard], goldenCard, ""},
	{"empty card", as[AgentCard], `{"skills":null,"security_schemes":null,"default_input_modes":null}`, `{"name":"","description":"","supportedInterfaces":[],"version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`},
	{"declared as false", as[AgentCapabilities], `{"streaming":false,"push_notifications":true,"extensions":[]}`, `{"streaming":false,"pushNotifications":true}`},
	{"requirement without scopes", as[SecurityRequirement], `{"schemes":{"b":{"list":[]},"a":{},"c":{"list":null}}}`, `{"schemes":{"a":{},"b":{},"c":{}}}`},
	{"empty requirement", as[SecurityRequirement], `{"schemes":{}}`, `{}`},
	{"configuration", as[SendMessageConfiguration], `{"acceptedOutputModes":["a"],"historyLength":-1}`, ""},
	{"authentication", as[AuthenticationInfo], `{"scheme":"Bearer","credentials":"c"}`, ""},
	{"interface", as[AgentInterface], `{"url":"u","protocolBinding":"GRPC","protocolVersion":"1.0"}`, ""},
	{"provider", as[AgentProvider], `{"url":"u","organization":"o"}`, ""},
	{"extension", as[AgentExtension], `{"uri":"u","params":{"a": 1}}`, ""},
	{"skill", as[AgentSkill], `{"id":"i"}`, `{"id":"i","name":"","description":"","tags":[]}`},
	{"signature", as[AgentCardSignature], `{"protected":"p","signature":"s"}`, ""},
	{"scheme", as[SecurityScheme], `{"mtlsSecurityScheme":{}}`, ""},
	{"API key", as[APIKeySecurityScheme], `{"location":"query","name":"k"}`, ""},
	{"HTTP authentication", as[HTTPAuthSecurityScheme], `{"description":"d","scheme":"Basic"}`, ""},
	{"OAuth 2.0", as[OAuth2SecurityScheme], `{"description":"d"}`, `{"description":"d","flows":{}}`},
	{"OpenID Connect", as[OpenIDConnectSecurityScheme], `{"description":"d","openIdConnectUrl":"u"}`, ""},
	{"mutual TLS", as[MutualTLSSecurityScheme], `{}`, ""},
	{"authorization code", as[AuthorizationCodeOAuthFlow], `{}`, `{"authorizationUrl":"","tokenUrl":"","scopes":{}}`},
	{"client credentials", as[ClientCredentialsOAuthFlow], `{}`, `{"tokenUrl":"","scopes":{}}`},
	{"implicit", as[ImplicitOAuthFlow], `{"scopes":{}}`, `{}`},
	{"password", as[PasswordOAuthFlow], `{"scopes":null}`, `{}`},
	{"device code", as[DeviceCodeOAuthFlow], `{}`, `{"deviceAuthorizationUrl":"","tokenUrl":"","scopes":{}}`},
	{"implicit flow", as[OAuthFlows], `{"implicit":{"authorizationUrl":"https://a","refreshUrl":"https://r","scopes":{"s":"d"}}}`, ""},
	{"password flow", as[OAuthFlows], `{"password":{"tokenUrl":"https://a","refreshUrl":"https://r","scopes":{"s":"d"}}}`, ""},
	{"device flow", as[OAuthFlows], `{"deviceCode":{"deviceAuthorizationUrl":"https://d","tokenUrl":"https://a","scopes":{}}}`, ""},
	{"client credentials flow", as[OAuthFlows], `{"client_credentials":{"token_url":"https://a","refresh_url":"https://r"}}`, `{"clientCredentials":{"tokenUrl":"https://a","refreshUrl":"https://r","scopes":{}}}`},
}

const goldenCard = `{"name":"Quotes","description":"Quotes <orders> & more",` +
	`"supportedInterfaces":[{"url":"https://h/rpc","protocolBinding":"JSONRPC","tenant":"x","protocolVersion":"1.0"}],` +
	`"provider":{"url":"https://h","organization":"Acme"},"version":"1.4.0","documentationUrl":"",` +
	`"capabilities":{"streaming":true,"pushNotifications":false,"extensions":[{"uri":"https://e/1","description":"d","required":true,"params":{"z":1,"a":0.10}}],"extendedAgentCard":true},` +
	`"securitySchemes":{"api":{"apiKeySecurityScheme":{"description":"d","location":"header","name":"X-Key"}},` +
	`"bearer":{"httpAuthSecurityScheme":{"scheme":"Bearer","bearerFormat":"JWT"}},` +
	`"mtls":{"mtlsSecurityScheme":{"description":"d"}},` +
	`"oauth":{"oauth2SecurityScheme":{"flows":{"authorizationCode":{"authorizationUrl":"https://a","tokenUrl":"https://t","refreshUrl":"https://r","scopes":{"a":"A","b":"B"},"pkceRequired":true}},"oauth2MetadataUrl":"https://m"}},` +
	`"oidc":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://o"}}},` +
	`"securityRequirements":[{"schemes":{"bearer":{},"oauth":{"list":["a","b"]}}}],` +
	`"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain","application/json"],` +
	`"skills":[{"id":"q","name":"Quote","description":"Quotes","tags":["sales"],"examples":["e"],"inputModes":["text/plain"],"outputModes":["text/plain"],"securityRequirements":[{"schemes":{"api":{}}}]}],` +
	`"signatures":[{"protected":"eyJ","signature":"abc","header":{"kid":"1"}}],"iconUrl":"https://h/i.png"}`

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			want := g.want
			if want == "" {
				want = g.in
			}
			v := g.new()
			in := []byte(g.in)
			if err := Unmarshal(in, v); err != nil {
				t.Fatalf("Unmarshal: %v", err)
			}
			clear(in) // the value must not share the memory of the input
			if diff := cmp.Diff(want, string(v.AppendJSON(nil))); diff != "" {
				t.Errorf("AppendJSON (-want +got):\n%s", diff)
			}
			again := g.new()
			if err := Unmarshal([]byte(want), again); err != nil {
				t.Fatalf("Unmarshal of the output: %v", err)
			}
			if diff := cmp.Diff(want, string(again.AppendJSON(nil))); diff != "" {
				t.Errorf("second AppendJSON (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStandardEncoders checks that the two JSON packages that users have read
// and write our form.
func TestStandardEncoders(t *testing.T) {
	t.Parallel()
	for _, g := range goldens {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			v := g.new()
			if err := Unmarshal([]byte(g.in), v); err != nil {
				t.Fatal(err)
			}
			want := v.AppendJSON(nil)

			var b strings.Builder
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(v); err != nil {
				t.Fatalf("encoding/json: %v", err)
			}
			compact := jsontext.Value(want).Clone()
			if err := compact.Compact(); err != nil {
				t.Fatal(err)
			}
			// encoding/json takes the spaces out of free JSON.
			if diff := cmp.Diff(string(compact), strings.TrimSuffix(b.String(), "\n")); diff != "" {
				t.Errorf("encoding/json wrote (-want +got):\n%s", diff)
			}
			got, err := jsonv2.Marshal(v, jsontext.PreserveRawStrings(true))
			if err != nil {
				t.Fatalf("json v2: %v", err)
			}
			if diff := cmp.Diff(string(compact), string(got)); diff != "" {
				t.Errorf("json v2 wrote (-want +got):\n%s", diff)
			}

			v1, v2 := g.new(), g.new()
			if err := json.Unmarshal([]byte(g.in), v1); err != nil {
				t.Fatalf("encoding/json: %v", err)
			}
			if err := jsonv2.Unmarshal([]byte(g.in), v2); err != nil {
				t.Fatalf("json v2: %v", err)
			}
			if diff := cmp.Diff(string(want), string(v1.AppendJSON(nil))); diff != "" {
				t.Errorf("encoding/json read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(string(want), string(v2.AppendJSON(nil))); diff != "" {
				t.Errorf("json v2 read (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarshalValues checks that a value that is not addressable is written in
// our form too.
func TestMarshalValues(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(map[string]any{"task": Task{ID: "t"}, "part": Text("a")})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"part":{"text":"a"},"task":{"id":"t","status":{"state":"TASK_STATE_UNSPECIFIED"}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("json.Marshal (-want +got):\n%s", diff)
	}
}
