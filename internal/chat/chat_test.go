package chat_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

const open = "chat: {enabled: true, anonymous: callers}"

// sent is the answer of a message.
type sent struct {
	Task *struct {
		ID        string `json:"id"`
		ContextID string `json:"contextId"`
		Status    struct {
			State string `json:"state"`
		} `json:"status"`
	} `json:"task"`
}

// send sends a message and returns what came of it, when it is over or waits.
func (v *visitor) send(text, more string) sent {
	v.s.t.Helper()
	return decode[sent](v.s.t, v.post(text, more))
}

func (v *visitor) post(text, more string) *http.Response {
	v.s.t.Helper()
	quoted, _ := jsontext.AppendQuote(nil, text)
	body := fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":%s}]%s}}`, rand.Text(), quoted, more)
	return v.do(http.MethodPost, "/v1/message:send", body, nil)
}

type session struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Visitor bool   `json:"visitor"`
}

func (v *visitor) session() session {
	v.s.t.Helper()
	return decode[session](v.s.t, v.do(http.MethodGet, "/session", "", nil))
}

// An agent has a page only when it says so, and nothing else is there.
func TestThereIsAPageOnlyWhereItIsWanted(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open), agent("closed", "chat: {title: Closed}"))
	for path, want := range map[string]int{
		"desk": 200, "desk/": 308, "closed": 404, "nobody": 404, "": 404, "desk/other": 404, "desk/v1": 404, "_/0000/chat.js": 404, "_/": 404, "..%2f": 404,
	} {
		_, r := s.visit(path)
		if r.StatusCode != want {
			t.Errorf("%q: HTTP %d, want %d", path, r.StatusCode, want)
		}
		if r.StatusCode == http.StatusPermanentRedirect && r.Header.Get("Location") != "../desk" {
			t.Errorf("%q leads to %q", path, r.Header.Get("Location"))
		}
	}
	_, r := s.visit("desk")
	page := read(t, r)
	assets := regexp.MustCompile(`(?:href|src)="(_/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(assets) != 2 {
		t.Fatalf("the page has the assets %v:\n%s", assets, page)
	}
	for _, a := range assets {
		_, r := s.visit(a[1])
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: HTTP %d, %v", a[1], r.StatusCode, r.Header)
		}
	}
	if r := (&visitor{s: s, page: "/chat/desk", header: http.Header{}}).do(http.MethodPost, "", "{}", nil); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: HTTP %d", r.StatusCode)
	}
}

// A page lets nothing in but our own script, and nobody around it but the origins
// that the agent names.
func TestWhatAPageLetsIn(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open), agent("panel", "chat: {enabled: true, anonymous: callers, frame_ancestors: [https://www.example.com, 'https://shop.example:8443']}"))
	for id, want := range map[string]struct{ ancestors, options string }{
		"desk":  {"'none'", "DENY"},
		"panel": {"https://www.example.com https://shop.example:8443", ""},
	} {
		_, r := s.visit(id)
		policy := "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob: data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors " + want.ancestors
		if diff := cmp.Diff(policy, r.Header.Get("Content-Security-Policy")); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
		if got := r.Header.Get("X-Frame-Options"); got != want.options {
			t.Errorf("%s: X-Frame-Options %q, want %q", id, got, want.options)
		}
		if page := read(t, r); strings.Contains(page, "<script>") || strings.Contains(page, "<style") || strings.Contains(page, " style=") || strings.Contains(page, "onload") {
			t.Errorf("%s has a script or a style in it:\n%s", id, page)
		}
	}
}

// What an operator has written is text on the page too.
func TestTitleAndGreetingAreText(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", `chat: {enabled: true, anonymous: callers, title: "<script>1</script>", greeting: "\"><img src=x>"}`))
	_, r := s.visit("desk")
	if page := read(t, r); strings.Contains(page, "<script>1") || strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;1") {
		t.Errorf("the page is\n%s", page)
	}
}

// Everything that another page could send is refused, whatever cookies come with it.
func TestRequestsOfOtherPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open))
	v, _ := s.visit("desk")
	const message = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`
	for name, c := range map[string]struct {
		header http.Header
		want   int
	}{
		"the page itself":          {http.Header{}, 200},
		"its origin alone":         {http.Header{"Sec-Fetch-Site": nil, "Origin": {s.base}}, 200},
		"a program":                {http.Header{"Sec-Fetch-Site": nil}, 200},
		"another site":             {http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"another host of the site": {http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		"the address bar":          {http.Header{"Sec-Fetch-Site": {"none"}}, 403},
		"another origin":           {http.Header{"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}}, 403},
		"no origin that has one":   {http.Header{"Sec-Fetch-Site": nil, "Origin": {"null"}}, 403},
		"two origins":              {http.Header{"Sec-Fetch-Site": nil, "Origin": {s.base, "https://evil.example"}}, 403},
		"a form":                   {http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 400},
		"plain text":               {http.Header{"Content-Type": {"text/plain"}}, 400},
		"no type":                  {http.Header{"Content-Type": nil}, 400},
		"no version":               {http.Header{"A2a-Version": nil}, 400},
		"an old version":           {http.Header{"A2a-Version": {"0.3"}}, 400},
	} {
		if r := v.do(http.MethodPost, "/v1/message:send", message, c.header); r.StatusCode != c.want {
			t.Errorf("%s: HTTP %d, want %d: %s", name, r.StatusCode, c.want, read(t, r))
		}
	}
	for _, path := range []string{"/session", "/v1/tasks", "/form?task=x"} {
		r := v.do(http.MethodGet, path, "", http.Header{"Sec-Fetch-Site": {"cross-site"}})
		if r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: HTTP %d, %v", path, r.StatusCode, r.Header)
		}
	}
}

// The page has what people need, and not what programs need.
func TestThePageHasNoWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open))
	v, _ := s.visit("desk")
	task := v.send("hi", "").Task
	for path, want := range map[string]int{
		"/v1/tasks/" + task.ID: 200, "/v1/tasks/" + task.ID + "/pushNotificationConfigs": 400, "/v1/extendedAgentCard": 400, "/v1/nothing": 404,
	} {
		if r := v.do(http.MethodGet, path, "", nil); r.StatusCode != want {
			t.Errorf("%s: HTTP %d, want %d: %s", path, r.StatusCode, want, read(t, r))
		}
	}
	body := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":"https://evil.example/"}}}`
	if r := v.do(http.MethodPost, "/v1/message:send", body, nil); r.StatusCode != http.StatusBadRequest {
		t.Errorf("with a webhook: HTTP %d, %s", r.StatusCode, read(t, r))
	}
}

