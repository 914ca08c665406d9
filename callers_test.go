package handoff_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// issuer is an OpenID Connect provider of the test's own.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Use: "sig", Algorithm: "ES256"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is one for a subject with scopes and a tenant.
func (i *issuer) token(t *testing.T, subject, scope, tenant string) string {
	t.Helper()
	return i.sign(t, map[string]any{
		"iss": i.URL, "aud": "agents", "sub": subject, "scope": scope, "org": tenant, "exp": time.Now().Add(time.Hour).Unix(),
	})
}

// sign makes a token of claims.
func (i *issuer) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const adminPassword = "an admin's password"

// guarded is a node whose callers have to authenticate.
type guarded struct {
	node   *handoff.Node
	url    string
	issuer *issuer
	log    *lockedBuffer
	turns  chan []string // the skills of each turn
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{issuer: newIssuer(t), log: &lockedBuffer{}, turns: make(chan []string, 100)}
	hash, err := bcrypt.GenerateFromPassword([]byte(adminPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), `
store: sqlite:tasks.db
public_url: https://agents.example
callers:
  anonymous: everywhere
  keys: true
  oidc: [{issuer: "`+g.issuer.URL+`", audience: agents}]
  basic: [{user: root, password_hash: "`+string(hash)+`", role: admin}]
`)
	g.node, err = handoff.New(c, handoff.Options{Logger: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	run := func(_ context.Context, turn *agent.Turn) error {
		var ids []string
		for _, s := range turn.Skills {
			ids = append(ids, s.ID)
		}
		g.turns <- ids
		return turn.Artifact(a2a.Text("for " + turn.Caller.Subject))
	}
	supplier := handoff.NewCard("Supplier", "Quotes.", "1.0.0",
		handoff.Skill{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}},
		handoff.Skill{ID: "order", Name: "Order", Description: "Orders.", Tags: []string{"x"}, Scopes: []string{"orders"}})
	supplier.Callers.Scopes = []string{"quotes"}
	if err := g.node.Handle("supplier", supplier, run); err != nil {
		t.Fatal(err)
	}
	open := handoff.NewCard("Open", "Answers.", "1.0.0", handoff.Skill{ID: "a", Name: "A", Description: "A.", Tags: []string{"x"}})
	if err := g.node.Handle("open", open, run); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(g.node)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	g.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := g.node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// key makes an API key.
func (g *guarded) key(t *testing.T, body string) (key, id string) {
	t.Helper()
	status, _, answer := g.post(t, "/api/v1/keys", body, "Authorization", basicOf("root", adminPassword))
	var made struct{ Key, ID string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	return made.Key, made.ID
}

func basicOf(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func (g *guarded) post(t *testing.T, path, body string, headers ...string) (status int, header http.Header, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(data)
}

func messageOf(skill string) string {
	metadata := ""
	if skill != "" {
		metadata = `,"metadata":{"skillId":"` + skill + `"}`
	}
	return `{"message":{"messageId":"` + rand.Text() + `","role":"ROLE_USER","parts":[{"text":"hello"}]` + metadata + `}}`
}

// send sends a message over a binding.
func (g *guarded) send(t *testing.T, binding, agentID, skill string, headers ...string) (status int, header http.Header, answer string) {
	t.Helper()
	switch binding {
	case "rest":
		return g.post(t, "/agents/"+agentID+"/v1/message:send", messageOf(skill), headers...)
	case "connect":
		body := strings.Replace(messageOf(skill), "{", `{"tenant":"`+agentID+`",`, 1)
		return g.post(t, "/lf.a2a.v1.A2AService/SendMessage", body, headers...)
	}
	return g.post(t, "/agents/"+agentID+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+messageOf(skill)+`}`, headers...)
}

// Every refusal has the status, the headers and the body of its binding.
func TestRefusedCallers(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	key, _ := g.key(t, `{"subject":"erp","scopes":["quotes"]}`)
	viewer, _ := g.key(t, `{"subject":"erp","role":"viewer","scopes":["quotes","orders"]}`)
	const (
		resource = `resource_metadata="https://agents.example/.well-known/oauth-protected-resource"`
		inBasic  = `Basic realm="handoff", charset="UTF-8"`
	)
	bearer := func(parts string) string { return `Bearer realm="handoff", ` + parts + resource }
	invalid := func(message string) []string {
		return []string{bearer(`error="invalid_token", error_description="` + message + `", `), inBasic}
	}
	for name, tt := range map[string]struct {
		agent, skill string
		headers      []string
		code         int // of HTTP
		message      string
		challenges   []string
		metadata     string
	}{
		"nobody": {"supplier", "", nil, 401, "Authentication is required for this agent", []string{bearer(""), inBasic}, ""},
		"a wrong key where anybody may call": {
			"open", "", []string{"X-API-Key", key[:len(key)-1] + "!"}, 401, "The API key is not one of this node's", invalid("The API key is not one of this node's"), "",
		},
		"an opaque token": {
			"open", "",
			[]string{"Authorization", "Bearer valid-token"},
			401, "The bearer token is neither an API key nor a JSON Web Token",
			invalid("The bearer token is neither an API key nor a JSON Web Token"), "",
		},
		"default credentials": {"open", "", []string{"Authorization", basicOf("admin", "password")}, 401, "The name or the password is wrong", []string{bearer(""), inBasic}, ""},
		"an unsigned token": {
			"open", "",
			[]string{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."},
			401, "The token is malformed, or its algorithm is not allowed",
			invalid("The token is malformed, or its algorithm is not allowed"), "",
		},
		"a token without the scope": {
			"supplier", "",
			[]string{"Authorization", "Bearer " + g.issuer.token(t, "alice", "other", "")},
			403, "The credential lacks the scope quotes for this agent",
			[]string{`Bearer realm="handoff", error="insufficient_scope", error_description="The credential lacks the scope quotes for this agent", scope="quotes", ` + resource},
			"quotes",
		},
		"a key without the skill's scope": {
			"supplier", "order",
			[]string{"Authorization", "Bearer " + key},
			403, "The credential lacks the scope orders for the skill order",
			[]string{`Bearer realm="handoff", error="insufficient_scope", error_description="The credential lacks the scope orders for the skill order", scope="orders", ` + resource},
			"orders",
		},
		"a viewer": {"supplier", "", []string{"X-API-Key", viewer}, 403, "The role viewer may not call SendMessage", nil, ""},
	} {
		for _, binding := range []string{"rpc", "rest", "connect"} {
			status, header, body := g.send(t, binding, tt.agent, tt.skill, tt.headers...)
			if status != tt.code {
				t.Errorf("%s, %s: status %d: %s", name, binding, status, body)
				continue
			}
			if diff := cmp.Diff(tt.challenges, header.Values("WWW-Authenticate")); diff != "" {
				t.Errorf("%s, %s: %s", name, binding, diff)
			}
			reason, number, word := "UNAUTHENTICATED", -31401, "unauthenticated"
			if tt.code == 403 {
				reason, number, word = "PERMISSION_DENIED", -31403, "permission_denied"
			}
			metadata := ""
			if tt.metadata != "" {
				metadata = `,"metadata":{"scope":"` + tt.metadata + `"}`
			}
			info := `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"a2a-protocol.org"` + metadata + `}`
			quoted, _ := json.Marshal(tt.message)
			var want string
			switch binding {
			case "rest":
				want = fmt.Sprintf(`{"error":{"code":%d,"status":%q,"message":%s,"details":[%s]}}`, tt.code, reason, quoted, info)
			case "rpc":
				id := "1"
				if tt.code == 401 && name != "nobody" {
					id = "null" // who is refused before the request is read has told no id
				}
				want = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":[%s]}}`, id, number, quoted, info)
			case "connect":
				if !strings.HasPrefix(body, `{"code":"`+word+`","message":`+string(quoted)) {
					t.Errorf("%s, %s: %s", name, binding, body)
				}
				continue
			}
			if body != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, binding, body, want)
			}
		}
	}
	for _, secret := range []string{key, viewer, adminPassword, "valid-token", basicOf("root", adminPassword)[6:], "eyJhbGciOi"} {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log has a secret: %.12s…", secret)
		}
	}
}

// The log says why somebody was refused, and holds no credential that was sent in
// the wrong place.
func TestTheLogSaysWhyAndHoldsNoCredential(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	key, id := g.key(t, `{"subject":"erp","scopes":["quotes"]}`)
	revoked, revokedID := g.key(t, `{"subject":"erp"}`)
	token := g.issuer.token(t, "alice", "quotes", "")
	request := func(method, path string, headers ...string) *http.Response {
		body := ""
		if method == http.MethodPost {
			body = messageOf("")
		}
		r, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("A2A-Version", "1.0")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response
	}
	if r := request(http.MethodDelete, "/api/v1/keys/"+revokedID, "Authorization", basicOf("root", adminPassword)); r.StatusCode != 204 {
		t.Fatal(r.Status)
	}
	for _, secret := range []string{key, token} {
		request(http.MethodGet, "/agents/open/v1/tasks/"+secret)
		request(http.MethodGet, "/nothing/"+secret)
		request(http.MethodGet, "/"+strings.Repeat("x", 170)+"/"+secret) // is cut in the middle
		request(http.MethodGet, "/agents/open/v1/tasks?contextId="+secret)
		request(http.MethodGet, "/agents/open/"+secret+"/tasks")
		request(http.MethodDelete, "/api/v1/keys/"+secret, "Authorization", basicOf("root", adminPassword))
	}
	if r := request(http.MethodPost, "/agents/open/v1/message:send", "X-Request-Id", key); r.Header.Get("X-Request-Id") == key {
		t.Error("a key is the id of a request")
	}
	request(http.MethodPost, "/agents/open/v1/message:send", "X-API-Key", revoked)
	request(http.MethodPost, "/agents/open/v1/message:send", "X-API-Key", strings.Replace(key, id, "x", 1))
	request(http.MethodGet, "/api/v1/tasks", "Authorization", basicOf("root", "guessed password"))
	audited := request(http.MethodGet, "/api/v1/audit", "Authorization", basicOf("root", adminPassword))
	if audited.StatusCode != 200 {
		t.Fatal(audited.Status)
	}
	log := g.log.String()
	for _, secret := range []string{key[20:], key[16:30], revoked[20:], token[strings.IndexByte(token, '.'):], "guessed password", basicOf("root", "guessed password")[6:]} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has a part of a credential: %.20s…", secret)
		}
	}
	for _, want := range []string{
		`reason="the API key ` + revokedID + ` is revoked"`, `reason="The API key is not one of this node's"`, `reason="The name or the password is wrong"`,
		"path=/nothing/hk_" + id + "_***", "task=eyJ***",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(log)
	}
}

