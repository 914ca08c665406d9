package inbox_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// page is the answer to a request for a page.
func (f *fixture) page(method, link string, values url.Values) (status int, body string) {
	f.t.Helper()
	r := httptest.NewRequestWithContext(f.t.Context(), method, link, strings.NewReader(values.Encode()))
	if values != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header().Get(name); got != want {
			f.t.Errorf("%s is %q", name, got)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "script") {
		f.t.Errorf("the policy is %q", policy)
	}
	return w.Code, w.Body.String()
}

// wantPage fails the test unless a page has that status and says that.
func (f *fixture) wantPage(method, link string, values url.Values, status int, says ...string) string {
	f.t.Helper()
	got, body := f.page(method, link, values)
	if got != status {
		f.t.Errorf("%s %s: status %d, want %d: %s", method, link, got, status, body)
	}
	for _, text := range says {
		if !strings.Contains(body, text) {
			f.t.Errorf("%s %s does not say %q: %s", method, link, text, body)
		}
	}
	return body
}

func (f *fixture) linkTo(item *store.InboxItem, person string) string {
	f.t.Helper()
	link, err := f.Link(f.t.Context(), all, item.ID, person, time.Hour, "op")
	if err != nil {
		f.t.Fatal(err)
	}
	return link.URL
}

func TestPageWithForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := f.stall("form")
	link := f.linkTo(item, "bob@example.com")
	body := f.wantPage("GET", link, nil, 200, "How many? &lt;b&gt;&amp;", `type="number"`, `type="date"`, `type="checkbox"`, "For bob@example.com", "The conversation so far")
	if strings.Contains(body, "<b>") || strings.Contains(body, "<script") || strings.Contains(body, "src=") {
		t.Errorf("the page has what it must not: %s", body)
	}
	f.wantPage("HEAD", link, nil, 200)
	// What does not fit is named, and what was written stays.
	f.wantPage("POST", link, url.Values{"action": {"answer"}, "f0": {"0"}, "f3": {"one\r\ntwo"}}, 422, "qty", "one\ntwo")
	f.wantPage("POST", link, url.Values{"action": {"answer"}, "f0": {"x"}}, 422, "qty is not a number")
	f.wantPage("POST", link, url.Values{"action": {"answer"}}, 422, "qty is missing")
	f.wantPage("POST", link, url.Values{"action": {"else"}}, 400)
	f.wantPage("POST", link, url.Values{"action": {"approve"}}, 422, "not for a decision")
	f.wantPage("POST", link, url.Values{"action": {"answer"}, "text": {strings.Repeat("x", 2<<20)}}, 400)
	f.wantPage("POST", link, url.Values{
		"action": {"answer"}, "f0": {"5"}, "f1": {"no"}, "f2": {"red", "blue"}, "f3": {"one\r\n\r\ntwo"}, "f4": {"2026-01-31"}, "text": {"soon"},
	}, 200, "Thank you")
	if got := f.said(item); got != `data {"qty":5,"fast":false,"colors":["red","blue"],"lines":["one","two"],"day":"2026-01-31"}, text soon` {
		t.Errorf("the agent heard %s", got)
	}
	if i := f.item(item.ID); i.By != "bob@example.com (by link)" {
		t.Errorf("settled by %q", i.By)
	}
	for _, method := range []string{"GET", "POST"} {
		body := f.wantPage(method, link, url.Values{"action": {"answer"}, "f0": {"6"}}, 410, "settled already", "bob@example.com")
		if strings.Contains(body, "How many") {
			t.Errorf("a used link shows the question: %s", body)
		}
	}
}

func TestPageWithoutForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	words := f.stall("ask")
	f.wantPage("POST", f.linkTo(words, ""), url.Values{"action": {"answer"}, "text": {" "}}, 422, "missing")
	f.wantPage("POST", f.linkTo(words, ""), url.Values{"action": {"answer"}, "text": {"this"}}, 200)
	if got := f.said(words); got != "text this" || f.item(words.ID).By != "whoever has the link" {
		t.Errorf("the agent heard %s", got)
	}
	inWords := f.stall("form")
	f.wantPage("POST", f.linkTo(inWords, ""), url.Values{"action": {"answer"}, "f0": {""}, "text": {"a few"}}, 200)
	if got := f.said(inWords); got != "text a few" {
		t.Errorf("the agent heard %s", got)
	}
	hostile := f.stall("hostile")
	f.wantPage("GET", f.linkTo(hostile, ""), nil, 200, `name="text"`)
}

func TestPageWithDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item := f.stall("pay")
	link := f.linkTo(item, "")
	f.wantPage("GET", link, nil, 200, "Pay 5 EUR?", "pay 5", "Approve</button>", "Deny</button>")
	f.wantPage("POST", link, url.Values{"action": {"answer"}, "text": {"yes"}}, 422, "asks for a decision")
	f.wantPage("POST", link, url.Values{"action": {"deny"}, "note": {"too much"}}, 200, "Denied")
	if got := f.said(item); got != "denied: too much" {
		t.Errorf("the agent said %s", got)
	}
	f.wantPage("POST", link, url.Values{"action": {"approve"}}, 410, "denied by whoever")
	entries, err := f.audit.Read(t.Context(), store.AuditQuery{Task: item.Task, Limit: 9})
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, e := range entries {
		recorded = append(recorded, string(e.Body))
	}
	if len(recorded) != 2 || !strings.Contains(recorded[0], `"operation":"POST /inbox/{id} answer","binding":"link"`) || !strings.Contains(recorded[0], `"result":"UnsupportedOperationError"`) ||
		!strings.Contains(recorded[1], `"address":"192.0.2.7","operation":"POST /inbox/{id} decision"`) || !strings.Contains(recorded[1], `"result":"OK"`) {
		t.Errorf("recorded: %s", recorded)
	}
}

// TestLinks follows links that are not good.
func TestLinks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	item, other := f.stall("ask"), f.stall("ask")
	link := f.linkTo(item, "bob")
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(name, value string) string {
		q, v := u.Query(), *u
		q.Set(name, value)
		v.RawQuery = q.Encode()
		return v.String()
	}
	for what, bad := range map[string]string{
		"another item": strings.Replace(link, item.ID, other.ID, 1), "another person": changed("for", "eve"), "a longer life": changed("expires", "99999999999"),
		"no signature": changed("signature", ""), "a wrong one": changed("signature", strings.Repeat("A", 43)), "nothing": "https://x/inbox/" + item.ID,
		"no number": changed("expires", "soon"),
	} {
		if status, body := f.page("GET", bad, nil); status != 403 || strings.Contains(body, "What?") {
			t.Errorf("%s: status %d: %s", what, status, body)
		}
	}
	for _, path := range []string{"https://x/inbox/", "https://x/inbox/a/b", "https://x/inbox/" + strings.Repeat("x", 5000)} {
		f.wantPage("GET", path, nil, 404)
	}
	f.wantPage("DELETE", link, nil, 405)

	// Another key verifies what it has signed before, and no key nothing.
	f.keys = [][]byte{[]byte("new"), []byte("key")}
	f.restart(nil)
	f.wantPage("GET", link, nil, 200)
	if f.linkTo(item, "bob") == link {
		t.Error("the old key signs")
	}
	f.keys = nil
	f.restart(nil)
	f.wantPage("GET", link, nil, 403)
	_, err = f.Link(t.Context(), all, item.ID, "", 0, "op")
	wantCode(t, "a link without a key", err, a2a.CodeUnsupportedOperation, "secret_key")
	f.keys = [][]byte{[]byte("key")}
	f.restart(nil)

	for _, life := range []time.Duration{-time.Second, 100 * 24 * time.Hour} {
		_, err := f.Link(t.Context(), all, item.ID, "", life, "op")
		wantCode(t, "its life", err, a2a.CodeInvalidParams, "expires")
	}
	_, err = f.Link(t.Context(), store.ForTenant("other"), item.ID, "", 0, "op")
	wantCode(t, "a stranger", err, a2a.CodeTaskNotFound, "")
	f.wait(2 * time.Hour)
	f.wantPage("GET", link, nil, http.StatusGone, "has expired", "was good until")
	f.wantPage("POST", link, url.Values{"action": {"answer"}, "text": {"x"}}, http.StatusGone, "has expired")
	if !f.item(item.ID).Settled.IsZero() {
		t.Error("an expired link has answered")
	}
}

// TestPolicyFitsTheStyle compares the style of a page with the one that its policy
// allows.
func TestPolicyFitsTheStyle(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", f.linkTo(f.stall("pay"), ""), nil))
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, ok := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !ok || !strings.Contains(w.Header().Get("Content-Security-Policy"), want) {
		t.Errorf("the policy %q does not allow the style with %s", w.Header().Get("Content-Security-Policy"), want)
	}
}
