package console_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configuration is that of the node of the tests. The agent quote does what the
// first word of a message says.
const configuration = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {keys: true}
agents:
  quote:
    name: Quote agent
    description: Quotes prices.
    version: 1.0.0
    skills: [{id: quote, name: Quote, description: Quotes a price., tags: [procurement]}]
    run:
      script:
        - when: {grant: approve}
          do: [{complete: granted}]
        - when: {text: "^ask"}
          do: [{ask: "Which Incoterm?"}]
        - when: {text: "^auth"}
          do: [{authorize: "May I post the order?", operation: post}]
        - when: {text: "^fail"}
          do: [{fail: "The supplier did not answer"}]
        - when: {text: "(.*)"}
          do: [{artifact: {parts: [{text: "{{.Text}}"}]}}]
`

// fixture is a node that serves, with people who have signed in to its console.
type fixture struct {
	t      *testing.T
	node   *handoff.Node
	server *httptest.Server
	file   string // of its configuration
	admin  *person
}

// newFixture starts a node of the configuration, with text added at its end, and
// signs its admin in by a link.
func newFixture(t *testing.T, more ...string) *fixture {
	t.Helper()
	return startFixture(t, configuration+strings.Join(more, "\n"), handoff.Options{})
}

func startFixture(t *testing.T, text string, o handoff.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, file: filepath.Join(t.TempDir(), "handoff.yaml")}
	if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := handoff.LoadConfig(f.file)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if f.node, err = handoff.New(c, o); err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewServer(f.node)
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		if err := f.node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := f.node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Console.Enabled {
		f.admin = f.nobody()
		if got := f.admin.get(f.link()); got.status != http.StatusSeeOther {
			t.Fatalf("the link answers %d: %s", got.status, got.body)
		}
	}
	return f
}

// rewrite puts another configuration into effect.
func (f *fixture) rewrite(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.node.Reload(); err != nil {
		f.t.Fatal(err)
	}
}

// link returns a path that signs an admin in, once.
func (f *fixture) link() string {
	f.t.Helper()
	link, _, err := f.node.ConsoleLink(f.t.Context(), f.server.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimPrefix(link, f.server.URL)
}

// person is somebody with a browser.
type person struct {
	f      *fixture
	client *http.Client
	key    string // the API key, and its id
	keyID  string
}

// nobody returns somebody who has not signed in. Redirects are not followed.
func (f *fixture) nobody() *person {
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &person{f: f, client: &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as returns somebody with a role, and a tenant or "", who has signed in with an
// API key.
func (f *fixture) as(role, subject, tenant string) *person {
	f.t.Helper()
	p := f.nobody()
	p.key, p.keyID = f.newKey(role, subject, tenant)
	if got := p.post("/console/login", url.Values{"key": {p.key}}); got.status != http.StatusSeeOther {
		f.t.Fatalf("signing in answers %d: %s", got.status, got.body)
	}
	return p
}

// newKey makes an API key.
func (f *fixture) newKey(role, subject, tenant string) (key, id string) {
	f.t.Helper()
	var answer struct{ Key, ID string }
	f.admin.api("POST", "/keys", map[string]string{"role": role, "subject": subject, "tenant": tenant}, &answer)
	return answer.Key, answer.ID
}

// shown is an answer.
type shown struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// do sends a request as a browser would, for a page of the node's.
func (p *person) do(method, path, contentType, body string, headers ...string) *shown {
	p.f.t.Helper()
	r, err := http.NewRequestWithContext(p.f.t.Context(), method, p.f.server.URL+path, strings.NewReader(body))
	if err != nil {
		p.f.t.Fatal(err)
	}
	if method != http.MethodGet {
		r.Header.Set("Origin", p.f.server.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.f.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		p.f.t.Fatal(err)
	}
	return &shown{p.f.t, response.StatusCode, response.Header, string(content)}
}

// get fetches a page. Headers are names and values.
func (p *person) get(path string, headers ...string) *shown {
	p.f.t.Helper()
	return p.do(http.MethodGet, path, "", "", headers...)
}

// post sends a form of a page of the console.
func (p *person) post(path string, form url.Values, headers ...string) *shown {
	p.f.t.Helper()
	return p.do(http.MethodPost, path, "application/x-www-form-urlencoded", form.Encode(), headers...)
}

// follow sends a form, and returns the page to which it leads.
func (p *person) follow(path string, form url.Values) *shown {
	p.f.t.Helper()
	s := p.post(path, form)
	if s.status != http.StatusSeeOther {
		p.f.t.Fatalf("POST %s answers %d: %s", path, s.status, s.text())
	}
	return p.get(s.header.Get("Location"))
}

// api calls the node's API in the session of the browser. What it refuses ends the
// test.
func (p *person) api(method, path string, body, out any) {
	p.f.t.Helper()
	content, err := json.Marshal(body)
	if err != nil {
		p.f.t.Fatal(err)
	}
	if body == nil {
		content = nil
	}
	s := p.do(method, "/api/v1"+path, "application/json", string(content))
	if s.status/100 != 2 {
		p.f.t.Fatalf("%s %s answers %d: %s", method, path, s.status, s.body)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(s.body), out, json.MatchCaseInsensitiveNames(true)); err != nil {
			p.f.t.Fatal(err)
		}
	}
}

// send sends a message to an agent: with the person's API key if there is one, and
// else as an anonymous caller. It returns the task.
func (p *person) send(agent, text string) *a2a.Task {
	p.f.t.Helper()
	return p.sendParts(agent, a2a.Text(text))
}

// sendParts is send for a message of several parts.
func (p *person) sendParts(agent string, parts ...a2a.Part) *a2a.Task {
	p.f.t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c, err := client.Dial(p.f.t.Context(), p.f.server.URL+"/agents/"+agent+"/", client.Options{HTTPClient: &http.Client{Transport: keyed{transport, p.key}}})
	if err != nil {
		p.f.t.Fatal(err)
	}
	response, err := c.SendMessage(p.f.t.Context(), &a2a.SendMessageRequest{
		Message:       client.NewMessage(parts...),
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: strings.HasPrefix(parts[0].Text, "hold")},
	})
	if err != nil {
		p.f.t.Fatal(err)
	}
	return response.Task
}

// keyed shows an API key with every request.
type keyed struct {
	http.RoundTripper
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Api-Key", k.key)
	}
	return k.RoundTripper.RoundTrip(r)
}

// ok ends the test when a page is not one that was found.
func (s *shown) ok() *shown {
	s.t.Helper()
	if s.status != http.StatusOK {
		s.t.Fatalf("status %d, not 200: %s", s.status, s.text())
	}
	return s
}

// ended fails the test unless the answer has a status.
func (s *shown) ended(status int) *shown {
	s.t.Helper()
	if s.status != status {
		s.t.Errorf("status %d, not %d: %s", s.status, status, s.text())
	}
	return s
}

// has fails the test unless the page has each of the texts in its HTML.
func (s *shown) has(texts ...string) *shown {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(s.body, text) {
			s.t.Errorf("the page has no %q:\n%s", text, s.main())
		}
	}
	return s
}

// lacks fails the test if the page has one of the texts in its HTML.
func (s *shown) lacks(texts ...string) *shown {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(s.body, text) {
			s.t.Errorf("the page has %q:\n%s", text, s.main())
		}
	}
	return s
}

// main returns the HTML of the content.
func (s *shown) main() string {
	if _, after, ok := strings.Cut(s.body, "<main"); ok {
		before, _, _ := strings.Cut(after, "</main>")
		return "<main" + before
	}
	return s.body
}

var tags = regexp.MustCompile(`<[^>]*>`)

// text returns the content as text, with one space between words.
func (s *shown) text() string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(s.main(), " "))), " ")
}

// says fails the test unless the text of the page has each of the texts.
func (s *shown) says(texts ...string) *shown {
	s.t.Helper()
	have := s.text()
	for _, text := range texts {
		if !strings.Contains(have, text) {
			s.t.Errorf("the page does not say %q, but: %s", text, have)
		}
	}
	return s
}

// entries returns what the audit log has of an operation.
func (f *fixture) entries(operation string) []string {
	f.t.Helper()
	var log struct {
		Entries []struct{ Operation, Subject, Result, Target, Binding string }
	}
	f.admin.api("GET", "/audit?limit=1000", nil, &log)
	var list []string
	for _, e := range log.Entries {
		if e.Operation == operation {
			list = append(list, fmt.Sprint(e.Binding, " ", e.Subject, " ", e.Target, " ", e.Result))
		}
	}
	return list
}
