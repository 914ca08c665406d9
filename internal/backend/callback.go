package backend

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/agent"
)

// Callbacks is where web services that answered 202 post their steps:
//
//	POST {base}/{id}
//	Authorization: Bearer {token}
//
// with a body in the forms of an answer. It answers 200 when the steps are
// committed, 400 for what is no step, 401 for a wrong token, 409 for the token
// of another attempt of the turn, 410 when the turn is over, 415 for a body in
// another form, and 503 when the steps could not be committed and may be posted
// again. It carries out the steps of turns of its own process only: for those of
// other nodes it answers 503 too, and the next post may reach the right one.
type Callbacks struct {
	// Elsewhere, when set, returns the attempt of a task's turn that another node
	// runs or is about to take over, and 0 when the turn is over. Set it before the
	// first request.
	Elsewhere func(ctx context.Context, task string, turn int) (attempt int, err error)

	base func() string
	keys [][]byte // the first one makes tokens

	mu   sync.Mutex
	open map[string]*Callback
}

// NewCallbacks returns callbacks whose URLs begin with what base returns then,
// such as https://agents.example.com/callbacks. Tokens are made with the key, and
// those of older keys are known too. Without a key they are unknown to other processes and after a restart, so that a late
// post is answered 401 instead of 409 or 410.
func NewCallbacks(base func() string, key []byte, older ...[]byte) *Callbacks {
	if len(key) == 0 {
		key = make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
	}
	return &Callbacks{base: base, keys: append([][]byte{key}, older...), open: make(map[string]*Callback)}
}

// Callback is the address of one attempt of a turn.
type Callback struct {
	URL   string
	Token string // for this attempt only

	ctx   context.Context // of the turn
	all   *Callbacks
	id    string
	turn  *agent.Turn
	posts chan struct{} // holds one while a post is carried out
	steps emitter
	over  atomic.Bool
	done  chan struct{}
	once  sync.Once
}

// Register opens the callback of a turn, whose context is ctx. The caller has to
// close it when the turn ends.
func (c *Callbacks) Register(ctx context.Context, t *agent.Turn) *Callback {
	id := t.TaskID + "." + strconv.Itoa(t.Number)
	cb := &Callback{
		URL:   strings.TrimSuffix(c.base(), "/") + "/" + id,
		Token: callbackToken(c.keys[0], id, t.Attempt),
		ctx:   ctx,
		all:   c,
		id:    id,
		turn:  t,
		posts: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	cb.steps.turn = t
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[id] = cb
	return cb
}

// Done is closed when a step that was posted has ended the turn and everything
// is committed.
func (cb *Callback) Done() <-chan struct{} { return cb.done }

func (cb *Callback) ended() bool {
	if cb == nil {
		return false
	}
	select {
	case <-cb.done:
		return true
	default:
		return false
	}
}

// Close ends the callback. Later posts are answered 410.
func (cb *Callback) Close() {
	cb.over.Store(true)
	cb.all.mu.Lock()
	defer cb.all.mu.Unlock()
	if cb.all.open[cb.id] == cb {
		delete(cb.all.open, cb.id)
	}
}

func callbackToken(key []byte, id string, attempt int) string {
	n := strconv.Itoa(attempt)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("handoff callback\n" + id + "\n" + n))
	return n + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// authorize returns the attempt that a token is for, and false for one that was
// not made for the id.
func (c *Callbacks) authorize(id, token string) (attempt int, ok bool) {
	n, _, ok := strings.Cut(token, ".")
	if !ok {
		return 0, false
	}
	attempt, err := strconv.Atoi(n)
	if err != nil {
		return 0, false
	}
	for _, key := range c.keys {
		if hmac.Equal([]byte(token), []byte(callbackToken(key, id, attempt))) {
			return attempt, true
		}
	}
	return attempt, false
}

// ServeHTTP takes steps. The id is the last segment of the path.
func (c *Callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		answerCallback(w, http.StatusMethodNotAllowed, "post the steps")
		return
	}
	id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	attempt, ok := c.authorize(id, strings.TrimSpace(token))
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		answerCallback(w, http.StatusUnauthorized, "send the "+HeaderCallbackToken+" of the turn as bearer token")
		return
	}
	c.mu.Lock()
	cb := c.open[id]
	c.mu.Unlock()
	switch {
	case cb == nil:
		c.answerStranger(w, r, id, attempt)
		return
	case cb.turn.Attempt != attempt:
		answerCallback(w, http.StatusConflict, "the turn runs again, and the token is of another attempt")
		return
	}
	form := formOf(r.Header.Get("Content-Type"))
	if form == "" {
		answerCallback(w, http.StatusUnsupportedMediaType, "send "+formJSON+", "+formLines+" or "+formEvents)
		return
	}
	cb.post(w, r, form)
}

