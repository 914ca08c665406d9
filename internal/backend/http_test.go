package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/backend"
)

// serve starts a web service and returns the options to call it with.
func serve(t *testing.T, handler http.HandlerFunc) (url string, opt backend.Options) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL + "/turn", backend.Options{HTTP: s.Client()}
}

func calling(t *testing.T, h config.HTTP, opt backend.Options) agent.Agent {
	t.Helper()
	a, err := backend.New(config.Run{HTTP: &h}, opt)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	info := said("hello")
	info.Attempt = 2 // with the first there is no history
	info.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	url, opt := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		turn, err := agent.ParseTurn(body)
		if err != nil {
			t.Error(err)
			return
		}
		if diff := cmp.Diff(&agent.TurnData{Info: info, History: info.Messages}, turn); diff != "" {
			t.Errorf("turn (-want +got):\n%s", diff)
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "Authorization": "Bearer secret", "Traceparent": info.Traceparent,
			"Accept": "application/json, application/x-ndjson, text/event-stream", backend.HeaderCallback: "",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if r.Method != http.MethodPost || r.URL.Path != "/turn" {
			t.Errorf("request is %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"complete":"done"}`)
	})
	a := calling(t, config.HTTP{URL: url, Headers: map[string]config.Secret{"authorization": config.NewSecret("Bearer secret")}}, opt)
	r := &recorder{history: info.Messages}
	if err := a.Run(t.Context(), agent.NewTurn(t.Context(), info, r)); err != nil {
		t.Fatal(err)
	}
	if r.lines() != "{\"complete\":\"done\"}\n" {
		t.Errorf("steps are %s", r.lines())
	}
}

func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	const both = "{\"working\":\"a\"}\n{\"complete\":\"b\"}\n"
	for name, test := range map[string]struct {
		status            int
		contentType, body string
		steps, problem    string
	}{
		"one step":         {200, "application/json", `{"working":"a"}`, "{\"working\":\"a\"}\n", ""},
		"201":              {201, "application/json; charset=utf-8", `{"working":"a"}`, "{\"working\":\"a\"}\n", ""},
		"an array":         {200, "application/vnd.x+json", ` [{"working":"a"},{"complete":"b"}]`, both, ""},
		"an empty array":   {200, "application/json", `[]`, "", ""},
		"empty":            {200, "", "", "", ""},
		"empty JSON":       {200, "application/json", "\n", "", ""},
		"204":              {204, "", "", "", ""},
		"NDJSON":           {200, "application/x-ndjson", "{\"working\":\"a\"}\n\n{\"complete\":\"b\"}", both, ""},
		"JSON Lines":       {200, "application/jsonl", both, both, ""},
		"after the end":    {200, "application/jsonl", both + "{\"working\":\"c\"}\nnonsense\n", both, ""},
		"events":           {200, "text/event-stream", ": hello\n\nid: 1\nevent: step\ndata: {\"working\":\ndata: \"a\"}\n\nretry: 5\ndata:{\"complete\":\"b\"}\n\n", both, ""},
		"events with CRLF": {200, "text/event-stream; charset=utf-8", "\ufeffdata: {\"working\":\"a\"}\r\n\r\ndata: [{\"complete\":\"b\"}]", both, ""},
		"no events":        {200, "text/event-stream", ": nothing\n\n", "", ""},

		"no step":            {200, "application/json", `{"done":true}`, "", `Invalid agent response: unknown key "done": a step has one of the keys`},
		"no step in a line":  {200, "application/x-ndjson", "{\"working\":\"a\"}\n<html>\n", "{\"working\":\"a\"}\n", " in <html>"},
		"no step in events":  {200, "text/event-stream", "data: {\"working\":\"a\"}\n\ndata: [DONE]\n\n", "{\"working\":\"a\"}\n", " in [DONE]"},
		"none of an array":   {200, "application/json", `[{"working":"a"},{"x":"b"}]`, "", "step 2: unknown key"},
		"another type":       {200, "text/html; charset=utf-8", "<html>", "", `the content type is "text/html; charset=utf-8" and not application/json`},
		"no type":            {200, "x", "y", "", `the content type is "x" and not`},
		"500":                {500, "text/plain", "no database\nat line 7", "", "The agent's service answered 500: no database"},
		"404 without a body": {404, "", "", "", "The agent's service answered 404."},
		"a secret":           {403, "", "bad token tok-123456 in Bearer tok-123456\x1b[0m", "", "answered 403: bad token *** in ***"},
		"a redirect":         {300, "", "elsewhere", "", "answered 300: elsewhere"},
		"202":                {202, "", "", "", "wants to answer later, but has no callback"},
		"a long line":        {400, "", strings.Repeat("x", 10_000), "", "answered 400: " + strings.Repeat("x", 300) + "…"},
		"503 without a time": {503, "", "busy", "", "answered 503: busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, opt := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if test.contentType != "" {
					w.Header().Set("Content-Type", test.contentType)
				}
				w.WriteHeader(test.status)
				if test.body != "" {
					_, _ = io.WriteString(w, test.body)
				}
			})
			headers := map[string]config.Secret{"Authorization": config.NewSecret("Bearer tok-123456")}
			r, err := run(t.Context(), calling(t, config.HTTP{URL: url, Headers: headers}, opt), said("x"))
			if got := r.lines(); got != test.steps {
				t.Errorf("steps are %s, want %s", got, test.steps)
			}
			switch {
			case test.problem == "":
				if err != nil {
					t.Error(err)
				}
			default:
				if got := public(t, err); !strings.Contains(got, test.problem) || len(got) > 700 {
					t.Errorf("error is %q, want %q", got, test.problem)
				}
			}
		})
	}
}