// What is a visitor's is nobody else's, whichever way somebody asks for it.
func TestVisitorsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := start(t, "callers: {anonymous: loopback, keys: true}", agent("desk", open), agent("other", open))
	ana, _ := s.visit("desk")
	bob, _ := s.visit("desk")
	task := ana.send("Book a slot", "").Task
	if task.Status.State != "TASK_STATE_INPUT_REQUIRED" {
		t.Fatalf("state %s", task.Status.State)
	}
	elsewhere := &visitor{s: s, page: "/chat/other", header: ana.header, cookie: ana.cookie}
	program := &visitor{s: s, page: "/agents/desk", header: http.Header{}}
	for name, v := range map[string]*visitor{"another visitor": bob, "the page of another agent": elsewhere, "a caller without credentials": program} {
		for path, body := range map[string]string{
			"/v1/tasks/" + task.ID:                "",
			"/v1/tasks/" + task.ID + ":subscribe": "",
			"/v1/tasks/" + task.ID + ":cancel":    "{}",
			"/v1/message:send":                    `{"message":{"messageId":"x","taskId":"` + task.ID + `","role":"ROLE_USER","parts":[{"text":"mine"}]}}`,
			"/form?task=" + task.ID:               "",
		} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			if v == program && strings.HasPrefix(path, "/form") {
				continue
			}
			if r := v.do(method, path, body, nil); r.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s: HTTP %d: %s", name, path, r.StatusCode, read(t, r))
			}
		}
		if list := read(t, v.do(http.MethodGet, "/v1/tasks?contextId="+task.ContextID, "", nil)); strings.Contains(list, task.ID) {
			t.Errorf("%s lists it: %s", name, list)
		}
	}
	if list := read(t, ana.do(http.MethodGet, "/v1/tasks?contextId="+task.ContextID, "", nil)); !strings.Contains(list, task.ID) {
		t.Errorf("its visitor does not list it: %s", list)
	}
	if a, b := ana.session(), bob.session(); a.ID == b.ID || !a.Visitor || a.Name != "" {
		t.Errorf("sessions %+v and %+v", a, b)
	}
	if secret := ana.cookie.Value; strings.Contains(ana.session().ID, secret[:8]) {
		t.Error("the session tells the secret")
	}
}

