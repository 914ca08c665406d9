package chat_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
)

// desk is an agent that does whatever a page has to show.
const desk = `
    name: Delivery desk
    description: Books a delivery slot, and says how an order stands.
    version: 1.0.0
    default_input_modes: [text/plain, application/json, image/*, application/pdf]
    on_interrupt: resume
    skills:
      - {id: slots, name: Slots, description: Books a slot., tags: [x], examples: [Book a slot for PO-2026-0184, Order 400 pallets]}
    run:
      script:
        - when: {grant: approve}
          do: [{artifact: {name: Receipt, parts: [{text: "Order number PO-2026-0185, see https://example.com/orders/PO-2026-0185."}]}}, {complete: The order is placed.}]
        - when: {grant: deny}
          do: [{reject: "Then I do not order."}]
        - when: {turn: 2}
          do: [{artifact: {name: Booking, parts: [{text: "Dock B, 11 Sep, 08:00 to 10:00."}, {data: {dock: B, from: "08:00"}}]}}, {complete: Booked.}]
        - when: {text: "[Bb]ook"}
          do:
            - {working: Looking at the docks}
            - ask: "Two docks are free on 11 Sep. Which one, and is a tail lift needed?"
              schema: {type: object, title: Dock, required: [dock, lift], properties: {dock: {title: Dock, type: string, enum: [Dock A, Dock B]}, lift: {title: Tail lift needed, type: boolean}, pallets: {title: Pallets, type: integer, minimum: 1, maximum: 33, description: How many pallets are on the lorry}, note: {title: Note for the driver, type: string}}}
        - when: {text: "[Oo]rder"}
          do:
            - {authorize: "400 pallets cost 12,400 EUR. Shall I order them?", operation: "Order 400 pallets for 12,400 EUR", expires: 2h, url: "https://erp.example.com/approve"}
        - when: {text: "[Ss]tory"}
          do:
            - {working: Writing}
            - {repeat: {times: 30, every: 60ms, do: [{artifact: {id: story, name: Story, append: true, parts: [{text: "Sentence {{.I}} of the story. "}]}}]}}
            - {complete: That was all.}
        - when: {part: raw}
          do: [{artifact: {name: Received, parts: rest}}, {complete: I keep it with the order.}]
        - when: {text: hostile}
          do:
            - artifact:
                name: "<img src=x onerror=alert(1)>"
                parts:
                  - {text: "<script>window.hacked=1</script> javascript:alert(1) https://ok.example/a?b=<b>"}
                  - {url: "javascript:window.hacked=1", filename: x}
                  - {raw: PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+, mediaType: image/svg+xml, filename: ../../evil.svg}
                  - {raw: PGh0bWw+PHNjcmlwdD53aW5kb3cuaGFja2VkPTE8L3NjcmlwdD4=, mediaType: image/png, filename: not-an-image.png}
                  - {data: {html: "<img src=x onerror=window.hacked=1>"}}
            - {complete: "<b>done</b>"}
        - when: {text: hello}
          do: [{message: Good morning! How can I help?}]
        - when: {text: wait}
          do: [{working: This takes a while}, {sleep: 60s}, {complete: Ready.}]
        - do: [{complete: "You said {{.Text}}"}]
`

// server is a node with pages.
type server struct {
	t    *testing.T
	file string
	base string // http://127.0.0.1:port
	node *handoff.Node
	stop func()
}

// agent is the configuration of an agent that is the desk with a page.
func agent(id, chat string) string {
	return "  " + id + ":" + strings.TrimRight(desk, "\n") + "\n    " + chat + "\n"
}

// start starts a node whose agents are given as YAML.
func start(t *testing.T, settings string, agents ...string) *server {
	t.Helper()
	s := &server{t: t, file: filepath.Join(t.TempDir(), "handoff.yaml")}
	text := "store: sqlite:handoff.db\nsecret_key: " + rand.Text() + rand.Text() + "\n" + settings + "\nagents:\n" + strings.Join(agents, "")
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.serve(listener)
	return s
}

// serve serves until stop; a test that has stopped it may serve again.
func (s *server) serve(listener net.Listener) {
	s.t.Helper()
	c, err := config.Load(s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	s.node, err = handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.base = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.node.Serve(ctx, listener) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
	s.t.Cleanup(s.stop)
}

// visitor is somebody with a browser: its cookies, and what it sends with requests.
type visitor struct {
	s      *server
	page   string // such as /chat/desk
	header http.Header
	cookie *http.Cookie
}

// visit opens the page of an agent.
func (s *server) visit(agent string) (*visitor, *http.Response) {
	s.t.Helper()
	v := &visitor{s: s, page: "/chat/" + agent, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}}
	response := v.do(http.MethodGet, "", "", nil)
	for _, c := range response.Cookies() {
		v.cookie = c
	}
	return v, response
}

// do sends a request, with more headers than the page would where they are given.
func (v *visitor) do(method, path, body string, header http.Header) *http.Response {
	v.s.t.Helper()
	r, err := http.NewRequestWithContext(v.s.t.Context(), method, v.s.base+v.page+path, strings.NewReader(body))
	if err != nil {
		v.s.t.Fatal(err)
	}
	r.Header = v.header.Clone()
	r.Header.Set("A2A-Version", "1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		if r.Header[name] = values; values == nil {
			delete(r.Header, name)
		}
	}
	if v.cookie != nil {
		r.AddCookie(&http.Cookie{Name: v.cookie.Name, Value: v.cookie.Value})
	}
	response, err := client.Do(r)
	if err != nil {
		v.s.t.Fatal(err)
	}
	v.s.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableKeepAlives: true},
}

// read returns the body of an answer.
func read(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// decode decodes the body of an answer that has to be a success.
func decode[T any](t *testing.T, r *http.Response) (v T) {
	t.Helper()
	b := read(t, r)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d: %s", r.StatusCode, b)
	}
	if err := json.Unmarshal([]byte(b), &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return v
}