// Steps are emitted as they come, and not when the answer ends.
func TestHTTPStreams(t *testing.T) {
	t.Parallel()
	for form, line := range map[string]string{
		"application/x-ndjson": "{\"working\":\"%d\"}\n",
		"text/event-stream":    "data: {\"working\":\"%d\"}\n\n",
	} {
		next := make(chan struct{})
		url, opt := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", form)
			for i := range 3 {
				_, _ = fmt.Fprintf(w, line, i)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		})
		r := &recorder{emitted: make(chan agent.Step)}
		done := make(chan error)
		a := calling(t, config.HTTP{URL: url}, opt)
		go func() { done <- a.Run(t.Context(), agent.NewTurn(t.Context(), said("x"), r)) }()
		for i := range 3 {
			if s := <-r.emitted; s.Working.Parts[0].Text != fmt.Sprint(i) {
				t.Errorf("step is %s", s.AppendJSON(nil))
			}
			next <- struct{}{}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestHTTPStopsReadingWhenTheTurnHasEnded(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	url, opt := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, "{\"ask\":\"why?\"}\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	r, err := run(t.Context(), calling(t, config.HTTP{URL: url}, opt), said("x"))
	if err != nil || r.lines() != "{\"ask\":\"why?\"}\n" {
		t.Errorf("steps are %s and the error is %v", r.lines(), err)
	}
	<-gone
}

func TestHTTPIsCanceled(t *testing.T) {
	t.Parallel()
	stop := errors.New("canceled by the client")
	arrived, gone := make(chan struct{}), make(chan struct{})
	url, opt := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // so that the server sees the connection end
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-arrived; cancel(stop) }()
	if _, err := run(ctx, calling(t, config.HTTP{URL: url}, opt), said("x")); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	<-gone
}

func TestHTTPTimeout(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"no answer": "", "half an answer": "{\"working\":\"a\"}\n"} {
		url, opt := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			if begin != "" {
				w.Header().Set("Content-Type", "application/x-ndjson")
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		})
		r, err := run(t.Context(), calling(t, config.HTTP{URL: url, Timeout: config.Duration(100 * time.Millisecond)}, opt), said("x"))
		if got := public(t, err); got != "The agent's service was silent for longer than 100ms." || r.lines() != begin {
			t.Errorf("%s: error is %q after %s", name, got, r.lines())
		}
	}
}