// A visitor keeps its identity, and nobody is a visitor without one that we made.
func TestCookieOfVisitors(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open), agent("shut", "chat: {enabled: true}"))
	v, r := s.visit("desk")
	set := r.Header.Get("Set-Cookie")
	for _, want := range []string{"handoff_visitor=", "HttpOnly", "SameSite=Lax", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %q has no %s", set, want)
		}
	}
	again := v.do(http.MethodGet, "", "", nil)
	if got := again.Cookies()[0].Value; got != v.cookie.Value {
		t.Error("a second visit changes the cookie")
	}
	if _, r := s.visit("shut"); len(r.Cookies()) != 0 {
		t.Errorf("a page without visitors sets %v", r.Cookies())
	}
	for name, secret := range map[string]string{
		"none": "", "short": "AAAA", "long": strings.Repeat("A", 200), "no base64": strings.Repeat("!", 43), "padded": base64.URLEncoding.EncodeToString(make([]byte, 32)),
	} {
		v.cookie.Value = secret
		if r := v.do(http.MethodGet, "/session", "", nil); r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: HTTP %d, %v", name, r.StatusCode, r.Header)
		}
	}
}

// In the frame of another site the cookie is partitioned, and only over TLS.
func TestCookieInTheFrameOfAnotherSite(t *testing.T) {
	t.Parallel()
	s := start(t, "public_url: https://agents.example.com\ncallers: {anonymous: everywhere}",
		agent("desk", open), agent("panel", "chat: {enabled: true, anonymous: callers, frame_ancestors: [https://www.example.com]}"))
	for id, want := range map[string]string{"desk": "; SameSite=Lax", "panel": "; SameSite=None; Partitioned"} {
		_, r := s.visit(id)
		set := r.Header.Get("Set-Cookie")
		if !strings.HasPrefix(set, "__Host-handoff_visitor=") || !strings.HasSuffix(set, "; HttpOnly; Secure"+want) {
			t.Errorf("%s: %q", id, set)
		}
	}
}

// Who may talk without a credential: nobody, whom callers.anonymous lets in, or
// everybody at the page.
func TestWhoNeedsNoCredential(t *testing.T) {
	t.Parallel()
	agents := []string{agent("shut", "chat: {enabled: true}"), agent("everywhere", "chat: {enabled: true, anonymous: everywhere}")}
	s := start(t, "callers: {anonymous: 'off', keys: true}", agents...)
	for id, want := range map[string]int{"shut": 401, "everywhere": 200} {
		v, _ := s.visit(id)
		r := v.post("hi", "")
		if r.StatusCode != want {
			t.Errorf("%s: HTTP %d: %s", id, r.StatusCode, read(t, r))
		}
		program := &visitor{s: s, page: "/agents/" + id, header: http.Header{}, cookie: v.cookie}
		if r := program.post("hi", ""); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("the agent %s takes the cookie of a page: HTTP %d", id, r.StatusCode)
		}
		over := v.do(http.MethodGet, "/session", "", http.Header{"Cookie": {"handoff_session_" + s.base[strings.LastIndexByte(s.base, ':')+1:] + "=" + strings.Repeat("a", 43)}})
		// Whose session is over is a visitor, where there are any.
		if over.StatusCode != want || want == 200 && !decode[session](t, over).Visitor {
			t.Errorf("%s: with a session that is over: HTTP %d", id, over.StatusCode)
		}
		wrong := v.do(http.MethodGet, "/session", "", http.Header{"Authorization": {"Bearer hk_wrong"}})
		if wrong.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: a credential that is wrong makes a visitor: HTTP %d", id, wrong.StatusCode)
		}
	}
	loopback := start(t, "callers: {anonymous: loopback, keys: true}", agent("desk", open))
	v, _ := loopback.visit("desk")
	if r := v.do(http.MethodGet, "/session", "", http.Header{"X-Forwarded-For": {"203.0.113.7"}}); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("from elsewhere: HTTP %d", r.StatusCode)
	}
}

