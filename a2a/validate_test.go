package a2a

import (
	"strings"
	"testing"
)

func TestValidateRequests(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxIDLength+1)
	full := long[1:]
	minus, zero, one, hundred, many := -1, 0, 1, 100, 101
	message := func(change func(*Message)) *SendMessageRequest {
		m := &Message{MessageID: "m", Role: RoleUser, Parts: []Part{Text("a")}}
		change(m)
		return &SendMessageRequest{Message: m}
	}
	inline := func(c TaskPushNotificationConfig) *SendMessageRequest {
		r := message(func(*Message) {})
		r.Configuration = &SendMessageConfiguration{TaskPushNotificationConfig: &c}
		return r
	}
	const inlinePath = "configuration.taskPushNotificationConfig."
	tests := []struct {
		name   string
		value  interface{ Validate() error }
		fields []string // none: valid
	}{
		{"ids of full length", message(func(m *Message) { m.MessageID, m.ContextID, m.TaskID = full, full, full }), nil},
		{"long ids", message(func(m *Message) { m.MessageID, m.ContextID, m.TaskID = long, long, long }), []string{"message.messageId", "message.contextId", "message.taskId"}},
		{"control characters", message(func(m *Message) { m.MessageID, m.ContextID, m.TaskID = "a\nb", "a\x7f", "\u0085" }), []string{"message.messageId", "message.contextId", "message.taskId"}},
		{"ids in other scripts", message(func(m *Message) { m.MessageID, m.ContextID = "消息-1", "작업" }), nil},
		{"invalid UTF-8", message(func(m *Message) { m.MessageID = "\xff" }), []string{"message.messageId"}},
		{"long tenant", &SendMessageRequest{Tenant: long, Message: message(func(*Message) {}).Message}, []string{"tenant"}},
		{"role out of range", message(func(m *Message) { m.Role = 7 }), []string{"message.role"}},
		{"100 references", message(func(m *Message) { m.ReferenceTaskIDs = strings.Split(strings.Repeat("t,", 99)+"t", ",") }), nil},
		{"101 references", message(func(m *Message) { m.ReferenceTaskIDs = strings.Split(strings.Repeat("t,", 100)+"t", ",") }), []string{"message.referenceTaskIds"}},
		{"bad references", message(func(m *Message) { m.ReferenceTaskIDs = []string{"t", "", long} }), []string{"message.referenceTaskIds[1]", "message.referenceTaskIds[2]"}},
		{"empty url", message(func(m *Message) { m.Parts = []Part{Text(""), URL("", "", "")} }), []string{"message.parts[1].url"}},
		{"unknown kind of part", message(func(m *Message) { m.Parts = []Part{{Kind: 9}} }), []string{"message.parts[0]"}},
		{"metadata is no object", message(func(m *Message) { m.Metadata = JSON(`[]`); m.Parts[0].Metadata = JSON(`1`) }), []string{"message.parts[0].metadata", "message.metadata"}},
		{"history length", &SendMessageRequest{Message: message(func(*Message) {}).Message, Configuration: &SendMessageConfiguration{HistoryLength: &minus}}, []string{"configuration.historyLength"}},
		{"inline webhook", inline(TaskPushNotificationConfig{URL: "https://h/x"}), nil},
		{"inline webhook without url", inline(TaskPushNotificationConfig{}), []string{inlinePath + "url"}},
		{"inline webhook, header injection", inline(TaskPushNotificationConfig{URL: "https://h/x", Token: "a\r\nX: b", Authentication: &AuthenticationInfo{Scheme: "", Credentials: "a\nb"}}), []string{inlinePath + "token", inlinePath + "authentication.scheme", inlinePath + "authentication.credentials"}},

		{"get", &GetTaskRequest{ID: "t", HistoryLength: &zero}, nil},
		{"get nothing", &GetTaskRequest{HistoryLength: &minus, Tenant: "\x00"}, []string{"tenant", "id", "historyLength"}},
		{"list all", &ListTasksRequest{}, nil},
		{"list one", &ListTasksRequest{PageSize: &one}, nil},
		{"list a hundred", &ListTasksRequest{PageSize: &hundred}, nil},
		{"list none", &ListTasksRequest{PageSize: &zero}, []string{"pageSize"}},
		{"list too many", &ListTasksRequest{PageSize: &many, HistoryLength: &minus, Status: 9, ContextID: long, PageToken: "\n"}, []string{"contextId", "status", "pageSize", "pageToken", "historyLength"}},
		{"cancel", &CancelTaskRequest{ID: "t", Metadata: JSON(` {}`)}, nil},
		{"cancel nothing", &CancelTaskRequest{Metadata: JSON(`[]`)}, []string{"id", "metadata"}},
		{"subscribe", &SubscribeToTaskRequest{ID: "t"}, nil},
		{"subscribe to nothing", &SubscribeToTaskRequest{}, []string{"id"}},
		{"create config", &TaskPushNotificationConfig{TaskID: "t", URL: "http://h/x"}, nil},
		{"create nothing", &TaskPushNotificationConfig{}, []string{"taskId", "url"}},
		{"relative url", &TaskPushNotificationConfig{TaskID: "t", URL: "/x"}, []string{"url"}},
		{"other scheme", &TaskPushNotificationConfig{TaskID: "t", URL: "file://h/x"}, []string{"url"}},
		{"no host", &TaskPushNotificationConfig{TaskID: "t", URL: "https:///x"}, []string{"url"}},
		{"get config", &GetTaskPushNotificationConfigRequest{TaskID: "t", ID: "p"}, nil},
		{"get no config", &GetTaskPushNotificationConfigRequest{}, []string{"taskId", "id"}},
		{"delete no config", &DeleteTaskPushNotificationConfigRequest{}, []string{"taskId", "id"}},
		{"list configs", &ListTaskPushNotificationConfigsRequest{TaskID: "t"}, nil},
		{"list no configs", &ListTaskPushNotificationConfigsRequest{PageSize: -1}, []string{"taskId", "pageSize"}},
		{"extended card", &GetExtendedAgentCardRequest{}, nil},
		{"extended card of a long tenant", &GetExtendedAgentCardRequest{Tenant: long}, []string{"tenant"}},
		{"message of an agent", &Message{MessageID: "m", Role: RoleAgent, Parts: []Part{Text("a")}}, nil},
		{"empty message", &Message{}, []string{"messageId", "role", "parts"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.value.Validate()
			if len(tt.fields) > 0 {
				wantFields(t, tt.name, err, tt.fields...)
			} else if err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// TestValidateBoundsErrors checks that a request cannot make an error that is
// larger than itself.
func TestValidateBoundsErrors(t *testing.T) {
	t.Parallel()
	r := &SendMessageRequest{Message: &Message{MessageID: "m", Role: RoleUser, Parts: make([]Part, 100_000)}}
	card := &AgentCard{Skills: make([]AgentSkill, 100_000)}
	for _, err := range []error{r.Validate(), card.Validate()} {
		if err == nil || len(err.Error()) > 4096 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
	}
}

func TestAgentCardValidate(t *testing.T) {
	t.Parallel()
	valid := func() *AgentCard { return mustUnmarshal[AgentCard](t, goldenCard) }
	if err := valid().Validate(); err != nil {
		t.Errorf("a complete card: %v", err)
	}
	noSkills := valid()
	noSkills.Skills = nil
	if err := noSkills.Validate(); err != nil {
		t.Errorf("a card without skills: %v", err)
	}

	tests := []struct {
		name   string
		change func(*AgentCard)
		fields []string
	}{
		{"empty card", func(c *AgentCard) { *c = AgentCard{} }, []string{"name", "description", "version", "supportedInterfaces", "defaultInputModes", "defaultOutputModes"}},
		{"empty objects", func(c *AgentCard) {
			c.SupportedInterfaces = []AgentInterface{{}}
			c.Provider = &AgentProvider{}
			c.Capabilities.Extensions = []AgentExtension{{Params: JSON("1")}}
			c.Skills = []AgentSkill{{}}
			c.Signatures = []AgentCardSignature{{Header: JSON("[]")}}
		}, []string{
			"supportedInterfaces[0].url", "supportedInterfaces[0].protocolBinding", "supportedInterfaces[0].protocolVersion",
			"provider.url", "provider.organization", "capabilities.extensions[0].uri", "capabilities.extensions[0].params",
			"skills[0].id", "skills[0].name", "skills[0].description", "skills[0].tags",
			"signatures[0].protected", "signatures[0].signature", "signatures[0].header",
		}},
		{"security schemes", func(c *AgentCard) {
			c.SecuritySchemes = map[string]SecurityScheme{
				"a": {},
				"b": {APIKey: &APIKeySecurityScheme{Location: "body"}},
				"c": {HTTPAuth: &HTTPAuthSecurityScheme{}},
				"d": {OAuth2: &OAuth2SecurityScheme{}},
				"e": {OpenIDConnect: &OpenIDConnectSecurityScheme{}},
				"f": {OAuth2: &OAuth2SecurityScheme{Flows: OAuthFlows{AuthorizationCode: &AuthorizationCodeOAuthFlow{}}}},
				"g": {OAuth2: &OAuth2SecurityScheme{Flows: OAuthFlows{ClientCredentials: &ClientCredentialsOAuthFlow{}}}},
				"h": {OAuth2: &OAuth2SecurityScheme{Flows: OAuthFlows{DeviceCode: &DeviceCodeOAuthFlow{}}}},
				"i": {OAuth2: &OAuth2SecurityScheme{Flows: OAuthFlows{Implicit: &ImplicitOAuthFlow{}}}},
				"j": {MutualTLS: &MutualTLSSecurityScheme{}, HTTPAuth: &HTTPAuthSecurityScheme{Scheme: "Bearer"}},
			}
		}, []string{
			"securitySchemes.a",
			"securitySchemes.b.apiKeySecurityScheme.location", "securitySchemes.b.apiKeySecurityScheme.name",
			"securitySchemes.c.httpAuthSecurityScheme.scheme",
			"securitySchemes.d.oauth2SecurityScheme.flows",
			"securitySchemes.e.openIdConnectSecurityScheme.openIdConnectUrl",
			"securitySchemes.f.oauth2SecurityScheme.flows.authorizationCode.authorizationUrl",
			"securitySchemes.f.oauth2SecurityScheme.flows.authorizationCode.tokenUrl",
			"securitySchemes.g.oauth2SecurityScheme.flows.clientCredentials.tokenUrl",
			"securitySchemes.h.oauth2SecurityScheme.flows.deviceCode.deviceAuthorizationUrl",
			"securitySchemes.h.oauth2SecurityScheme.flows.deviceCode.tokenUrl",
			"securitySchemes.j",
		}},
	}
	for _, tt := range tests {
		card := valid()
		tt.change(card)
		wantFields(t, tt.name, card.Validate(), tt.fields...)
	}
}