// answerStranger answers a post for a turn that this process does not run.
func (c *Callbacks) answerStranger(w http.ResponseWriter, r *http.Request, id string, attempt int) {
	running := 0
	if task, number, ok := strings.Cut(id, "."); ok && c.Elsewhere != nil {
		turn, err := strconv.Atoi(number)
		if err == nil {
			running, err = c.Elsewhere(r.Context(), task, turn)
		}
		if err != nil {
			w.Header().Set("Retry-After", "1")
			answerCallback(w, http.StatusServiceUnavailable, "it is not known now who runs the turn; post again")
			return
		}
	}
	switch {
	case running == 0:
		answerCallback(w, http.StatusGone, "the turn is over")
	case running != attempt:
		answerCallback(w, http.StatusConflict, "the turn runs again, and the token is of another attempt")
	default:
		w.Header().Set("Retry-After", "1")
		answerCallback(w, http.StatusServiceUnavailable, "another node runs the turn, or is about to take it over; post again (node_url of the configuration lets posts reach the right node at once)")
	}
}

// post carries out the steps of a request. Those of one request are not mixed
// with those of another.
func (cb *Callback) post(w http.ResponseWriter, r *http.Request, form string) {
	select {
	case cb.posts <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	defer func() { <-cb.posts }()
	if cb.over.Load() || cb.ended() {
		answerCallback(w, http.StatusGone, "the turn is over")
		return
	}
	before := cb.steps.count
	err := readSteps(form, r.Body, &cb.steps)
	flushed := cb.turn.Flush()
	if cb.steps.done.Load() && flushed == nil {
		cb.once.Do(func() { close(cb.done) })
	}
	cb.answer(w, cb.steps.count-before, errors.Join(err, flushed))
}

func (cb *Callback) answer(w http.ResponseWriter, count int, err error) {
	var notStep *stepError
	switch {
	case err == nil:
		answerCallback(w, http.StatusOK, "")
	case errors.Is(err, agent.ErrEnded), cb.ctx.Err() != nil, cb.over.Load():
		answerCallback(w, http.StatusGone, "the turn is over")
	case errors.As(err, &notStep):
		answerCallback(w, http.StatusBadRequest, notStep.Error()+"; steps taken from this request: "+strconv.Itoa(count))
	case errors.Is(err, agent.ErrMessageFirst):
		answerCallback(w, http.StatusBadRequest, agent.ErrMessageFirst.Error())
	default:
		w.Header().Set("Retry-After", "1")
		answerCallback(w, http.StatusServiceUnavailable, "the steps could not be committed; taken from this request: "+strconv.Itoa(count))
	}
}

// answerCallback writes the answer to a post: {} or {"error": …}.
func answerCallback(w http.ResponseWriter, status int, problem string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := []byte("{}\n")
	if problem != "" {
		quoted, _ := jsontext.AppendQuote(nil, problem)
		body = append(append([]byte(`{"error":`), quoted...), "}\n"...)
	}
	_, _ = w.Write(body) // whoever posted may be gone
}