// A visitor has shown no credential, and gets nothing that takes one.
func TestAVisitorIsNotAKnownCaller(t *testing.T) {
	t.Parallel()
	s := start(t, "callers: {anonymous: loopback, keys: true}",
		strings.Replace(agent("desk", open), "    run:\n", "    extended: {skills: [{id: secret, name: Secret, description: Is secret., tags: [x]}]}\n    run:\n", 1))
	v, _ := s.visit("desk")
	if r := v.post("hi", `,"metadata":{"skillId":"secret"}`); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("HTTP %d: %s", r.StatusCode, read(t, r))
	}
}

// The token of the page around this one says who its reader is.
func TestTokensOfTheSiteAround(t *testing.T) {
	t.Parallel()
	is := newIssuer(t)
	s := start(t, fmt.Sprintf("callers: {anonymous: loopback, oidc: [{issuer: %q, audience: chat, jwks_url: %q}]}", is.url, is.url+"/keys"),
		agent("desk", "chat: {enabled: true, anonymous: callers, frame_ancestors: [https://www.example.com]}"))
	ana, _ := s.visit("desk")
	ana.cookie = nil
	ana.header.Set("Authorization", "Bearer "+is.token(t, "ana", "chat"))
	if got := ana.session(); got.Visitor || got.Name != "ana" {
		t.Errorf("session %+v", got)
	}
	task := ana.send("Book a slot", "").Task
	elsewhere, _ := s.visit("desk")
	elsewhere.header.Set("Authorization", "Bearer "+is.token(t, "ana", "chat"))
	if r := elsewhere.do(http.MethodGet, "/v1/tasks/"+task.ID, "", nil); r.StatusCode != http.StatusOK {
		t.Errorf("in another browser: HTTP %d", r.StatusCode)
	}
	elsewhere.header.Set("Authorization", "Bearer "+is.token(t, "bob", "chat"))
	if r := elsewhere.do(http.MethodGet, "/v1/tasks/"+task.ID, "", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("somebody else: HTTP %d", r.StatusCode)
	}
	elsewhere.header.Set("Authorization", "Bearer "+is.token(t, "ana", "others"))
	if r := elsewhere.do(http.MethodGet, "/session", "", nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("for another audience: HTTP %d", r.StatusCode)
	}
}

