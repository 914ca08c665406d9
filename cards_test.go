package handoff_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/card"
)

const supplier = `
store: "sqlite::memory:"
public_url: http://127.0.0.1:1
%s
callers:
  anonymous: loopback
  basic:
    - {user: alice, password_hash: "%[2]s", scopes: [quotes, contracts]}
    - {user: bob, password_hash: "%[2]s", scopes: [quotes]}
    - {user: carol, password_hash: "%[2]s"}
    - {user: dave, password_hash: "%[2]s", tenant: acme, scopes: [quotes]}
agents:
  supplier:
    name: Supplier
    description: Quotes prices, in €.
    version: 2.0.0
    tenants: [acme]
    skills: [{id: quote, name: Quote, description: Quotes., tags: [quote], scopes: [quotes]}]
    extended:
      description: Quotes prices, and knows your contract.
      skills:
        - {id: contract, name: Contract, description: Says what is agreed., tags: [contract], scopes: [contracts], examples: [What is agreed?]}
    run: {script: [{do: [{complete: done}]}]}
  partner:
    name: Partner
    description: Is open to everybody.
    version: 1.0.0
    versions: ["1.0", "0.3"]
    skills: [{id: open, name: Open, description: Is open., tags: [open]}]
    extended:
      skills: [{id: closed, name: Closed, description: Is not., tags: [closed]}]
    run: {script: [{do: [{complete: done}]}]}
  plain:
    name: Plain
    description: Has one card.
    version: 1.0.0
    skills: [{id: plain, name: Plain, description: Is plain., tags: [plain]}]
    run: {script: [{do: [{complete: done}]}]}
`

// newKey writes a signing key and returns its file and its id.
func newKey(t *testing.T, dir, alg string) (file, id string) {
	t.Helper()
	key, err := card.GenerateSigningKey(alg)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, key.ID()[:8]+".pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, key.ID()
}

// suppliers is a node of the configuration, on a real listener.
type suppliers struct {
	t    *testing.T
	node *handoff.Node
	file string
	base string
	hash string
	http *http.Client
}

func newSuppliers(t *testing.T, signing string) *suppliers {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), 10)
	if err != nil {
		t.Fatal(err)
	}
	s := &suppliers{t: t, file: filepath.Join(t.TempDir(), "handoff.yaml"), hash: string(hash), http: &http.Client{Transport: &http.Transport{}}}
	s.node, err = handoff.New(load(t, s.file, fmt.Sprintf(supplier, signing, s.hash)), handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.node.Serve(ctx, listener) }()
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

// reply is an HTTP answer with its body.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (s *suppliers) ask(method, path, user, body string, header ...string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if user != "" {
		r.SetBasicAuth(user, "secret")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.http.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, text}
}

// keys are those of the node's JWKS.
func (s *suppliers) keys() *card.TrustStore {
	s.t.Helper()
	got := s.ask("GET", "/.well-known/jwks.json", "", "")
	keys, err := card.ParseJWKS(got.body)
	if got.status != 200 || err != nil {
		s.t.Fatalf("JWKS: %d %s %v", got.status, got.body, err)
	}
	store := &card.TrustStore{}
	store.Add(keys...)
	return store
}

