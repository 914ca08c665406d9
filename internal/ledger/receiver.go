package ledger

import (
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// The headers of a push, under the names that senders use.
const (
	headerEvent    = "X-A2A-Event-Id"
	headerToken    = "A2A-Notification-Token"
	headerTokenOld = "X-A2A-Notification-Token"
	headerJWT      = "X-A2A-Notification-Jwt"
)

const (
	pushDelay  = 50 * time.Millisecond // in which pushes of a task count as one
	eventsKept = time.Hour             // for which a repeated event is known
	maxElement = 256                   // bytes of an element of the path
)

// refusal is why a push is not taken.
type refusal struct {
	status int
	text   string
	wait   time.Duration
}

func (r *refusal) Error() string { return r.text }

// nobodyHere is the answer for what does not exist and for what is not shown.
var nobodyHere = &refusal{status: http.StatusNotFound, text: "There is nothing to push to at this address"}

// Receiver returns what takes the pushes of peers, at ReceiverPath. What they
// say is only a hint: the delegation looks at the task of the peer itself.
func (l *Ledger) Receiver() http.Handler { return http.HandlerFunc(l.receive) }

func (l *Ledger) receive(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	err := l.take(r)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	no, ok := errors.AsType[*refusal](err)
	if !ok {
		if r.Context().Err() == nil {
			l.log.WarnContext(r.Context(), "A push could not be taken", "error", err)
		}
		no = &refusal{status: http.StatusServiceUnavailable, text: "The push cannot be taken now; send it again", wait: time.Second}
	}
	if no.wait > 0 {
		h.Set("Retry-After", "1")
	}
	if no.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if no.status == http.StatusMethodNotAllowed {
		h.Set("Allow", http.MethodPost)
	}
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, no.text+"\n")
}

func (l *Ledger) take(r *http.Request) error {
	if r.Method != http.MethodPost {
		return &refusal{status: http.StatusMethodNotAllowed, text: "Pushes are sent by POST"}
	}
	d, err := l.addressed(r)
	if err != nil {
		return err
	}
	if err := l.authenticate(r, d); err != nil {
		return err
	}
	if !l.rate.allow("task "+d.Task, pushRate, pushBurst) {
		return &refusal{status: http.StatusTooManyRequests, text: "Too many pushes; send them later", wait: time.Second}
	}
	event := clip(r.Header.Get(headerEvent), maxElement)
	if event != "" && l.seen.has("event "+d.Task+" "+event) {
		return nil // its answer was lost
	}
	body, err := readBody(r, l.opts.PushBytes)
	if err != nil {
		return err
	}
	if err := l.verify(r.Context(), r, d, body); err != nil {
		return err
	}
	id, err := taskOf(body)
	if err != nil {
		return err
	}
	if d.RemoteTask != "" && id != d.RemoteTask {
		return &refusal{status: http.StatusConflict, text: "The push is about another task than the one that this address is for"}
	}
	if err := l.hint(r.Context(), d, id); err != nil {
		return err
	}
	if event != "" {
		l.seen.add("event "+d.Task+" "+event, eventsKept)
	}
	return nil
}

// addressed returns the delegation that a URL is of.
func (l *Ledger) addressed(r *http.Request) (*store.Delegation, error) {
	task, token, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, ReceiverPath), "/")
	if !ok || task == "" || token == "" || len(task) > maxElement || len(token) > maxElement {
		return nil, nobodyHere
	}
	from := "address " + addressOf(r)
	if !l.rate.would(from, failRate, failBurst) {
		return nil, &refusal{status: http.StatusTooManyRequests, text: "Too many wrong addresses; try later", wait: time.Second}
	}
	d, err := l.opts.Store.Delegation(r.Context(), l.opts.Scope, task)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err != nil || len(d.Token) == 0 || subtle.ConstantTimeCompare(pathDigest(token), d.Token) != 1 {
		l.rate.allow(from, failRate, failBurst)
		return nil, nobodyHere
	}
	return d, nil
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

var unauthorized = &refusal{status: http.StatusUnauthorized, text: "The push does not present what this address asks for"}

// authenticate checks what we have asked the peer to present: the token or the
// credentials. What it presents has to be right, and it has to present one.
func (l *Ledger) authenticate(r *http.Request, d *store.Delegation) error {
	if l.opts.Sealer == nil {
		return unauthorized
	}
	plain, err := l.opts.Sealer.Open(d.Secret)
	if err != nil {
		return err
	}
	var s secrets
	if err := json.Unmarshal(plain, &s); err != nil {
		return err
	}
	right := false
	for _, name := range [...]string{headerToken, headerTokenOld} {
		if got := r.Header.Get(name); got != "" {
			if !equal(got, s.Token) {
				return unauthorized
			}
			right = true
		}
	}
	if got := bearer(r); got != "" && !isJWT(got) { // a JWT is verified by its signature
		if !equal(got, s.Key) {
			return unauthorized
		}
		right = true
	}
	if !right {
		return unauthorized
	}
	return nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func bearer(r *http.Request) string {
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(rest)
}

// readBody reads a body that is bounded.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	large := &refusal{status: http.StatusRequestEntityTooLarge, text: "The push is larger than is taken here"}
	if r.ContentLength > limit {
		return nil, large
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, text: "The push could not be read"}
	}
	if int64(len(body)) > limit {
		return nil, large
	}
	return body, nil
}

// taskOf returns the id of the task that a push is about: an event of 1.0 (A2A
// §4.3.3), or a task or an event as earlier versions send them.
func taskOf(body []byte) (string, error) {
	type task struct {
		ID string `json:"id"`
	}
	type update struct {
		Task string `json:"taskId"`
	}
	var push struct {
		Task     *task   `json:"task"`
		Status   *update `json:"statusUpdate"`
		Artifact *update `json:"artifactUpdate"`
		Message  *update `json:"message"`
		ID       string  `json:"id"`
		Of       string  `json:"taskId"`
	}
	if err := json.Unmarshal(body, &push, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return "", &refusal{status: http.StatusBadRequest, text: "The push is not an event of A2A"}
	}
	id := push.Of
	switch {
	case push.Task != nil:
		id = push.Task.ID
	case push.Status != nil:
		id = push.Status.Task
	case push.Artifact != nil:
		id = push.Artifact.Task
	case push.Message != nil:
		id = push.Message.Task
	case id == "":
		id = push.ID
	}
	if id == "" || len(id) > a2a.MaxIDLength {
		return "", &refusal{status: http.StatusBadRequest, text: "The push names no task"}
	}
	return id, nil
}

// hint lets the delegation look at its peer soon.
func (l *Ledger) hint(ctx context.Context, d *store.Delegation, id string) error {
	if d.State.Terminal() {
		return nil
	}
	window := "push " + d.Task
	if d.RemoteTask != "" && l.seen.has(window) {
		return nil // a look is due, and has not been made yet
	}
	c := &store.Change{Task: d.TaskKey, Guard: store.Guard{States: store.Live}}
	if d.RemoteTask == "" {
		l.hinting.Lock()
		defer l.hinting.Unlock()
		ids := slices.DeleteFunc(l.hints(ctx, d), func(known string) bool { return known == id })
		ids = append([]string{id}, ids...)
		value, err := json.Marshal(ids[:min(len(ids), maxHints)])
		if err != nil {
			return err
		}
		c.Result = &store.Result{Key: hintKey, Value: value}
	}
	// Before the commit: what comes after it may be after the look.
	l.seen.add(window, pushDelay/2)
	return l.lookAt(ctx, c, d.Task, time.Now().Add(pushDelay))
}
