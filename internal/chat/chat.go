// Package chat is the page on which people talk to an agent, /chat/{agent}: a shell
// that the server renders, and a script of our own that speaks the protocol
// (HTTP+JSON, A2A §11) below /chat/{agent}/v1/ as whoever is at the page.
package chat

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/wire"
)

// Prefix is the path below which the pages are.
const Prefix = "/chat/"

// Surface is the page of one agent as of one configuration.
type Surface struct {
	Config config.Chat
	// Name and Description are those of the agent.
	Name, Description string
	// Examples are messages that people may begin with.
	Examples []string
	// Agent is the agent as the page reaches it.
	Agent *wire.Agent
	// CallerDecides says that who has sent a task decides on its grant requests.
	CallerDecides bool
	// Idempotent says that a message of a visitor may be sent twice.
	Idempotent bool
	// Requests is how often one address may call, for visitors without a credential.
	Requests auth.Rate
	// SignIn is the path of the page where people sign in, below the node's; "": none.
	SignIn string
}

// Protocol serves the protocol; it is a wire.Handler whose authenticator is auth.Known.
type Protocol interface {
	ServeREST(w http.ResponseWriter, r *http.Request, a *wire.Agent, path string)
}

// Tasks reads tasks; it is an engine.Engine.
type Tasks interface {
	Get(ctx context.Context, scope store.Scope, spec *engine.Spec, id string, history *int) (*a2a.Task, error)
}

// Options are what a Handler runs on.
type Options struct {
	// Auth knows whoever is signed in or shows a credential, and accepts or refuses
	// callers without one.
	Auth auth.Authenticator
	// Browser knows where a request comes from, and the session that it names.
	Browser auth.Browser
	// Surface returns the page of an agent, nil when it has none.
	Surface  func(agent string) *Surface
	Protocol Protocol
	Tasks    Tasks
	// Base returns the URL of the node as the browser of a request sees it.
	Base func(r *http.Request) string
	// Meters outlive the handler.
	Meters *Meters
	Logger *slog.Logger // nil: slog.Default()
}

// Handler serves the pages.
type Handler struct {
	opts Options
	log  *slog.Logger
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler of everything below Prefix.
func New(opts Options) *Handler {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	return &Handler{opts: opts, log: opts.Logger}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	path := strings.TrimPrefix(r.URL.EscapedPath(), Prefix)
	if name, ok := strings.CutPrefix(path, assetPrefix); ok {
		h.serveAsset(w, r, name)
		return
	}
	id, rest, deeper := strings.Cut(path, "/")
	surface := h.opts.Surface(id)
	switch {
	case surface == nil:
		h.nothing(w)
	case !deeper:
		h.servePage(w, r, id, surface)
	case rest == "":
		header.Set("Location", "../"+url.PathEscape(id)) // a proxy may have taken the beginning of the path away
		w.WriteHeader(http.StatusPermanentRedirect)
	case rest == "session":
		h.call(w, r, surface, h.session)
	case rest == "form":
		h.call(w, r, surface, h.form)
	case rest == "markdown":
		h.call(w, r, surface, h.markdown)
	case strings.HasPrefix(rest, "v1/"):
		h.protocol(w, r, surface, strings.TrimPrefix(rest, "v1/"))
	default:
		h.nothing(w)
	}
}

func (h *Handler) nothing(w http.ResponseWriter) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	http.Error(w, "There is nothing here.", http.StatusNotFound)
}

// Bounds of what is read of a body that is too large.
const (
	maxPassedOver  = 8 << 20
	passedOverTime = 10 * time.Second
)

// passOver reads a body that nobody wants, as far as it is not much too large: a
// browser that is still sending does not hear the answer.
func passOver(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > maxPassedOver {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(passedOverTime))
	_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength) // when it fails, the answer says enough
}

// protocol serves what the page asks of the agent.
func (h *Handler) protocol(w http.ResponseWriter, r *http.Request, s *Surface, path string) {
	p, err := h.admit(r, s)
	if a2a.CodeOf(err) == a2a.CodeTooLarge {
		passOver(w, r)
	}
	switch {
	case err != nil:
	case r.Header.Get(a2a.HeaderVersion) != version:
		err = a2a.Errorf(a2a.CodeVersionNotSupported, "The page speaks version %s of the protocol; send A2A-Version: %s", version, version)
	case !offered(path):
		err = a2a.Errorf(a2a.CodeUnsupportedOperation, "The page has no such operation; the agent's own address has them all")
	case r.Method == http.MethodPost && strings.HasPrefix(path, "message:"):
		err = h.meter(&p, s)
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.opts.Protocol.ServeREST(w, r.WithContext(auth.WithPrincipal(r.Context(), &p)), s.Agent, path)
}

const version = "1.0"

// offered reports whether the page has an operation: to send, to read, to follow
// and to cancel. Webhooks and cards are for programs.
func offered(path string) bool {
	return !strings.Contains(path, "pushNotificationConfigs") && !strings.HasSuffix(path, "extendedAgentCard")
}

// call serves what the page asks of the node.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, s *Surface, do func(*http.Request, *Surface, *auth.Principal) (any, error)) {
	p, err := h.admit(r, s)
	var v any
	if err == nil {
		v, err = do(r, s, &p)
	}
	var body []byte
	if err == nil {
		body, err = json.Marshal(v)
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // when it fails, nobody is there to hear of it
}

// refuse answers with an error as HTTP+JSON has it (A2A §11.6). No challenge goes
// with it: a browser would ask for a password by itself.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		h.log.ErrorContext(r.Context(), "A request of a chat page failed", "error", err)
		e = a2a.Errorf(a2a.CodeInternal, "That did not work; the operator's log has the reason")
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.HTTPStatus())
	_, _ = w.Write(e.AppendStatus(nil)) // when it fails, nobody is there to hear of it
}