// A failing connection is the operator's matter and shows no address.
func TestHTTPErrorsOfTheConnectionAreHidden(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	_, err := run(t.Context(), calling(t, config.HTTP{URL: s.URL}, backend.Options{HTTP: http.DefaultClient}), said("x"))
	if _, shown := agent.Public(err); err == nil || shown {
		t.Errorf("error is %v, shown: %v", err, shown)
	}
	url, opt := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"working":`)
	})
	_, err = run(t.Context(), calling(t, config.HTTP{URL: url}, opt), said("x"))
	if _, shown := agent.Public(err); !errors.Is(err, io.ErrUnexpectedEOF) || shown {
		t.Errorf("error is %v, shown: %v", err, shown)
	}
}

func TestHTTPBoundsAnswers(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"application/json", "application/x-ndjson", "text/event-stream"} {
		begin := `{"fail":"`
		if form == "text/event-stream" {
			begin = "data: " + begin
		}
		url, opt := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", form)
			_, _ = io.WriteString(w, begin)
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for range 64 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			t.Errorf("%s: everything was read", form)
		})
		_, err := run(t.Context(), calling(t, config.HTTP{URL: url}, opt), said("x"))
		if got := public(t, err); !strings.Contains(got, "has more than 16777216 bytes") || len(got) > 700 {
			t.Errorf("%s: error is %.400q", form, got)
		}
	}
}

// roundTrip is a transport without a network, for tests of time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		busy       int // answers before the good one
		status     int
		retryAfter func() string
		took       time.Duration
		calls      int
		problem    string
	}{
		"once":         {1, 503, func() string { return "2" }, 2 * time.Second, 2, ""},
		"three times":  {3, 429, func() string { return "10" }, 30 * time.Second, 4, ""},
		"too often":    {4, 503, func() string { return "1" }, 3 * time.Second, 4, "answered 503: busy"},
		"too long":     {1, 503, func() string { return "61" }, 0, 1, "answered 503: busy"},
		"a date":       {1, 503, func() string { return time.Now().UTC().Add(5 * time.Second).Format(http.TimeFormat) }, 5 * time.Second, 2, ""},
		"at once":      {1, 503, func() string { return "0" }, 0, 2, ""},
		"no time":      {1, 503, func() string { return "soon" }, 0, 1, "answered 503: busy"},
		"negative":     {1, 503, func() string { return "-5" }, 0, 1, "answered 503: busy"},
		"other status": {1, 500, func() string { return "1" }, 0, 1, "answered 500: busy"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if body, _ := io.ReadAll(r.Body); !bytes.HasPrefix(body, []byte(`{"version":1,`)) {
					t.Errorf("%s: body is %s", name, body)
				}
				res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}}
				text := `{"complete":"done"}`
				if int(calls.Add(1)) <= test.busy {
					res.StatusCode, text = test.status, "busy"
					res.Header.Set("Retry-After", test.retryAfter())
				}
				res.Body = io.NopCloser(strings.NewReader(text))
				return res, nil
			})}
			// The time until the service wants to be asked again is no silence.
			h := config.HTTP{URL: "http://service.example/", Timeout: config.Duration(1500 * time.Millisecond)}
			begin := time.Now()
			r, err := run(t.Context(), calling(t, h, backend.Options{HTTP: client}), said("x"))
			if took := time.Since(begin); took != test.took || int(calls.Load()) != test.calls {
				t.Errorf("%s: %d calls in %s, want %d in %s", name, calls.Load(), took, test.calls, test.took)
			}
			if test.problem == "" {
				if err != nil || r.lines() != "{\"complete\":\"done\"}\n" {
					t.Errorf("%s: %s and %v", name, r.lines(), err)
				}
			} else if got := public(t, err); !strings.Contains(got, test.problem) {
				t.Errorf("%s: error is %q, want %q", name, got, test.problem)
			}
		})
	}
}

