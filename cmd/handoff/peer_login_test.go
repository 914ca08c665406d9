package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	"handoff.example/handoff/a2a"
)

// TestLoginScripts runs nodes with a peer that people log in to, at an authorization
// server.
func TestLoginScripts(t *testing.T) {
	t.Parallel()
	commands := nodeCommands()
	commands["sso"], commands["browse"] = cmdSSO, cmdBrowse
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "login"),
		Setup: func(env *testscript.Env) error {
			settle(env)
			env.Values[serverKey{}] = &serving{}
			s := newSSO()
			env.Defer(s.bank.Close)
			env.Defer(s.server.Close)
			env.Setenv("SSO", s.server.URL)
			env.Setenv("BANK", s.bank.URL)
			env.Values[ssoKey{}] = s
			return nil
		},
		Cmds: commands,
	})
}

type ssoKey struct{}

// sso is an authorization server that says what it is (RFC 8414) and who it is (RFC
// 9207), and a bank's agent that takes its tokens.
type sso struct {
	server, bank *httptest.Server

	mu      sync.Mutex
	codes   map[string]url.Values // of logins
	refresh map[string]bool       // tokens that are good
	access  map[string]bool
	issuer  string // that responses name
	denies  bool   // the person does not agree
}

const (
	ssoPath = "/realms/bank" // of the issuer
	ssoID   = "node-7"
)

func newSSO() *sso {
	s := &sso{codes: map[string]url.Values{}, refresh: map[string]bool{}, access: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ssoPath+"/.well-known/openid-configuration", s.metadata)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	s.server = httptest.NewServer(mux)
	s.issuer = s.server.URL + ssoPath
	s.bank = httptest.NewServer(http.HandlerFunc(s.serveBank))
	return s
}

func (s *sso) metadata(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true}`,
		s.server.URL+ssoPath, s.server.URL+"/authorize", s.server.URL+"/token")
}

// authorize asks nobody, and sends the person back.
func (s *sso) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ssoID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("resource") != "https://bank.example" || q.Get("scope") != "pay" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {s.issuer}}
	if s.denies {
		answer.Set("error", "access_denied")
	} else {
		code := rand.Text()
		s.codes[code] = q
		answer.Set("code", code)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (s *sso) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	id, secret, _ := r.BasicAuth()
	good := id == ssoID && secret == "sso-secret" && r.PostFormValue("resource") == "https://bank.example"
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		begun := s.codes[r.PostFormValue("code")]
		delete(s.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		good = good && begun != nil && begun.Get("redirect_uri") == r.PostFormValue("redirect_uri") && begun.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
	case "refresh_token":
		old := r.PostFormValue("refresh_token")
		good = good && s.refresh[old]
		delete(s.refresh, old) // each works once
	default:
		good = false
	}
	if !good {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	access, refresh := "access-"+rand.Text(), "refresh-"+rand.Text()
	s.access[access], s.refresh[refresh] = true, true
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":600,"refresh_token":%q}`, access, refresh)
}

// serveBank is an agent that knows no task, and no caller without a token.
func (s *sso) serveBank(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == a2a.WellKnownCardPath {
		fmt.Fprintf(w, `{"name":"Bank","description":"Pays.","version":"1","supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"capabilities":{},
			"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"pay","name":"Pay","description":"Pays.","tags":["x"]}],
			"securitySchemes":{"sso":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"%s/.well-known/openid-configuration"}}},"securityRequirements":[{"schemes":{"sso":{"list":["pay"]}}}]}`,
			s.bank.URL, s.server.URL+ssoPath)
		return
	}
	if !s.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	var q struct {
		ID string `json:"id"`
	}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &q)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%q,"error":{"code":-32001,"message":"no such task"}}`, q.ID)
}

// cmdSSO changes the authorization server: its responses name another issuer
// (lies), people do not agree (denies), access tokens are revoked (revokes), or all
// is well again (agrees).
func cmdSSO(ts *testscript.TestScript, _ bool, args []string) {
	s := ts.Value(ssoKey{}).(*sso)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch args[0] {
	case "lies":
		s.issuer = "https://evil.example"
	case "denies":
		s.denies = true
	case "agrees":
		s.issuer, s.denies = s.server.URL+ssoPath, false
	case "revokes":
		clear(s.access)
	default:
		ts.Fatalf("sso cannot %s", args[0])
	}
}

var (
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	formMethod = regexp.MustCompile(`<form method="post">`)
)

// cmdBrowse opens an address as a new browser does, sends the form of the page when
// it has one, follows where that leads, and compares the last page with the rest of
// the arguments.
func cmdBrowse(ts *testscript.TestScript, neg bool, args []string) {
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	browser := &http.Client{Jar: jar, Timeout: testPatience}
	page := read(ts, func() (*http.Response, error) { return browser.Get(args[0]) })
	if formMethod.MatchString(page) {
		form := url.Values{}
		for _, m := range formField.FindAllStringSubmatch(page, -1) {
			form.Set(m[1], m[2])
		}
		page = read(ts, func() (*http.Response, error) { return browser.PostForm(args[0], form) })
	}
	ts.Logf("%s", page)
	for _, want := range args[1:] {
		if regexp.MustCompile(want).MatchString(page) == neg {
			ts.Fatalf("the page says otherwise than %s", want)
		}
	}
}

func read(ts *testscript.TestScript, open func() (*http.Response, error)) string {
	response, err := open()
	ts.Check(err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	ts.Check(err)
	return fmt.Sprintf("%s\n%s", response.Status, page)
}