// Who may call gets through on every binding, is who the credential was made
// for, and learns of the skills that it may use.
func TestAcceptedCallers(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	key, id := g.key(t, `{"subject":"erp","scopes":["quotes"]}`)
	second, _ := g.key(t, `{"subject":"erp","scopes":["quotes","orders"]}`)
	for name, tt := range map[string]struct {
		headers []string
		subject string
		skills  []string
	}{
		"key":         {[]string{"Authorization", "Bearer " + key}, "erp", []string{"quote"}},
		"X-API-Key":   {[]string{"X-API-Key", second}, "erp", []string{"quote", "order"}},
		"token":       {[]string{"Authorization", "Bearer " + g.issuer.token(t, "alice", "quotes", "")}, "alice", []string{"quote"}},
		"more scopes": {[]string{"Authorization", "Bearer " + g.issuer.token(t, "alice", "orders quotes", "")}, "alice", []string{"quote", "order"}},
	} {
		for _, binding := range []string{"rpc", "rest", "connect"} {
			status, _, body := g.send(t, binding, "supplier", "", tt.headers...)
			if status != 200 || !strings.Contains(body, "for "+tt.subject) {
				t.Errorf("%s, %s: %d %s", name, binding, status, body)
				continue
			}
			if diff := cmp.Diff(tt.skills, <-g.turns); diff != "" {
				t.Errorf("%s, %s: %s", name, binding, diff)
			}
		}
	}
	// Tasks are the caller's and not the key's.
	_, _, body := g.send(t, "rest", "supplier", "", "X-API-Key", key)
	var sent struct{ Task struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &sent); err != nil {
		t.Fatal(err)
	}
	get := func(headers ...string) (int, string) {
		status, _, body := g.post(t, "/agents/supplier/rpc", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"`+sent.Task.ID+`"}}`, headers...)
		return status, body
	}
	if status, body := get("X-API-Key", second); status != 200 || !strings.Contains(body, `"result"`) {
		t.Errorf("another key of the same caller: %d %s", status, body)
	}
	if _, body := get("Authorization", "Bearer "+g.issuer.token(t, "alice", "quotes", "")); !strings.Contains(body, "-32001") {
		t.Errorf("another caller: %s", body)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, g.url+"/api/v1/keys/"+id, nil)
	r.Header.Set("Authorization", basicOf("root", adminPassword))
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", response, err)
	}
	_ = response.Body.Close()
	if status, body := get("X-API-Key", key); status != 401 {
		t.Errorf("a revoked key: %d %s", status, body)
	}
}

func TestProtectedResource(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	response, err := http.Get(g.url + "/.well-known/oauth-protected-resource")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	want := `{"resource":"https://agents.example","authorization_servers":["` + g.issuer.URL + `"],"scopes_supported":["orders","quotes"],"bearer_methods_supported":["header"],"resource_name":"Handoff"}`
	if response.StatusCode != 200 || string(body) != want {
		t.Errorf("%d %s\nwant %s", response.StatusCode, body, want)
	}
}

// The tenant of a caller is that of its key or its claim, and no address can make
// it another one: agents of other tenants are unknown.
func TestTenantsOfCallers(t *testing.T) {
	t.Parallel()
	is := newIssuer(t)
	hash, err := bcrypt.GenerateFromPassword([]byte(adminPassword), 10)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(configuration, "    version: 1.0.0\n", "    version: 1.0.0\n    tenants: [acme, globex]\n", 1) + `
callers:
  anonymous: off
  keys: true
  oidc: [{issuer: "` + is.URL + `", audience: agents, tenant_claim: org}]
  basic: [{user: root, password_hash: "` + string(hash) + `", role: admin}]
`
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text), handoff.Options{})
	g := &guarded{url: server.URL, issuer: is}
	key, _ := g.key(t, `{"subject":"erp","tenant":"acme"}`)
	none, _ := g.key(t, `{"subject":"erp"}`)
	foreign, _ := g.key(t, `{"subject":"erp","tenant":"initech"}`)
	for name, tt := range map[string]struct {
		tenant, credential string
		ok                 bool
	}{
		"key, its tenant":         {"acme", key, true},
		"key, no tenant named":    {"", key, true},
		"key, another tenant":     {"globex", key, false},
		"key, an unknown tenant":  {"nobody", key, false},
		"a key without a tenant":  {"acme", none, false},
		"a tenant it serves not":  {"", foreign, false},
		"token, its tenant":       {"globex", is.token(t, "erp", "", "globex"), true},
		"token, another tenant":   {"acme", is.token(t, "erp", "", "globex"), false},
		"token, tenant in params": {"acme", is.token(t, "erp", "", "acme"), true},
	} {
		path := "/agents/echo/rpc"
		if tt.tenant != "" {
			path += "/" + tt.tenant
		}
		rest := strings.Replace(strings.Replace(path, "rpc", "v1", 1)+"/message:send", "//", "/", 1)
		params := messageOf("")
		if tt.tenant != "" {
			params = strings.Replace(params, "{", `{"tenant":"`+tt.tenant+`",`, 1)
		}
		for where, answer := range map[string]func() (int, http.Header, string){
			"path": func() (int, http.Header, string) {
				return g.post(t, path, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+messageOf("")+`}`, "Authorization", "Bearer "+tt.credential)
			},
			"params": func() (int, http.Header, string) {
				return g.post(t, "/agents/echo/rpc", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+params+`}`, "Authorization", "Bearer "+tt.credential)
			},
			"rest": func() (int, http.Header, string) {
				return g.post(t, rest, messageOf(""), "Authorization", "Bearer "+tt.credential)
			},
		} {
			_, _, body := answer()
			if ok := strings.Contains(body, `"task"`); ok != tt.ok {
				t.Errorf("%s, %s: %s", name, where, body)
			}
			if !tt.ok && tt.tenant != "nobody" && !strings.Contains(body, "There is no such agent") && where != "rest" {
				t.Errorf("%s, %s: %s", name, where, body)
			}
		}
	}
}

// certify makes a CA and, signed by it, a certificate for 127.0.0.1 and one for a
// client, all PEM.
func certify(t *testing.T, dir string) (ca *x509.CertPool, client tls.Certificate) {
	t.Helper()
	write := func(name string, kind string, data []byte) []byte {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, root.Public(), root)
	if err != nil {
		t.Fatal(err)
	}
	ca = x509.NewCertPool()
	ca.AppendCertsFromPEM(write("ca.pem", "CERTIFICATE", der))
	for i, name := range []string{"server", "erp.partner"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, authority, key.Public(), root)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if client, err = tls.X509KeyPair(write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", raw)); err != nil {
			t.Fatal(err)
		}
	}
	return ca, client
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, client := certify(t, dir)
	c := load(t, filepath.Join(dir, "handoff.yaml"), `