// A form is made of the schema of the question, and says what does not fit; the
// answer is a message as any other.
func TestForms(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open))
	v, _ := s.visit("desk")
	task := v.send("Book a slot", "").Task
	form := read(t, v.do(http.MethodGet, "/form?task="+task.ID, "", nil))
	want := `{"title":"Dock","fields":[` +
		`{"label":"Dock","kind":"choice","required":true,"options":["Dock A","Dock B"]},` +
		`{"label":"Tail lift needed","kind":"boolean","required":true},` +
		`{"label":"Pallets","description":"How many pallets are on the lorry","kind":"integer","required":false},` +
		`{"label":"Note for the driver","kind":"text","required":false,"long":true}]}`
	if diff := cmp.Diff(want, form); diff != "" {
		t.Errorf("the form: %s", diff)
	}
	fill := func(values string) string {
		return read(t, v.do(http.MethodPost, "/form?task="+task.ID, `{"values":`+values+`}`, nil))
	}
	for values, want := range map[string]string{
		`[["Dock B"],["true"],["12"],[""]]`:     `{"data":{"dock":"Dock B","lift":true,"pallets":12}}`,
		`[["Dock C"],["true"],[],[]]`:           `{"field":0,"error":"Dock is none of the choices: Dock A, Dock B"}`,
		`[["Dock B"],[],[],[]]`:                 `{"field":1,"error":"Tail lift needed is missing"}`,
		`[["Dock B"],["true"],["many"],[]]`:     `{"field":2,"error":"Pallets is not a number"}`,
		`[["Dock B"],["true"],["34"],[]]`:       `{"field":2,"error":"Pallets is greater than 33"}`,
		`[["Dock B"],["true"],[],["<script>"]]`: `{"data":{"dock":"Dock B","lift":true,"note":"<script>"}}`,
	} {
		if diff := cmp.Diff(want, fill(values)); diff != "" {
			t.Errorf("%s: %s", values, diff)
		}
	}
	for _, values := range []string{`[]`, `{}`, `[["a"]`, `[1,2,3,4]`, `null`, `["` + strings.Repeat("x", 300<<10) + `"]`} {
		if got := fill(values); !strings.Contains(got, `"code":400`) {
			t.Errorf("%.20s: %s", values, got)
		}
	}
	answered := v.do(http.MethodPost, "/v1/message:send", `{"message":{"messageId":"a","taskId":"`+task.ID+`","role":"ROLE_USER","parts":[{"data":{"dock":"Dock B","lift":true},"mediaType":"application/json"}]}}`, nil)
	if got := decode[sent](t, answered); got.Task.Status.State != "TASK_STATE_COMPLETED" {
		t.Errorf("after the answer: %s", got.Task.Status.State)
	}
	if r := v.do(http.MethodGet, "/form?task="+task.ID, "", nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("a task that asks nothing: HTTP %d", r.StatusCode)
	}
}

// Whoever has sent a task decides only where the agent lets callers decide.
func TestDecisions(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("mine", open+"\n    grants: caller"), agent("theirs", open))
	for id, want := range map[string]int{"mine": 200, "theirs": 403} {
		v, _ := s.visit(id)
		task := v.send("Order 400 pallets", "").Task
		r := v.post("Approved", `,"taskId":"`+task.ID+`","metadata":{"https://handoff.example/extensions/grant/v1":{"decision":"approve"}}`)
		body := read(t, r)
		if r.StatusCode != want || want == 200 && !strings.Contains(body, "PO-2026-0185") {
			t.Errorf("%s: HTTP %d: %s", id, r.StatusCode, body)
		}
	}
}

// Visitors are held back each by itself, and all of one address together.
func TestVisitorsAreHeldBack(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers, visitor_rate: 3, address_rate: 5}"))
	count := func(v *visitor) (taken int) {
		for {
			r := v.post("hi", "")
			if r.StatusCode == http.StatusTooManyRequests {
				if r.Header.Get("Retry-After") == "" {
					t.Error("nothing says when to try again")
				}
				return taken
			}
			if taken++; r.StatusCode != http.StatusOK || taken > 10 {
				t.Fatalf("HTTP %d after %d", r.StatusCode, taken)
			}
		}
	}
	ana, _ := s.visit("desk")
	bob, _ := s.visit("desk")
	if got := count(ana); got != 3 {
		t.Errorf("one visitor sends %d", got)
	}
	if got := count(bob); got != 1 { // the fourth try of the first counts too
		t.Errorf("another one of the same address sends %d", got)
	}
	if r := ana.do(http.MethodGet, "/v1/tasks", "", nil); r.StatusCode != http.StatusOK {
		t.Errorf("reading is held back too: HTTP %d", r.StatusCode)
	}
}

// A message is no larger than the page takes.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", "chat: {enabled: true, anonymous: callers, file_bytes: 3KiB}"), agent("words", "chat: {enabled: true, anonymous: callers, files: false}"))
	for id, limit := range map[string]int{"desk": 1<<20 + 4<<10, "words": 1 << 20} {
		v, r := s.visit(id)
		if page := read(t, r); strings.Contains(page, `type="file"`) != (id == "desk") {
			t.Errorf("%s: files: %s", id, page)
		}
		for size, want := range map[int]int{limit - 300: 200, limit: 413} {
			if r := v.post(strings.Repeat("x", size), ""); r.StatusCode != want {
				t.Errorf("%s: %d bytes: HTTP %d, want %d", id, size, r.StatusCode, want)
			}
		}
	}
	v, _ := s.visit("desk")
	endless, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/chat/desk/v1/message:send", struct{ *strings.Reader }{strings.NewReader("{}")})
	if err != nil {
		t.Fatal(err)
	}
	endless.ContentLength = -1
	endless.Header = http.Header{"Content-Type": {"application/json"}, "A2a-Version": {"1.0"}, "Cookie": {v.cookie.Name + "=" + v.cookie.Value}}
	r, err := client.Do(endless)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("of unknown length: HTTP %d", r.StatusCode)
	}
}

