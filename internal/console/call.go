package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
)

// apiPrefix is the path of the node's API.
const apiPrefix = "/api/v1"

// maxAnswer bounds an answer of the API, in bytes.
const maxAnswer = 32 << 20

// apiError is what the API refuses.
type apiError struct {
	Status  int    // of HTTP
	Code    string // such as NOT_FOUND
	Message string
	// Fields says what is wrong with which field of what was sent.
	Fields []fieldProblem
}

type fieldProblem struct {
	Field   string `json:"field"`
	Problem string `json:"description"`
}

// Error returns the message, for people.
func (e *apiError) Error() string { return e.Message }

// isNotFound reports whether an error says that there is no such thing.
func isNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*apiError](err)
	return ok && e.Status == status
}

// recorder keeps an answer of the API.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool // there was more than is kept
}

// Header returns the header of the answer.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader keeps the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// FlushError does nothing: an answer is kept whole.
func (r *recorder) FlushError() error { return nil }

// SetWriteDeadline does nothing: nobody has to take what is kept.
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

var errAnswerTooLarge = a2a.Errorf(a2a.CodeTooLarge, "This is too large for a page. The API and the command line have all of it")

// Write keeps what the answer says.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.body.Len()+len(p) > maxAnswer {
		r.cut = true
		return 0, errAnswerTooLarge
	}
	return r.body.Write(p)
}

// forwarded are the headers of a request that the API is to see too: they say how
// the node is reached.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Request-Id", "Traceparent"}

// callAPI calls the API as somebody, and decodes what it answers into out, which
// may be nil. What the API refuses is an *apiError.
func (c *Console) callAPI(r *http.Request, p *auth.Principal, method, path string, body, out any) error {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return fmt.Errorf("write request: %w", err)
		}
	}
	answer, err := c.call(r, p, c.opts.API, method, apiPrefix+path, content)
	if err != nil || out == nil || len(answer) == 0 {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}

// call makes a request of the node to itself, as somebody, and returns what it is
// answered. What is refused is an *apiError.
func (c *Console) call(r *http.Request, p *auth.Principal, to http.Handler, method, path string, content []byte) ([]byte, error) {
	answer := &recorder{header: http.Header{}}
	if err := c.ask(r, p, to, method, path, content, answer); err != nil {
		return nil, err
	}
	if answer.cut {
		return nil, errAnswerTooLarge
	}
	return answer.body.Bytes(), nil
}

// firstLines asks the API for lines, and goes when it has as many as a page holds. The
// last one may be a part of one.
func (c *Console) firstLines(r *http.Request, p *auth.Principal, path string) ([]byte, error) {
	answer := &recorder{header: http.Header{}}
	if err := c.ask(r, p, c.opts.API, http.MethodGet, apiPrefix+path, nil, answer); err != nil {
		return nil, err
	}
	if answer.cut && answer.body.Len() == 0 {
		return nil, errAnswerTooLarge
	}
	return answer.body.Bytes(), nil
}

// ask makes a request of the node to itself, as somebody. What is refused is an
// *apiError.
func (c *Console) ask(r *http.Request, p *auth.Principal, to http.Handler, method, path string, content []byte, answer *recorder) error {
	ctx := auth.WithPrincipal(context.WithoutCancel(r.Context()), p)
	if method == http.MethodGet {
		ctx = auth.WithPrincipal(r.Context(), p)
	}
	q, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	q.Host, q.RemoteAddr, q.TLS = r.Host, r.RemoteAddr, r.TLS
	for _, name := range forwarded {
		if values := r.Header[name]; values != nil {
			q.Header[name] = values
		}
	}
	if method != http.MethodGet {
		q.Header.Set("Content-Type", "application/json")
	}
	q.Header.Set(a2a.HeaderVersion, "1.0")
	to.ServeHTTP(answer, q)
	if !answer.cut && (answer.status < 200 || answer.status > 299) {
		return errorOf(answer)
	}
	return nil
}

// errorOf reads an error of the API, which is a google.rpc.Status.
func errorOf(answer *recorder) error {
	var body struct {
		Error struct {
			Status  string `json:"status"`
			Message string `json:"message"`
			Details []struct {
				Violations []fieldProblem `json:"fieldViolations"`
			} `json:"details"`
		} `json:"error"`
	}
	e := &apiError{Status: answer.status}
	if err := json.Unmarshal(answer.body.Bytes(), &body); err == nil {
		e.Code, e.Message = body.Error.Status, body.Error.Message
		for _, d := range body.Error.Details {
			e.Fields = append(e.Fields, d.Violations...)
		}
	}
	if e.Message == "" {
		e.Message = http.StatusText(answer.status)
	}
	return e
}
