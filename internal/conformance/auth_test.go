package conformance_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/conformance"
)

const goodToken = "a-token-that-is-good"

// guarded is a server that wants a token, and has an extended card.
func guarded(next http.Handler) *tamper {
	return &tamper{
		next: next,
		before: func(m *message) {
			if m.op == "card" || m.r.Header.Get("Authorization") == "Bearer "+goodToken {
				m.r.Header.Del("Authorization")
				return
			}
			m.answer(http.StatusUnauthorized, "application/json", `{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "Who are you?"}}`)
			m.header.Set("WWW-Authenticate", `Bearer realm="agents"`)
		},
		after: func(m *message) {
			whenCard(func(c map[string]any) {
				requireToken(c)
				capabilities(c)["extendedAgentCard"] = true
			})(m)
			whenOp("GetExtendedAgentCard", func(m *message) {
				if m.status == http.StatusOK {
					m.refuse(-32007)
				}
			})(m)
		},
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	url := listen(t, guarded(startNode(t, streaming)))
	for name, test := range map[string]struct {
		credentials client.Credentials
		refused     bool
		passed      []string
	}{
		"good":    {client.Bearer(goodToken), false, []string{"auth.required", "auth.wrong", "auth.challenge", "extended.auth", "extended.card", "task.get", "stream.end"}},
		"none":    {nil, true, []string{"interface.reachable", "auth.required", "auth.wrong", "auth.challenge", "extended.auth"}},
		"refused": {client.Bearer("a-token-that-is-bad"), true, []string{"interface.reachable", "auth.required"}},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := conformance.Run(t.Context(), conformance.Options{
				Reference: url + agentPath, Text: "echo hello",
				Client: client.Options{HTTPClient: httpClient(t), Credentials: test.credentials, Transports: []string{overRPC}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range report.Results {
				if r.Outcome == conformance.Fail {
					t.Errorf("%s: %s", r.ID, r.Seen)
				}
			}
			for _, id := range test.passed {
				if r := find(t, report, id, overRPC); r.Outcome != conformance.Pass {
					t.Errorf("%s %s: %s", r.Outcome, id, r.Seen)
				}
			}
			if report.Refused != test.refused || !report.OK {
				t.Errorf("refused %v, ok %v", report.Refused, report.OK)
			}
		})
	}
}

// signed is a server whose card is signed, with the key beside it.
func signed(t *testing.T, next http.Handler, spoil func([]byte) []byte) string {
	t.Helper()
	key, err := card.GenerateSigningKey("ES256")
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	var signer *card.Signer
	return listen(t, &tamper{
		next: next,
		before: func(m *message) {
			once.Do(func() {
				if signer, err = card.NewSigner([]*card.SigningKey{key}, "http://"+m.r.Host+"/keys.json"); err != nil {
					t.Error(err)
				}
			})
			if m.r.URL.Path == "/keys.json" {
				keys, err := card.JWKS(key.Public())
				if err != nil {
					t.Error(err)
				}
				m.answer(200, "application/json", string(keys))
			}
		},
		after: whenOp("card", func(m *message) {
			if m.status != http.StatusOK {
				return
			}
			body, err := signer.AddTo(m.body)
			if err != nil {
				t.Error(err)
			}
			m.body = spoil(body)
		}),
	})
}

func TestSignature(t *testing.T) {
	t.Parallel()
	node := startNode(t, streaming)
	same := func(b []byte) []byte { return b }
	for name, test := range map[string]struct {
		spoil    func([]byte) []byte
		verifier *card.Verifier
		want     conformance.Outcome
		seen     string
	}{
		"good, by the key that it names at its origin": {spoil: same, want: conformance.Pass, seen: "verified"},
		"changed behind": {
			spoil: func(b []byte) []byte { return []byte(strings.Replace(string(b), "Fixture", "Fixtures", 1)) },
			want:  conformance.Fail,
		},
		"of a key that is not known": {spoil: same, verifier: &card.Verifier{Trusted: &card.TrustStore{}}, want: conformance.Skip, seen: "no key"},
		"of a key that is not trusted, though it has to be": {
			spoil: same, verifier: &card.Verifier{Policy: card.PolicyRequire, Trusted: &card.TrustStore{}}, want: conformance.Fail, seen: "trusted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := conformance.Run(t.Context(), conformance.Options{
				Reference: signed(t, node, test.spoil) + agentPath, Verifier: test.verifier,
				Client: client.Options{HTTPClient: httpClient(t), Transports: []string{overRPC}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if r := find(t, report, "card.signature", ""); r.Outcome != test.want || !strings.Contains(r.Seen, test.seen) {
				t.Errorf("%s: %s", r.Outcome, r.Seen)
			}
		})
	}
}

// TestWhatIsOnlyTold looks at both answers to what an agent may do or not.
func TestWhatIsOnlyTold(t *testing.T) {
	t.Parallel()
	node := startNode(t, streaming)
	var mu sync.Mutex
	answers := map[string][]byte{}
	for name, test := range map[string]struct {
		id, seen string
		change   func(*message)
	}{
		"repeats": {"send.repeated", "it does not", nil},
		"deduplicates": {"send.repeated", "it does: both", whenOp("SendMessage", func(m *message) {
			var call struct {
				Params struct{ Message struct{ MessageID string } }
			}
			decode(m.request, &call)
			mu.Lock()
			defer mu.Unlock()
			if first, ok := answers[call.Params.Message.MessageID]; ok {
				m.body = first
			}
			answers[call.Params.Message.MessageID] = m.body
		})},
		"refuses":      {"send.repeated", "it refuses", repeated("SendMessage", func(m *message) { m.refuse(-32602) })},
		"has no lists": {"list.answer", "has no lists", whenOp("ListTasks", func(m *message) { m.refuse(-32004) })},
		"for pages":    {"card.cors", "may read it", whenOp("card", func(m *message) { m.header.Set("Access-Control-Allow-Origin", "*") })},
		"not for any":  {"card.cors", "cannot read it", nil},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := conformance.Run(t.Context(), conformance.Options{
				Reference: listen(t, &tamper{next: node, after: test.change}) + agentPath, Text: "echo hello",
				Client: client.Options{HTTPClient: httpClient(t), Transports: []string{overRPC}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if r := find(t, report, test.id, overRPC); r.Outcome != conformance.Pass || !strings.Contains(r.Seen, test.seen) {
				t.Errorf("%s: %s", r.Outcome, r.Seen)
			}
		})
	}
}

// repeated changes the answer to a message whose id came before.
func repeated(op string, change func(*message)) func(*message) {
	seen := map[string]bool{}
	return whenOp(op, func(m *message) {
		var call struct {
			Params struct{ Message struct{ MessageID string } }
		}
		decode(m.request, &call)
		if seen[call.Params.Message.MessageID] {
			change(m)
		}
		seen[call.Params.Message.MessageID] = true
	})
}
