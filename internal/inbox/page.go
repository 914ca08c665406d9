package inbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/audit"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/store"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.Must(template.New("page").Parse(form.Fields)).Parse(pageText))

// pagePolicy lets a page do nothing but show itself and send its form.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

const (
	maxForm     = 1 << 20 // bytes of what a page sends
	formTimeout = 30 * time.Second
)

// page is what a page shows.
type page struct {
	Style    template.CSS
	Title    string
	Message  string // when that is all there is
	Item     *Item
	Asks     string
	Said     []said
	Decision bool // approve and deny
	Fields   []form.Input
	Text     string // of the free answer
	Note     string
	FreeText bool // there is a free answer beside or instead of the form
	Problem  string
	Person   string
	Expires  string
	Out      string // an https link that the question names

	wrong *form.FieldError // with one of the fields
}

// said is one message of the conversation.
type said struct{ Who, Text string }

// ServeHTTP serves the pages behind links. A link is a capability: it is all that
// is needed, and so no other page can send what it allows.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Robots-Tag", "noindex")
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		header.Set("Allow", "GET, HEAD, POST")
		s.say(w, http.StatusMethodNotAllowed, "Not possible", "This page can be read and sent, and nothing else.")
		return
	}
	id, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), Prefix))
	if err != nil || id == "" || strings.Contains(id, "/") || len(id) > a2a.MaxIDLength {
		s.say(w, http.StatusNotFound, "Nothing here", "There is nothing at this address.")
		return
	}
	link, ok := s.verify(id, r.URL.Query())
	switch {
	case !ok:
		s.say(w, http.StatusForbidden, "This link is not valid",
			"Check that it is complete. An operator makes links, with: handoff inbox link")
		return
	case !link.expires.After(s.opts.Now()):
		s.say(w, http.StatusGone, "This link has expired", "It was good until "+link.expires.Format(time.RFC1123)+". Ask for a new one.")
		return
	}
	item, err := s.opts.Store.InboxItem(r.Context(), s.opts.Scope, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.say(w, http.StatusGone, "Gone", "What this link was for is not there any more.")
	case err != nil:
		s.fail(w, r, err)
	case !item.Settled.IsZero():
		s.used(w, item)
	case r.Method == http.MethodPost:
		s.takeForm(w, r, item, &link)
	default:
		s.show(w, r, http.StatusOK, item, &link, &page{}, nil)
	}
}

// used says that a link has done its work, or that somebody else was faster.
func (s *Service) used(w http.ResponseWriter, item *store.InboxItem) {
	by := item.By
	if by == "" {
		by = "somebody"
	}
	s.say(w, http.StatusGone, "This was settled already",
		"A link works once. This one is used: "+item.Decision+" by "+by+", "+item.Settled.Format(time.RFC1123)+".")
}

// fail says that it did not work.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.log.ErrorContext(r.Context(), "A page of the inbox failed", "error", err)
	w.Header().Set("Retry-After", "5")
	s.say(w, http.StatusServiceUnavailable, "That did not work", "Nothing was changed, or it is not known. Try again in a moment.")
}

// say answers with a page that has nothing but a message.
func (s *Service) say(w http.ResponseWriter, status int, title, message string) {
	s.write(w, status, &page{Title: title, Message: message})
}

func (s *Service) write(w http.ResponseWriter, status int, p *page) {
	p.Style = template.CSS(pageStyle) //nolint:gosec // it is ours
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		s.log.Error("A page of the inbox could not be written", "error", err)
		http.Error(w, "That did not work", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // when it fails, nobody is there to hear of it
}

// decides reports whether an item asks for a decision.
func (s *Service) decides(i *store.InboxItem) bool {
	return asksForGrant(i) || s.opts.Deciders[i.Kind] != nil
}

// formOf returns the form of an item, nil when it has none that can be used.
func formOf(i *store.InboxItem) *form.Form {
	if i.Schema == nil {
		return nil
	}
	f, err := form.New(i.Schema)
	if err != nil {
		return nil // what is asked is answered in words
	}
	return f
}

// show answers with the page of an item. Written is what is in its form, nil for
// what the schema says.
func (s *Service) show(w http.ResponseWriter, r *http.Request, status int, i *store.InboxItem, link *claim, p *page, written [][]string) {
	p.Item, p.Person, p.Expires = s.View(i), link.person, link.expires.Format(time.RFC1123)
	p.Decision = s.decides(i)
	switch {
	case p.Decision:
		p.Title = "Approve or deny"
	case i.Kind == store.InboxStuck:
		p.Title = "Something is stuck"
	default:
		p.Title = "A question"
	}
	if u, err := url.Parse(i.URL); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
		p.Out = i.URL
	}
	if !p.Decision {
		p.FreeText = true
		if f := formOf(i); f != nil {
			p.Fields = f.Inputs(written, p.wrong)
		}
	}
	if i.Task != "" {
		detail, err := s.Show(r.Context(), s.opts.Scope, i.ID)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		for _, m := range detail.Conversation {
			who := p.Item.Agent
			if m.Role == a2a.RoleUser {
				who = "caller"
			}
			if text := textOf(m); text != "" {
				p.Said = append(p.Said, said{who, text})
			}
		}
	}
	s.write(w, status, p)
}

