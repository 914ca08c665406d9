package a2a

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// The generators below draw every value that has a JSON form of its own; what
// JSON cannot tell apart, an empty and a missing list, is drawn once. A generator
// must not be drawn from in parallel, so that the tests that share them are not
// parallel.

var (
	anyText = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "消息", "<a&b>", "\"\\\n\u2028\x00", "😀"}))
	anyJSON = rapid.Map(rapid.SampledFrom([]string{
		`null`, `0`, `-1.50e3`, `false`, `""`, `"<\u0041>"`, `[]`, `[1,null,{}]`, `{}`, `{"b":1,"a":{"c":[true]}}`, `{ "s" : 1 }`,
	}), func(s string) JSON { return JSON(s) })
	anyMetadata = rapid.Map(rapid.SampledFrom([]string{
		``, `{}`, `{"k":null}`, `{"b":1.0,"a":{"c":[]}}`, "{\n\"x\":\"\\u003c\"}",
	}), func(s string) JSON {
		if s == "" {
			return nil
		}
		return JSON(s)
	})
	anyTexts = rapid.SliceOfN(anyText, 0, 3)
	anyCount = rapid.IntRange(-1<<31, 1<<31-1)
	anyState = rapid.Map(rapid.IntRange(0, 8), func(n int) TaskState { return TaskState(n) })
	anyRole  = rapid.Map(rapid.IntRange(0, 2), func(n int) Role { return Role(n) })
	anyTime  = rapid.Map(rapid.Int64Range(-62135596800000, 253402300799999), func(ms int64) time.Time { return time.UnixMilli(ms).UTC() })

	anyPart = rapid.Custom(func(t *rapid.T) Part {
		p := Part{Metadata: anyMetadata.Draw(t, "metadata"), MediaType: anyText.Draw(t, "mediaType"), Filename: anyText.Draw(t, "filename")}
		p.Kind = PartKind(rapid.IntRange(0, 4).Draw(t, "kind"))
		switch p.Kind {
		case PartText:
			p.Text = anyText.Draw(t, "text")
		case PartRaw:
			p.Raw = rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		case PartURL:
			p.URL = anyText.Draw(t, "url")
		case PartData:
			p.Data = anyJSON.Draw(t, "data")
		}
		return p
	})
	anyMessage = rapid.Custom(func(t *rapid.T) Message {
		return Message{
			MessageID: anyText.Draw(t, "messageId"), ContextID: anyText.Draw(t, "contextId"), TaskID: anyText.Draw(t, "taskId"),
			Role: anyRole.Draw(t, "role"), Parts: rapid.SliceOfN(anyPart, 0, 3).Draw(t, "parts"),
			Metadata: anyMetadata.Draw(t, "metadata"), Extensions: anyTexts.Draw(t, "extensions"),
			ReferenceTaskIDs: anyTexts.Draw(t, "referenceTaskIds"),
		}
	})
	anyStatus = rapid.Custom(func(t *rapid.T) TaskStatus {
		return TaskStatus{
			State: anyState.Draw(t, "state"), Message: rapid.Ptr(anyMessage, true).Draw(t, "message"),
			Timestamp: anyTime.Draw(t, "timestamp"),
		}
	})
	anyArtifact = rapid.Custom(func(t *rapid.T) Artifact {
		return Artifact{
			ArtifactID: anyText.Draw(t, "artifactId"), Name: anyText.Draw(t, "name"), Description: anyText.Draw(t, "description"),
			Parts: rapid.SliceOfN(anyPart, 0, 3).Draw(t, "parts"), Metadata: anyMetadata.Draw(t, "metadata"),
			Extensions: anyTexts.Draw(t, "extensions"),
		}
	})
	anyTask = rapid.Custom(func(t *rapid.T) Task {
		task := Task{
			ID: anyText.Draw(t, "id"), ContextID: anyText.Draw(t, "contextId"), Status: anyStatus.Draw(t, "status"),
			History: rapid.SliceOfN(anyMessage, 0, 2).Draw(t, "history"), Metadata: anyMetadata.Draw(t, "metadata"),
		}
		if rapid.Bool().Draw(t, "includeArtifacts") {
			task.Artifacts = append([]Artifact{}, rapid.SliceOfN(anyArtifact, 0, 2).Draw(t, "artifacts")...)
		}
		return task
	})
	anyConfig = rapid.Custom(func(t *rapid.T) TaskPushNotificationConfig {
		return TaskPushNotificationConfig{
			Tenant: anyText.Draw(t, "tenant"), ID: anyText.Draw(t, "id"), TaskID: anyText.Draw(t, "taskId"),
			URL: anyText.Draw(t, "url"), Token: anyText.Draw(t, "token"),
			Authentication: rapid.Ptr(rapid.Make[AuthenticationInfo](), true).Draw(t, "authentication"),
		}
	})
	anyScopes = rapid.MapOfN(anyText, anyText, 0, 3)
	anyScheme = rapid.Custom(func(t *rapid.T) SecurityScheme {
		var s SecurityScheme
		switch rapid.IntRange(0, 5).Draw(t, "scheme") {
		case 1:
			s.APIKey = &APIKeySecurityScheme{Description: anyText.Draw(t, "description"), Location: "header", Name: anyText.Draw(t, "name")}
		case 2:
			s.HTTPAuth = &HTTPAuthSecurityScheme{Scheme: anyText.Draw(t, "scheme"), BearerFormat: anyText.Draw(t, "bearerFormat")}
		case 3:
			s.OAuth2 = &OAuth2SecurityScheme{Flows: anyFlows.Draw(t, "flows"), OAuth2MetadataURL: anyText.Draw(t, "oauth2MetadataUrl")}
		case 4:
			s.OpenIDConnect = &OpenIDConnectSecurityScheme{OpenIDConnectURL: anyText.Draw(t, "url")}
		case 5:
			s.MutualTLS = &MutualTLSSecurityScheme{Description: anyText.Draw(t, "description")}
		}
		return s
	})
	anyFlows = rapid.Custom(func(t *rapid.T) OAuthFlows {
		var f OAuthFlows
		a, b, c := anyText.Draw(t, "a"), anyText.Draw(t, "b"), anyText.Draw(t, "c")
		scopes := anyScopes.Draw(t, "scopes")
		switch rapid.IntRange(0, 5).Draw(t, "flow") {
		case 1:
			f.AuthorizationCode = &AuthorizationCodeOAuthFlow{a, b, c, scopes, rapid.Bool().Draw(t, "pkce")}
		case 2:
			f.ClientCredentials = &ClientCredentialsOAuthFlow{a, b, scopes}
		case 3:
			f.Implicit = &ImplicitOAuthFlow{a, b, scopes}
		case 4:
			f.Password = &PasswordOAuthFlow{a, b, scopes}
		case 5:
			f.DeviceCode = &DeviceCodeOAuthFlow{a, b, c, scopes}
		}
		return f
	})
	anyRequirements = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) SecurityRequirement {
		return SecurityRequirement{Schemes: rapid.MapOfN(anyText, anyTexts, 0, 2).Draw(t, "schemes")}
	}), 0, 2)
	anyCard = rapid.Custom(func(t *rapid.T) AgentCard {
		flag := rapid.Ptr(rapid.Bool(), true)
		return AgentCard{
			Name: anyText.Draw(t, "name"), Description: anyText.Draw(t, "description"),
			SupportedInterfaces: rapid.SliceOfN(rapid.Make[AgentInterface](), 0, 2).Draw(t, "interfaces"),
			Provider:            rapid.Ptr(rapid.Make[AgentProvider](), true).Draw(t, "provider"),
			Version:             anyText.Draw(t, "version"), DocumentationURL: rapid.Ptr(anyText, true).Draw(t, "documentationUrl"),
			Capabilities: AgentCapabilities{
				Streaming: flag.Draw(t, "streaming"), PushNotifications: flag.Draw(t, "push"),
				Extensions: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) AgentExtension {
					return AgentExtension{anyText.Draw(t, "uri"), anyText.Draw(t, "description"), rapid.Bool().Draw(t, "required"), anyMetadata.Draw(t, "params")}
				}), 0, 2).Draw(t, "extensions"),
				ExtendedAgentCard: flag.Draw(t, "extended"),
			},
			SecuritySchemes:      rapid.MapOfN(anyText, anyScheme, 0, 3).Draw(t, "schemes"),
			SecurityRequirements: anyRequirements.Draw(t, "requirements"),
			DefaultInputModes:    anyTexts.Draw(t, "in"), DefaultOutputModes: anyTexts.Draw(t, "out"),
			Skills: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) AgentSkill {
				return AgentSkill{
					anyText.Draw(t, "id"), anyText.Draw(t, "name"), anyText.Draw(t, "description"), anyTexts.Draw(t, "tags"),
					anyTexts.Draw(t, "examples"), anyTexts.Draw(t, "in"), anyTexts.Draw(t, "out"), anyRequirements.Draw(t, "requirements"),
				}
			}), 0, 2).Draw(t, "skills"),
			Signatures: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) AgentCardSignature {
				return AgentCardSignature{anyText.Draw(t, "protected"), anyText.Draw(t, "signature"), anyMetadata.Draw(t, "header")}
			}), 0, 2).Draw(t, "signatures"),
			IconURL: rapid.Ptr(anyText, true).Draw(t, "iconUrl"),
		}
	})
)