store: sqlite:tasks.db
socket: `+filepath.Join(shortDir(t), "s.sock")+`
tls: {cert: server.pem, key: server.key, client_ca: ca.pem, client_auth: optional, hsts: 30d}
callers: {anonymous: off, mtls: {rules: [{match: "erp.*", role: caller, scopes: [quotes]}]}}
`)
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	card := handoff.NewCard("Supplier", "Quotes.", "1.0.0", handoff.Skill{ID: "quote", Name: "Quote", Description: "Quotes.", Tags: []string{"x"}})
	card.Callers.Scopes = []string{"quotes"}
	if err := node.Handle("supplier", card, func(_ context.Context, turn *agent.Turn) error { return turn.Ask("for "+turn.Caller.Subject+"?", nil) }); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, http2 := range []bool{false, true} {
		for _, known := range []bool{false, true} {
			options := &tls.Config{RootCAs: ca}
			if known {
				options.Certificates = []tls.Certificate{client}
			}
			transport := &http.Transport{TLSClientConfig: options, ForceAttemptHTTP2: http2}
			defer transport.CloseIdleConnections()
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+listener.Addr().String()+"/agents/supplier/v1/message:stream", strings.NewReader(messageOf("")))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("A2A-Version", "1.0")
			response, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || (response.ProtoMajor == 2) != http2 || response.Header.Get("Strict-Transport-Security") != "max-age=2592000" {
				t.Errorf("%s, %v, %v", response.Proto, response.Header, err)
			}
			if known && (response.StatusCode != 200 || !strings.Contains(string(body), "for erp.partner?")) {
				t.Errorf("with a certificate: %d %s", response.StatusCode, body)
			}
			if !known && response.StatusCode != 401 {
				t.Errorf("without a certificate: %d %s", response.StatusCode, body)
			}
		}
	}
	if url := node.URL(); !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Error(url)
	}
	response, err := http.Get("http://" + listener.Addr().String() + "/healthz")
	if err == nil {
		if _ = response.Body.Close(); response.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered with %d", response.StatusCode)
		}
	}
}

// shortDir is a directory whose name is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A configuration that cannot tell its callers starts nothing.
func TestCallersThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ callers, want string }{
		"a password in clear": {`{basic: [{user: a, password_hash: "secret in clear"}]}`, "callers.basic[0].password_hash: is not a bcrypt hash"},
		"TLS without files":   {`{keys: true}` + "\ntls: {cert: none.pem, key: none.key}", "tls: cannot be used: "},
		"a program's own":     {`{keys: true}`, "the program has an Authenticator"},
	} {
		c := load(t, filepath.Join(t.TempDir(), "handoff.yaml"), configuration+"callers: "+tt.callers+"\n")
		var opts handoff.Options
		opts.Logger = slog.New(slog.DiscardHandler)
		if name == "a program's own" {
			opts.Authenticator = tokens{}
		}
		if _, err := handoff.New(c, opts); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "in clear") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An official client of gRPC is told what the others are: the status, the
// reason, and the challenge.
func TestRefusedCallersOfGRPC(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(g.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	key, _ := g.key(t, `{"subject":"erp","scopes":["quotes"]}`)
	for name, tt := range map[string]struct {
		credential string
		code       codes.Code
		metadata   map[string]string
		challenge  string
	}{
		"nobody":       {"", codes.Unauthenticated, nil, `Bearer realm="handoff", resource_metadata=`},
		"a wrong key":  {"Bearer hk_x", codes.Unauthenticated, nil, `error="invalid_token"`},
		"a scope less": {"Bearer " + g.issuer.token(t, "alice", "", ""), codes.PermissionDenied, map[string]string{"scope": "quotes"}, `error="insufficient_scope"`},
		"a key":        {"Bearer " + key, codes.OK, nil, ""},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0")
		if tt.credential != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", tt.credential)
		}
		for method, call := range map[string]func(header *metadata.MD) error{
			"SendMessage": func(header *metadata.MD) error {
				_, err := pb.NewA2AServiceClient(conn).SendMessage(ctx, &pb.SendMessageRequest{Tenant: "supplier", Message: &pb.Message{
					MessageId: rand.Text(), Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: "hello"}}},
				}}, grpc.Header(header))
				return err
			},
			"ListTasks": func(header *metadata.MD) error {
				_, err := pb.NewA2AServiceClient(conn).ListTasks(ctx, &pb.ListTasksRequest{Tenant: "supplier"}, grpc.Header(header))
				return err
			},
		} {
			var header metadata.MD
			err := call(&header)
			s, _ := status.FromError(err)
			if s.Code() != tt.code {
				t.Errorf("%s, %s: %v", name, method, err)
				continue
			}
			if tt.code == codes.OK {
				continue
			}
			var info *errdetails.ErrorInfo
			for _, d := range s.Details() {
				if i, ok := d.(*errdetails.ErrorInfo); ok {
					info = i
				}
			}
			if info == nil || !cmp.Equal(info.Metadata, tt.metadata, cmpopts.EquateEmpty()) {
				t.Errorf("%s, %s: details %v", name, method, s.Details())
			}
			if got := strings.Join(header.Get("www-authenticate"), "; "); !strings.Contains(got, tt.challenge) {
				t.Errorf("%s, %s: www-authenticate %q", name, method, got)
			}
		}
	}
}