// textOf returns what a message says in words.
func textOf(m *a2a.Message) string {
	var texts []string
	for i := range m.Parts {
		switch part := &m.Parts[i]; part.Kind {
		case a2a.PartText:
			texts = append(texts, part.Text)
		case a2a.PartRaw, a2a.PartURL:
			texts = append(texts, "[a file: "+part.Filename+" "+part.MediaType+"]")
		}
	}
	return strings.Join(texts, "\n")
}

// takeForm takes what a page sends.
func (s *Service) takeForm(w http.ResponseWriter, r *http.Request, i *store.InboxItem, link *claim) {
	_ = http.NewResponseController(w).SetReadDeadline(s.opts.Now().Add(formTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.say(w, http.StatusBadRequest, "That did not work", "The answer is too large, or it did not arrive whole. Go back and try again.")
		return
	}
	p := &page{Text: r.PostForm.Get("text"), Note: r.PostForm.Get("note")}
	var written [][]string
	var err error
	scope := ownerOf(i)
	done := "Thank you. Your answer was sent."
	switch action := r.PostForm.Get("action"); {
	case action == "approve" || action == "deny":
		if done = "Approved. This is for the one operation that was asked for."; action == "deny" {
			done = "Denied."
		}
		err = s.Decide(r.Context(), scope, &Decision{Item: i.ID, Approved: action == "approve", Note: strings.TrimSpace(p.Note), By: link.by()})
	case action == "answer":
		answer := &Answer{Item: i.ID, Text: strings.TrimSpace(p.Text), By: link.by()}
		// Whoever only writes words leaves the form alone.
		if f := formOf(i); f != nil {
			written = f.Written(r.PostForm)
			var value []byte
			if value, err = f.Build(written); err == nil {
				answer.Data = value
			}
			if _, ok := errors.AsType[*form.FieldError](err); ok && answer.Text != "" && f.Untouched(written) {
				err = nil
			}
		}
		if err == nil {
			err = s.Answer(r.Context(), scope, answer)
		}
	default:
		s.say(w, http.StatusBadRequest, "That did not work", "The form says neither what to answer nor what to decide.")
		return
	}
	if unrecorded := s.record(r, i, link, err); unrecorded != nil && err == nil {
		s.log.ErrorContext(r.Context(), "What was done by a link could not be recorded", "item", i.ID, "error", unrecorded)
		done += " But it could not be recorded in the audit log; tell the operator."
	}
	if err == nil {
		s.say(w, http.StatusOK, "Done", done)
		return
	}
	s.refuse(w, r, i, link, p, written, err)
}

// auditTimeout bounds how long a person waits for the audit log.
const auditTimeout = 10 * time.Second

// record records what was done by a link in the audit log, before it is answered
// where it has changed something.
func (s *Service) record(r *http.Request, i *store.InboxItem, link *claim, err error) error {
	if !s.opts.Audit.Wants(true) {
		return nil
	}
	action := "answer"
	if r.PostForm.Get("action") != "answer" {
		action = "decision"
	}
	e := &audit.Entry{
		At: s.opts.Now(), Tenant: i.Tenant, Subject: link.by(), Role: "link", Operation: "POST " + Prefix + "{id} " + action, Binding: "link",
		Agent: i.Agent, Task: i.Task, Target: i.ID, Result: audit.OK,
	}
	if s.opts.Address != nil {
		e.Address = s.opts.Address(r)
	}
	if err != nil {
		e.Result = a2a.CodeOf(err).String()
		if _, ok := errors.AsType[*form.FieldError](err); ok {
			e.Result = a2a.CodeInvalidParams.String()
		}
		s.opts.Audit.Record(e)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	return s.opts.Audit.Commit(ctx, e)
}

// refuse shows the page again with what was wrong.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, i *store.InboxItem, link *claim, p *page, written [][]string, err error) {
	if e, ok := errors.AsType[*form.FieldError](err); ok {
		p.Problem, p.wrong = e.Error(), e
		s.show(w, r, http.StatusUnprocessableEntity, i, link, p, written)
		return
	}
	now, ferr := s.opts.Store.InboxItem(r.Context(), s.opts.Scope, i.ID)
	if ferr == nil && !now.Settled.IsZero() {
		s.used(w, now)
		return
	}
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok || e.Code == a2a.CodeInternal || e.Code == a2a.CodeUnavailable {
		s.fail(w, r, err)
		return
	}
	p.Problem = e.Message
	s.show(w, r, http.StatusUnprocessableEntity, i, link, p, written)
}