// checkRoundTrip checks that drawn values are read back as they were written.
func checkRoundTrip[T any, P interface {
	*T
	object
}](t *testing.T, values *rapid.Generator[T],
) {
	t.Helper()
	// A nil and an empty list are one in JSON, but for the artifacts of a task.
	options := cmp.Options{
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() != ".Artifacts" }, cmpopts.EquateEmpty()),
	}
	rapid.Check(t, func(t *rapid.T) {
		want := values.Draw(t, "value")
		encoded := P(&want).AppendJSON(nil)
		if !JSON(encoded).IsValid() {
			t.Fatalf("not JSON: %s", encoded)
		}
		var got T
		if err := Unmarshal(encoded, P(&got)); err != nil {
			t.Fatalf("Unmarshal(%s): %v", encoded, err)
		}
		if diff := cmp.Diff(want, got, options); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", encoded, diff)
		}
	})
}

func TestRoundTrip(t *testing.T) {
	count := rapid.Ptr(anyCount, true)
	tests := map[string]func(t *testing.T){
		"Task":     func(t *testing.T) { checkRoundTrip(t, anyTask) },
		"Message":  func(t *testing.T) { checkRoundTrip(t, anyMessage) },
		"Part":     func(t *testing.T) { checkRoundTrip(t, anyPart) },
		"Artifact": func(t *testing.T) { checkRoundTrip(t, anyArtifact) },
		"Card":     func(t *testing.T) { checkRoundTrip(t, anyCard) },
		"Config":   func(t *testing.T) { checkRoundTrip(t, anyConfig) },
		"StreamResponse": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) StreamResponse {
				switch rapid.IntRange(0, 4).Draw(t, "payload") {
				case 1:
					return StreamResponse{Task: new(anyTask.Draw(t, "task"))}
				case 2:
					return StreamResponse{Message: new(anyMessage.Draw(t, "message"))}
				case 3:
					return StreamResponse{StatusUpdate: &TaskStatusUpdateEvent{
						anyText.Draw(t, "taskId"), anyText.Draw(t, "contextId"), anyStatus.Draw(t, "status"), anyMetadata.Draw(t, "metadata"),
					}}
				case 4:
					return StreamResponse{ArtifactUpdate: &TaskArtifactUpdateEvent{
						anyText.Draw(t, "taskId"), anyText.Draw(t, "contextId"), anyArtifact.Draw(t, "artifact"),
						rapid.Bool().Draw(t, "append"), rapid.Bool().Draw(t, "lastChunk"), anyMetadata.Draw(t, "metadata"),
					}}
				}
				return StreamResponse{}
			}))
		},
		"SendMessageRequest": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) SendMessageRequest {
				return SendMessageRequest{
					anyText.Draw(t, "tenant"), rapid.Ptr(anyMessage, true).Draw(t, "message"),
					rapid.Ptr(rapid.Custom(func(t *rapid.T) SendMessageConfiguration {
						return SendMessageConfiguration{
							anyTexts.Draw(t, "modes"), rapid.Ptr(anyConfig, true).Draw(t, "config"),
							count.Draw(t, "historyLength"), rapid.Bool().Draw(t, "returnImmediately"),
						}
					}), true).Draw(t, "configuration"),
					anyMetadata.Draw(t, "metadata"),
				}
			}))
		},
		"ListTasksRequest": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) ListTasksRequest {
				return ListTasksRequest{
					anyText.Draw(t, "tenant"), anyText.Draw(t, "contextId"), anyState.Draw(t, "status"), count.Draw(t, "pageSize"),
					anyText.Draw(t, "pageToken"), count.Draw(t, "historyLength"), anyTime.Draw(t, "after"), rapid.Bool().Draw(t, "artifacts"),
				}
			}))
		},
		"ListTasksResponse": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) ListTasksResponse {
				return ListTasksResponse{
					rapid.SliceOfN(anyTask, 0, 2).Draw(t, "tasks"), anyText.Draw(t, "nextPageToken"),
					anyCount.Draw(t, "pageSize"), anyCount.Draw(t, "totalSize"),
				}
			}))
		},
		"CancelTaskRequest": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) CancelTaskRequest {
				return CancelTaskRequest{anyText.Draw(t, "tenant"), anyText.Draw(t, "id"), anyMetadata.Draw(t, "metadata")}
			}))
		},
		"ListConfigsResponse": func(t *testing.T) {
			checkRoundTrip(t, rapid.Custom(func(t *rapid.T) ListTaskPushNotificationConfigsResponse {
				return ListTaskPushNotificationConfigsResponse{rapid.SliceOfN(anyConfig, 0, 2).Draw(t, "configs"), anyText.Draw(t, "token")}
			}))
		},
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

func TestAppendTimestamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := anyTime.Draw(t, "time").Add(time.Duration(rapid.IntRange(0, 999_999).Draw(t, "ns")))
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "offset"))
		got := string(AppendTimestamp(nil, at.In(zone)))
		if want := at.Format("2006-01-02T15:04:05.000Z"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
	for _, tt := range []struct {
		in   time.Time
		want string
	}{
		{time.Time{}, "0001-01-01T00:00:00.000Z"},
		{time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), "0001-01-01T00:00:00.000Z"},
		{time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999Z"},
	} {
		if got := string(AppendTimestamp(nil, tt.in)); got != tt.want || len(got) != TimestampLen {
			t.Errorf("%v became %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestInvalidUTF8 checks that a value made in Go cannot make us write what is
// not JSON.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	m := Message{MessageID: "a\xffb", Extensions: []string{"\xc3"}}
	want := `{"messageId":"a` + "\ufffd" + `b","role":"ROLE_UNSPECIFIED","parts":[],"extensions":["` + "\ufffd" + `"]}`
	if diff := cmp.Diff(want, string(m.AppendJSON(nil))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