// The page speaks the newest version with agents that speak another one elsewhere.
func TestAgentOfAnOldVersion(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open+"\n    versions: ['0.3']"))
	v, _ := s.visit("desk")
	if got := v.send("hi", "").Task.Status.State; got != "TASK_STATE_COMPLETED" {
		t.Errorf("state %s", got)
	}
}

// issuer is an issuer of tokens.
type issuer struct {
	url string
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(map[string]any{"keys": []map[string]string{{
		"kty": "EC", "crv": "P-256", "kid": "1", "alg": "ES256", "use": "sig",
		"x": coordinate(key.X.FillBytes), "y": coordinate(key.Y.FillBytes),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	}))
	t.Cleanup(server.Close)
	return &issuer{server.URL, key}
}

func coordinate(fill func([]byte) []byte) string {
	return base64.RawURLEncoding.EncodeToString(fill(make([]byte, 32)))
}

func (i *issuer) token(t *testing.T, subject, audience string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": i.url, "sub": subject, "aud": audience, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What an agent writes comes piece by piece, and a second look tells it all.
func TestStream(t *testing.T) {
	t.Parallel()
	s := start(t, "", agent("desk", open))
	v, _ := s.visit("desk")
	r := v.do(http.MethodPost, "/v1/message:stream", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"story"}]}}`, nil)
	if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type %q", got)
	}
	events := strings.Count(read(t, r), "artifactUpdate")
	list := read(t, v.do(http.MethodGet, "/v1/tasks?includeArtifacts=true", "", nil))
	if sentences := strings.Count(list, "of the story"); events != 30 || sentences != 30 {
		t.Errorf("%d pieces, and %d in the list:\n%s", events, sentences, list)
	}
}

// Texts are formatted by the converter of the console, for whoever is at the page.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	s := start(t, "callers: {anonymous: 'off', keys: true}", agent("desk", "chat: {enabled: true, anonymous: everywhere}"), agent("shut", "chat: {enabled: true}"))
	v, _ := s.visit("desk")
	type html struct {
		HTML []string `json:"html"`
	}
	got := decode[html](t, v.do(http.MethodPost, "/markdown", `{"texts":["# Offer\n\n- **400** units\n- <img src=x onerror=alert(1)>\n- [x](javascript:alert(1)) [y](https://example.com)","just words"]}`, nil))
	if len(got.HTML) != 2 || got.HTML[1] != "" {
		t.Fatalf("it is %q", got.HTML)
	}
	for _, want := range []string{"Offer</h", "<strong>400</strong>", "&lt;img src=x", `href="https://example.com"`, `rel="noopener noreferrer nofollow"`} {
		if !strings.Contains(got.HTML[0], want) {
			t.Errorf("it has no %s: %s", want, got.HTML[0])
		}
	}
	if strings.Contains(got.HTML[0], "<img") || strings.Contains(got.HTML[0], `href="javascript`) {
		t.Errorf("it is %s", got.HTML[0])
	}
	many := `{"texts":["` + strings.Repeat(`x","`, 50) + `"]}`
	for body, want := range map[string]int{`{"texts":"x"}`: 400, many: http.StatusRequestEntityTooLarge, `{"texts":["` + strings.Repeat("x", 300<<10) + `"]}`: http.StatusRequestEntityTooLarge} {
		if r := v.do(http.MethodPost, "/markdown", body, nil); r.StatusCode != want {
			t.Errorf("%.40s: HTTP %d, want %d", body, r.StatusCode, want)
		}
	}
	shut, _ := s.visit("shut")
	if r := shut.do(http.MethodPost, "/markdown", `{"texts":[]}`, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("for nobody: HTTP %d", r.StatusCode)
	}
}
