package examples_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

var issuing = regexp.MustCompile(`The issuer is ready at (\S+)`)

// startIssuer starts the authorization server of the example on a free port, and
// returns its address.
func startIssuer(t *testing.T) string {
	t.Helper()
	program, err := built("./supplier/issuer")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-listen", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if match := issuing.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return match[1]
		}
	}
	t.Fatal("the issuer ended before it was ready")
	return ""
}

// token gets a token of the issuer.
func token(t *testing.T, issuer, scope string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("erp-buyer", "secret")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.UnmarshalRead(response.Body, &answer); err != nil || answer.Token == "" {
		t.Fatalf("%s: no token: %v", response.Status, err)
	}
	return answer.Token
}

// startSupplier runs the example with an issuer of its own.
func startSupplier(t *testing.T) (e *example, issuer string) {
	t.Helper()
	issuer = startIssuer(t)
	e = &example{name: "supplier", dir: folder(t, "supplier")}
	edit(t, filepath.Join(e.dir, "handoff.yaml"), "http://127.0.0.1:9000", issuer)
	e.serve(t, "handoff.yaml")
	return e, issuer
}

// partner is a client with a token.
func (e *example) partner(t *testing.T, binding, token string) *client.Client {
	t.Helper()
	opts := client.Options{Transports: []string{binding}}
	if token != "" {
		opts.Credentials = client.Bearer(token)
	}
	c, err := client.Dial(t.Context(), e.address(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The card is that of the seed, with the node's own addresses and, beside it, the
// extensions that a node declares for all of its agents.
func TestSupplierCard(t *testing.T) {
	t.Parallel()
	e, issuer := startSupplier(t)
	response, err := http.Get(e.base + a2a.WellKnownCardPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got, want map[string]any
	if err := json.UnmarshalRead(response.Body, &got); err != nil {
		t.Fatal(err)
	}
	capabilities, _ := got["capabilities"].(map[string]any)
	extensions, _ := capabilities["extensions"].([]any)
	for _, e := range extensions {
		if uri, _ := e.(map[string]any)["uri"].(string); !strings.HasPrefix(uri, "https://handoff.example/extensions/") {
			t.Errorf("extension: %v", e)
		}
	}
	delete(capabilities, "extensions")
	if err := json.Unmarshal([]byte(`{
  "name": "Supplier Quote Agent",
  "description": "Quotes price and lead time for bulk orders",
  "version": "2.0.0",
  "supportedInterfaces": [
    {"url": "`+e.base+`/a2a/v1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    {"url": "`+e.address()+`v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
  ],
  "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
  "securitySchemes": {"partnerOAuth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {
    "tokenUrl": "`+issuer+`/token", "scopes": {"quotes": "Ask for quotes"}}}}}},
  "securityRequirements": [{"schemes": {"partnerOAuth": {"list": ["quotes"]}}}],
  "defaultInputModes": ["text/plain", "application/json"],
  "defaultOutputModes": ["application/json"],
  "skills": [{"id": "bulk-quote", "name": "Bulk order quote",
              "description": "Negotiates a quote for 100+ units",
              "tags": ["quote", "procurement"]}]
}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
}

// Who may ask for what, by the scopes of the token.
func TestSupplier(t *testing.T) {
	t.Parallel()
	e, issuer := startSupplier(t)
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		for _, tt := range []struct {
			scope  string // "-" for no token
			code   a2a.Code
			skills string
		}{
			{"-", a2a.CodeUnauthenticated, ""},
			{"contracts", a2a.CodePermissionDenied, ""},
			{"quotes", 0, "bulk-quote"},
			{"quotes contracts", 0, "bulk-quote contract-terms"},
		} {
			t.Run(binding+" "+tt.scope, func(t *testing.T) {
				bearer := ""
				if tt.scope != "-" {
					bearer = token(t, issuer, tt.scope)
				}
				c := e.partner(t, binding, bearer)
				terms := client.NewMessage(a2a.Text("What is agreed?"))
				terms.Metadata = a2a.JSON(`{"skillId":"contract-terms"}`)
				answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("A quote for 400 units of BRG-0042, please."))})
				card, cardErr := c.GetExtendedAgentCard(t.Context())
				if tt.skills == "" {
					if !errors.Is(err, &a2a.Error{Code: tt.code}) || !errors.Is(cardErr, &a2a.Error{Code: tt.code}) {
						t.Errorf("%v, %v, want %s", err, cardErr, tt.code)
					}
					return
				}
				if err != nil || cardErr != nil {
					t.Fatal(err, cardErr)
				}
				if data := string(answer.Task.Artifacts[0].Parts[0].Data); !strings.Contains(data, `"sku":"BRG-0042"`) {
					t.Errorf("quote: %s", data)
				}
				var skills []string
				for _, s := range card.Skills {
					skills = append(skills, s.ID)
				}
				if got := strings.Join(skills, " "); got != tt.skills {
					t.Errorf("skills: %s", got)
				}
				_, err = c.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: terms})
				if allowed := strings.Contains(tt.scope, "contracts"); allowed != (err == nil) || !allowed && !errors.Is(err, &a2a.Error{Code: a2a.CodePermissionDenied}) {
					t.Errorf("terms: %v", err)
				}
			})
		}
	}
}