// later is a service that answers 202 and hands over its callback.
type later struct {
	url, token string
	t          *testing.T
}

// accepting runs a turn on a service that answers 202. The result of Run comes
// over the channel.
func accepting(t *testing.T, ctx context.Context, callbacks *backend.Callbacks, base *string, info agent.Info, r *recorder) (*later, chan error) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /callbacks/{id}", callbacks)
	node := httptest.NewServer(mux)
	t.Cleanup(node.Close)
	called := make(chan *later, 1)
	url, opt := serve(t, func(w http.ResponseWriter, r *http.Request) {
		called <- &later{
			url: node.URL + strings.TrimPrefix(r.Header.Get(backend.HeaderCallback), *base), token: r.Header.Get(backend.HeaderCallbackToken), t: t,
		}
		w.WriteHeader(http.StatusAccepted)
	})
	opt.Callbacks = callbacks
	a := calling(t, config.HTTP{URL: url, Timeout: config.Duration(time.Minute)}, opt)
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx, agent.NewTurn(ctx, info, r)) }()
	return <-called, done
}

// post sends steps and returns the status and the body of the answer.
func (l *later) post(token, contentType, body string) (int, string) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.url, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, string(answer)
}

func TestCallbacks(t *testing.T) {
	t.Parallel()
	base := "https://node.example"
	callbacks := backend.NewCallbacks(func() string { return base + "/callbacks/" }, []byte("key"))
	r := &recorder{}
	info := said("x")
	info.Attempt = 2
	l, done := accepting(t, t.Context(), callbacks, &base, info, r)

	const json = "application/json"
	older := backend.NewCallbacks(func() string { return base }, []byte("key")).Register(t.Context(), agent.NewTurn(t.Context(), said("x"), r))
	for _, test := range []struct {
		name, token, form, body string
		status                  int
		answer                  string
		steps                   int // of all so far
	}{
		{"no token", "", json, `{"working":"x"}`, 401, "bearer token", 0},
		{"another token", "2.AAAA", json, `{"working":"x"}`, 401, "bearer token", 0},
		{"a token with another attempt", strings.Replace(l.token, "2.", "3.", 1), json, `{"working":"x"}`, 401, "bearer token", 0},
		{"the token of another attempt", older.Token, json, `{"working":"x"}`, 409, "another attempt", 0},
		{"one step", l.token, json, `{"working":"1"}`, 200, "{}", 1},
		{"an array", l.token, json, `[{"working":"2"},{"working":"3"}]`, 200, "{}", 3},
		{"lines", l.token, "application/jsonl", "{\"working\":\"4\"}\n{\"working\":\"5\"}\n", 200, "{}", 5},
		{"events", l.token, "text/event-stream", "data: {\"working\":\"6\"}\n\n", 200, "{}", 6},
		{"nothing", l.token, json, "", 200, "{}", 6},
		{"no step", l.token, json, `{"x":1}`, 400, `unknown key \"x\"`, 6},
		{"half", l.token, "application/jsonl", "{\"working\":\"7\"}\nx\n", 400, "steps taken from this request: 1", 7},
		{"another form", l.token, "text/plain", `{"working":"x"}`, 415, "text/event-stream", 7},
		{"a late message", l.token, json, `{"message":"x"}`, 400, "first and only one", 7},
		{"the end", l.token, json, `[{"ask":"why?"},{"working":"x"}]`, 200, "{}", 8},
	} {
		status, answer := l.post(test.token, test.form, test.body)
		if status != test.status || !strings.Contains(answer, test.answer) {
			t.Errorf("%s: answer is %d %s, want %d %s", test.name, status, answer, test.status, test.answer)
		}
		if len(r.steps) != test.steps || status == 200 && r.flushed != test.steps {
			t.Errorf("%s: %d steps, %d of them committed, want %d", test.name, len(r.steps), r.flushed, test.steps)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if status, answer := l.post(l.token, json, `{"working":"x"}`); status != 410 {
		t.Errorf("after the turn the answer is %d %s", status, answer)
	}
	if status, _ := l.post("2.AAAA", json, `{"working":"x"}`); status != 401 {
		t.Errorf("after the turn a wrong token gets %d", status)
	}
	if status := get(t, l.url); status != 405 {
		t.Errorf("GET answers %d", status)
	}
}

func get(t *testing.T, url string) int {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode
}

func TestCallbackOfACanceledTurn(t *testing.T) {
	t.Parallel()
	base, stop := "https://node.example", errors.New("canceled by the client")
	ctx, cancel := context.WithCancelCause(t.Context())
	l, done := accepting(t, ctx, backend.NewCallbacks(func() string { return base + "/callbacks" }, nil), &base, said("x"), &recorder{})
	cancel(stop)
	if err := <-done; !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	if status, answer := l.post(l.token, "application/json", `{"working":"x"}`); status != 410 || !strings.Contains(answer, "over") {
		t.Errorf("answer is %d %s", status, answer)
	}
}

func TestCallbackThatCannotCommit(t *testing.T) {
	t.Parallel()
	base := "https://node.example"
	ctx, cancel := context.WithCancel(t.Context())
	r := &recorder{fail: errors.New("disk full at /var/lib")}
	l, done := accepting(t, ctx, backend.NewCallbacks(func() string { return base + "/callbacks" }, nil), &base, said("x"), r)
	if status, answer := l.post(l.token, "application/json", `{"complete":"x"}`); status != 503 || strings.Contains(answer, "disk") {
		t.Errorf("answer is %d %s", status, answer)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// A service may post before its 202 has arrived.
func TestCallbackBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	callbacks := backend.NewCallbacks(func() string { return "https://node.example/callbacks" }, nil)
	url, opt := serve(t, func(w http.ResponseWriter, r *http.Request) {
		post := httptest.NewRequest(http.MethodPost, r.Header.Get(backend.HeaderCallback), strings.NewReader(`{"complete":"early"}`))
		post.Header.Set("Content-Type", "application/json")
		post.Header.Set("Authorization", "bearer "+r.Header.Get(backend.HeaderCallbackToken))
		answer := httptest.NewRecorder()
		callbacks.ServeHTTP(answer, post)
		if answer.Code != 200 {
			t.Errorf("answer is %d %s", answer.Code, answer.Body)
		}
		w.WriteHeader(http.StatusAccepted)
	})
	opt.Callbacks = callbacks
	r, err := run(t.Context(), calling(t, config.HTTP{URL: url}, opt), said("x"))
	if err != nil || r.lines() != "{\"complete\":\"early\"}\n" {
		t.Errorf("steps are %s and the error is %v", r.lines(), err)
	}
}

func TestHTTPConfiguration(t *testing.T) {
	t.Parallel()
	if short := configured(t, "http: https://x.example/turn").HTTP; short.URL != "https://x.example/turn" {
		t.Errorf("http is %+v", short)
	}
	long := configured(t, "http: {url: https://x.example/turn, headers: {X-Key: k}, timeout: 30s}").HTTP
	if long.URL != "https://x.example/turn" || long.Headers["X-Key"].Reveal() != "k" || long.Timeout.Std() != 30*time.Second {
		t.Errorf("http is %+v", long)
	}
}

// The query of a URL may hold a secret, which no error repeats.
func TestErrorsDoNotShowTheQuery(t *testing.T) {
	t.Parallel()
	a, err := backend.New(config.Run{HTTP: &config.HTTP{URL: "http://127.0.0.1:1/q?token=SECRET"}}, backend.Options{HTTP: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	err = a.Run(t.Context(), agent.NewTurn(t.Context(), agent.Info{TaskID: "t", Number: 1, Attempt: 1}, &recorder{}))
	if err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
}