// extended gets the extended card of an agent over a binding, as JSON, or the
// error.
func (s *suppliers) extended(binding, agent, user string) ([]byte, string) {
	s.t.Helper()
	switch binding {
	case a2a.BindingJSONRPC:
		got := s.ask("POST", "/agents/"+agent+"/rpc", user, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":{}}`)
		if got.header.Get("Cache-Control") != "no-store" {
			s.t.Errorf("Cache-Control: %s", got.header.Get("Cache-Control"))
		}
		var answer struct {
			Result a2a.JSON `json:"result"`
		}
		if err := json.Unmarshal(got.body, &answer); err != nil {
			s.t.Fatalf("%s: %v", got.body, err)
		}
		return answer.Result, s.code(got.body, answer.Result != nil)
	case a2a.BindingREST:
		got := s.ask("GET", "/agents/"+agent+"/v1/extendedAgentCard", user, "")
		code := s.code(got.body, got.status == http.StatusOK)
		if challenge := got.header.Get("WWW-Authenticate"); (code == a2a.CodeUnauthenticated.String()) != (challenge != "") {
			s.t.Errorf("%s: WWW-Authenticate: %q", code, challenge)
		}
		return got.body, code
	}
	return s.extendedOverGRPC(agent, user)
}

// codeNone is the code of what is no error.
const codeNone = ""

var reason = regexp.MustCompile(`"reason":"([A-Z_]+)"`)

// code is the code of an error, codeNone for none.
func (s *suppliers) code(body []byte, fine bool) string {
	s.t.Helper()
	if fine {
		return codeNone
	}
	if match := reason.FindSubmatch(body); match != nil {
		if code, ok := a2a.CodeOfReason(string(match[1])); ok {
			return code.String()
		}
	}
	s.t.Fatalf("no error: %s", body)
	return codeNone
}

func (s *suppliers) extendedOverGRPC(agent, user string) ([]byte, string) {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(s.base, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	md := metadata.Pairs("a2a-version", "1.0")
	if user != "" {
		md.Set("authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":secret")))
	}
	answer, err := pb.NewA2AServiceClient(conn).GetExtendedAgentCard(metadata.NewOutgoingContext(s.t.Context(), md), &pb.GetExtendedAgentCardRequest{Tenant: agent})
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			code, _ := a2a.CodeOfReason(info.Reason)
			return nil, code.String()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := protojson.Marshal(answer)
	if err != nil {
		s.t.Fatal(err)
	}
	return text, codeNone
}

// The extended card is for callers with a credential, shows each what it may
// use, and is signed like the public one, over every binding.
func TestRow117_ExtendedCard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, id := newKey(t, dir, "ES256")
	s := newSuppliers(t, "signing: {keys: [{file: "+file+"}]}")
	verifier := &card.Verifier{Policy: card.PolicyRequire, Trusted: s.keys()}
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC} {
		for _, tt := range []struct {
			agent, user string
			code        string
			skills      []string
		}{
			{"supplier", "alice", codeNone, []string{"quote", "contract"}},
			{"supplier", "bob", codeNone, []string{"quote"}},
			{"supplier", "carol", a2a.CodePermissionDenied.String(), nil},
			{"supplier", "", a2a.CodeUnauthenticated.String(), nil},
			{"partner", "carol", codeNone, []string{"open", "closed"}},
			{"partner", "", a2a.CodeUnauthenticated.String(), nil},
			{"plain", "alice", a2a.CodeUnsupportedOperation.String(), nil},
			{"plain", "", a2a.CodeUnsupportedOperation.String(), nil},
		} {
			t.Run(binding+" "+tt.agent+" "+tt.user, func(t *testing.T) {
				text, code := s.extended(binding, tt.agent, tt.user)
				if code != tt.code {
					t.Fatalf("%s, want %s: %s", code, tt.code, text)
				}
				if code != codeNone {
					return
				}
				got, err := verifier.Verify(t.Context(), text)
				if err != nil || got.Outcome != card.OutcomeVerified || got.KeyID != id {
					t.Errorf("%+v %v", got, err)
				}
				var shown a2a.AgentCard
				if err := a2a.Unmarshal(text, &shown); err != nil {
					t.Fatal(err)
				}
				var skills []string
				for _, skill := range shown.Skills {
					skills = append(skills, skill.ID)
				}
				if diff := cmp.Diff(tt.skills, skills); diff != "" {
					t.Error(diff)
				}
				if tt.agent == "supplier" && shown.Description != "Quotes prices, and knows your contract." {
					t.Errorf("description: %s", shown.Description)
				}
			})
		}
	}
}

// Clients of 0.3 get the extended card in the form that they know, signed.
func TestExtendedCardOf03(t *testing.T) {
	t.Parallel()
	file, id := newKey(t, t.TempDir(), "ES256")
	s := newSuppliers(t, "signing: {keys: [{file: "+file+"}]}")
	verifier := &card.Verifier{Policy: card.PolicyRequire, Trusted: s.keys()}
	rpc := s.ask("POST", "/agents/partner/rpc", "carol", `{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}`, "A2A-Version", "0.3")
	var answer struct {
		Result a2a.JSON `json:"result"`
	}
	if err := json.Unmarshal(rpc.body, &answer); err != nil || answer.Result == nil {
		t.Fatalf("%s: %v", rpc.body, err)
	}
	rest := s.ask("GET", "/agents/partner/v1/card", "carol", "", "A2A-Version", "0.3")
	if !strings.HasPrefix(rest.header.Get("Cache-Control"), "private") {
		t.Errorf("%v", rest.header)
	}
	for _, text := range [][]byte{answer.Result, rest.body, s.ask("GET", "/agents/partner/.well-known/agent.json", "", "").body} {
		got, err := verifier.Verify(t.Context(), text)
		if err != nil || got.KeyID != id || !bytes.Contains(text, []byte(`"supportsAuthenticatedExtendedCard":true`)) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	if bytes.Contains(rest.body, []byte("closed")) != bytes.Contains(answer.Result, []byte("closed")) || !bytes.Contains(rest.body, []byte("closed")) {
		t.Errorf("%s", rest.body)
	}
	if got := s.ask("GET", "/agents/partner/v1/card", "", "", "A2A-Version", "0.3"); got.status != http.StatusUnauthorized {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Who caches an extended card keeps it for one caller.
func TestExtendedCardIsPrivate(t *testing.T) {
	t.Parallel()
	file, _ := newKey(t, t.TempDir(), "EdDSA")
	s := newSuppliers(t, "signing: {keys: [{file: "+file+"}]}")
	const path = "/agents/supplier/v1/extendedAgentCard"
	alice, bob := s.ask("GET", path, "alice", ""), s.ask("GET", path, "bob", "")
	for _, got := range []reply{alice, bob} {
		if !strings.HasPrefix(got.header.Get("Cache-Control"), "private") || !strings.Contains(strings.Join(got.header["Vary"], ","), "Authorization") {
			t.Errorf("%v", got.header)
		}
	}
	tag := alice.header.Get("ETag")
	if tag == "" || tag == bob.header.Get("ETag") {
		t.Errorf("ETag: %s", tag)
	}
	if got := s.ask("GET", path, "alice", "", "If-None-Match", tag); got.status != http.StatusNotModified || len(got.body) > 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := s.ask("GET", path, "bob", "", "If-None-Match", tag); got.status != http.StatusOK {
		t.Errorf("%d", got.status)
	}
	if got := s.ask("GET", path, "", "", "If-None-Match", tag); got.status != http.StatusUnauthorized || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := s.ask("GET", "/agents/supplier/v1/acme/extendedAgentCard", "alice", ""); got.status == http.StatusOK {
		t.Errorf("a caller of no tenant has the card of one: %s", got.body)
	}
}

// The extended card of a tenant is for its own callers, and leads to the tenant.
func TestExtendedCardOfTenant(t *testing.T) {
	t.Parallel()
	s := newSuppliers(t, "")
	var shown a2a.AgentCard
	if got := s.ask("GET", "/agents/supplier/v1/acme/extendedAgentCard", "dave", ""); got.status != http.StatusOK || a2a.Unmarshal(got.body, &shown) != nil {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for _, i := range shown.SupportedInterfaces {
		if i.Tenant != "acme" && i.Tenant != "supplier/acme" {
			t.Errorf("%+v", i)
		}
	}
	rpc := s.ask("POST", "/agents/supplier/rpc", "dave", `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":{"tenant":"acme"}}`)
	if !bytes.Contains(rpc.body, []byte(`"tenant":"acme"`)) {
		t.Errorf("%s", rpc.body)
	}
	for _, user := range []string{"alice", ""} {
		if got := s.ask("GET", "/agents/supplier/v1/acme/extendedAgentCard", user, ""); got.status == http.StatusOK {
			t.Errorf("%q has the card of another tenant: %s", user, got.body)
		}
	}
}

// A skill that only the extended card has takes a credential, and the scopes of
// the skill.
func TestExtendedSkills(t *testing.T) {
	t.Parallel()
	s := newSuppliers(t, "")
	for _, tt := range []struct {
		agent, user, skill string
		code               string
	}{
		{"partner", "", "open", codeNone},
		{"partner", "", "closed", a2a.CodeUnauthenticated.String()},
		{"partner", "carol", "closed", codeNone},
		{"supplier", "alice", "contract", codeNone},
		{"supplier", "bob", "contract", a2a.CodePermissionDenied.String()},
		{"supplier", "alice", "other", a2a.CodeInvalidParams.String()},
	} {
		got := s.ask("POST", "/agents/"+tt.agent+"/v1/message:send", tt.user,
			`{"message":{"messageId":"m-`+tt.user+tt.skill+`","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"skillId":"`+tt.skill+`"}}}`)
		if code := s.code(got.body, got.status == http.StatusOK); code != tt.code {
			t.Errorf("%s %s %s: %s, want %s", tt.agent, tt.user, tt.skill, code, tt.code)
		}
	}
	public := s.ask("GET", "/agents/partner/.well-known/agent-card.json", "", "")
	if bytes.Contains(public.body, []byte("closed")) || !bytes.Contains(public.body, []byte(`"extendedAgentCard":true`)) || bytes.Contains(public.body, []byte("signatures")) {
		t.Errorf("public card: %s", public.body)
	}
	if got := s.ask("GET", "/.well-known/jwks.json", "", ""); got.status != http.StatusNotFound {
		t.Errorf("keys of a node without keys: %d %s", got.status, got.body)
	}
}

// All nodes with the same keys serve the same bytes, and a reload changes the
// keys: both sign while one replaces the other.
func TestSignedCards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, oldID := newKey(t, dir, "ES256")
	next, nextID := newKey(t, dir, "RS256")
	with := func(files ...string) string {
		return "signing: {keys: [{file: " + strings.Join(files, "}, {file: ") + "}]}"
	}
	s, twin := newSuppliers(t, with(old)), newSuppliers(t, with(old))
	const path = "/agents/supplier/.well-known/agent-card.json"
	first, same := s.ask("GET", path, "", ""), twin.ask("GET", path, "", "")
	if !bytes.Equal(first.body, same.body) || first.header.Get("ETag") != same.header.Get("ETag") {
		t.Errorf("two nodes serve different cards:\n%s\n%s", first.body, same.body)
	}
	verifies := func(text []byte, trusted *card.TrustStore, want string) {
		t.Helper()
		got, err := (&card.Verifier{Policy: card.PolicyRequire, Trusted: trusted}).Verify(t.Context(), text)
		if err != nil || got.KeyID != want {
			t.Errorf("%+v %v", got, err)
		}
	}
	before := s.keys()
	verifies(first.body, before, oldID)
	verifies(s.ask("GET", "/agents/supplier/t/acme/.well-known/agent-card.json", "", "").body, before, oldID)
	if got, want := jkuOf(t, first.body), "http://127.0.0.1:1/.well-known/jwks.json"; got != want {
		t.Errorf("jku: %q, want %q", got, want)
	}
	rewrite := func(signing string) {
		t.Helper()
		if err := os.WriteFile(s.file, []byte(fmt.Sprintf(supplier, signing, s.hash)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(with(old, next))
	if _, err := s.node.Reload(); err != nil {
		t.Fatal(err)
	}
	both := s.ask("GET", path, "", "")
	verifies(both.body, before, oldID)
	if both.header.Get("ETag") == first.header.Get("ETag") {
		t.Error("the ETag of another document is the same")
	}
	rewrite(with(next))
	if _, err := s.node.Reload(); err != nil {
		t.Fatal(err)
	}
	after := s.keys()
	verifies(s.ask("GET", path, "", "").body, after, nextID)
	verifies(both.body, after, nextID)
	jwks := s.ask("GET", "/.well-known/jwks.json", "", "")
	if tag := jwks.header.Get("ETag"); tag == "" || s.ask("GET", "/.well-known/jwks.json", "", "", "If-None-Match", tag).status != http.StatusNotModified {
		t.Errorf("%v", jwks.header)
	}
	rewrite(with(filepath.Join(dir, "absent.pem")))
	if _, err := s.node.Reload(); err == nil || !strings.Contains(err.Error(), "signing.keys[0]") {
		t.Errorf("a key that is not there: %v", err)
	}
	verifies(s.ask("GET", path, "", "").body, after, nextID)
}

// jkuOf is where the first signature of a card says that its key is.
func jkuOf(t *testing.T, text []byte) string {
	t.Helper()
	var signed a2a.AgentCard
	if err := a2a.Unmarshal(text, &signed); err != nil || len(signed.Signatures) == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	protected, err := base64.RawURLEncoding.DecodeString(signed.Signatures[0].Protected)
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		JKU string `json:"jku"`
	}
	if err := json.Unmarshal(protected, &header); err != nil {
		t.Fatal(err)
	}
	return header.JKU
}

// What keeps a card from being signed is named before the node serves anything.
func TestSigningIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := newKey(t, dir, "ES256")
	signing := func(rest string) string { return "signing: {keys: [{file: " + key + rest + "}]}\n" }
	const public = "public_url: https://agents.example.com\n"
	extension := func(params string) string {
		return strings.Replace(configuration, "    run:", "    extensions: [{uri: \"https://e.example\", params: "+params+"}]\n    run:", 1)
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no public URL":     {signing("") + configuration, "signing: needs public_url"},
		"another key":       {public + signing(", alg: EdDSA") + configuration, "signing.keys[0]: signing key " + key + ": the key is for ES256, not for EdDSA"},
		"no key there":      {public + "signing: {keys: [{file: absent.pem}]}\n" + configuration, "signing.keys[0]: read signing key: open "},
		"twice":             {public + "signing: {keys: [{file: " + key + "}, {file: " + key + "}]}\n" + configuration, "signing: two signing keys have the id"},
		"three":             {public + "signing: {keys: [{file: a}, {file: b}, {file: c}]}\n" + configuration, "signing.keys: has 3 keys"},
		"none":              {public + "signing: {keys: []}\n" + configuration, "signing.keys: is empty"},
		"keys over http":    {public + "signing: {keys: [{file: " + key + "}], jku: \"http://k.example/jwks\"}\n" + configuration, "signing.jku: is not https"},
		"an inexact number": {public + signing("") + extension("{n: 9007199254740993}"), "agents.echo.extensions[0].params.n: the card cannot be signed, since 9007199254740993 of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "handoff.yaml")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := handoff.LoadConfig(file)
			if err == nil {
				_, err = handoff.Check(c)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	c := load(t, filepath.Join(dir, "handoff.yaml"), public+signing("")+extension("{n: 1e21, empty: {}}"))
	if _, err := handoff.Check(c); err != nil {
		t.Error(err)
	}
}
