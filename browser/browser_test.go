//go:build browser

// Package browser_test looks at the console in Chromium, as people do.
package browser_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-json-experiment/json"
	"go.uber.org/goleak"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/examples/demo"
	. "handoff.example/handoff/internal/browsertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// played is a demo whose story is told, and whose second order asks its question.
type played struct {
	*site

	out *screen
	in  io.Writer // where somebody types
}

// screen is the terminal of a demo, for who waits until it says something.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

// Write takes what the demo says.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

// wait returns what the demo has said once it matches.
func (s *screen) wait(t *testing.T, pattern string, ended <-chan error) []string {
	t.Helper()
	found := regexp.MustCompile(pattern)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		s.mu.Lock()
		text := s.text.String()
		s.mu.Unlock()
		if m := found.FindStringSubmatch(text); m != nil {
			return m
		}
		select {
		case <-s.wrote:
		case err := <-ended:
			t.Fatalf("the demo has ended with %v:\n%s", err, text)
		case <-ctx.Done():
			t.Fatalf("the demo does not say %s:\n%s", pattern, text)
		}
	}
}

// play runs `handoff demo` until the end of the test.
func play(t *testing.T) (p *played, link string) {
	t.Helper()
	dir := t.TempDir()
	in, keyboard := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p = &played{out: &screen{wrote: make(chan struct{}, 1)}, in: keyboard}
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- demo.Run(ctx, demo.Options{Out: p.out, In: in, Dir: dir, Version: "test"})
	}()
	t.Cleanup(func() {
		_ = keyboard.Close()
		cancel()
		<-over
	})
	found := p.out.wait(t, `(?s)(http://[0-9.:]+)(/console/\?once=\S+).*Ctrl-C ends the demo`, ended)
	text, err := os.ReadFile(filepath.Join(dir, "demo.json"))
	if err != nil {
		t.Fatal(err)
	}
	var place struct {
		Key map[string]string `json:"key"`
	}
	if err := json.Unmarshal(text, &place); err != nil {
		t.Fatal(err)
	}
	p.site = &site{t: t, base: found[1], key: place.Key["demo"]}
	return p, found[1] + found[2]
}

// site is a node with a console, and the key of an admin.
type site struct {
	t    *testing.T
	base string
	key  string
}

// api asks the node's API as the admin.
func (s *site) api(method, path string, body, into any) {
	s.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.base+"/api/v1"+path, content)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s answers %s: %s %v", method, path, response.Status, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			s.t.Fatal(err)
		}
	}
}

// send sends a message to an agent and returns the task that it becomes.
func (s *site) send(agent string, callback string, parts ...a2a.Part) *a2a.Task {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	c, err := client.Dial(s.t.Context(), s.base+"/agents/"+agent+"/", client.Options{Credentials: client.Bearer(s.key), HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		s.t.Fatal(err)
	}
	request := &a2a.SendMessageRequest{Message: client.NewMessage(parts...), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true}}
	if callback != "" {
		request.Configuration.TaskPushNotificationConfig = &a2a.TaskPushNotificationConfig{URL: callback}
	}
	answer, err := c.SendMessage(s.t.Context(), request)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Task
}

// settle waits until a task is in a state.
func (s *site) settle(id string, states ...string) {
	s.t.Helper()
	for began := time.Now(); ; {
		var row struct {
			Task struct {
				Status struct {
					State string `json:"state"`
				} `json:"status"`
			} `json:"task"`
		}
		s.api("GET", "/tasks/"+id, nil, &row)
		state := row.Task.Status.State
		if slices.Contains(states, state) {
			return
		}
		if time.Since(began) > time.Minute || state == "TASK_STATE_FAILED" {
			s.t.Fatalf("the task %s is %s, not %s", id, state, states)
		}
	}
}

// signIn signs in with the API key.
func (s *site) signIn() Step {
	return chromedp.Steps(
		chromedp.Navigate(s.base+"/console/login"),
		chromedp.WaitVisible(chromedp.CSS(`input[name="key"]`)), chromedp.SendKeys(chromedp.CSS(`input[name="key"]`), s.key+"\r"), At("/console/"))
}

// open opens a page of the console.
func (s *site) open(path string) Step {
	return chromedp.Steps(chromedp.Navigate(s.base+"/console/"+path), Until(`document.readyState === "complete"`))
}
