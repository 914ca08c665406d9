package console

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
)

// view is one request for a page and its answer.
type view struct {
	c *Console
	w http.ResponseWriter
	r *http.Request

	// Principal is who has signed in.
	Principal auth.Principal

	page   *page
	title  string
	status int
	form   url.Values // that a POST has sent
	sent   bool
}

func (c *Console) view(w http.ResponseWriter, r *http.Request) *view {
	return &view{c: c, w: w, r: r, page: &page{}, status: http.StatusOK}
}

// authenticate finds out who uses the page. An anonymous caller is nobody.
func (v *view) authenticate() error {
	p, err := v.c.opts.Auth.Authenticate(v.r)
	if err != nil {
		return err
	}
	if p.Anonymous() {
		return errNotSignedIn
	}
	v.Principal = p
	return nil
}

func (v *view) readForm() error {
	var err error
	if mediaType := v.r.Header.Get("Content-Type"); strings.HasPrefix(mediaType, "multipart/form-data") {
		err = v.r.ParseMultipartForm(maxForm) //nolint:gosec // the body is bounded
	} else {
		err = v.r.ParseForm()
	}
	v.form = v.r.PostForm
	return err
}

// param returns a parameter of the page's path, such as id.
func (v *view) param(name string) string { return v.r.PathValue(name) }

// query returns what stands behind the ? of the address.
func (v *view) query() url.Values { return v.r.URL.Query() }

// may reports whether somebody has at least a role and, for what concerns the whole
// node, no tenant.
func may(p *auth.Principal, role auth.Role, node bool) bool {
	return p.Role >= role && (!node || p.Tenant == "")
}

// may reports whether whoever has signed in has at least a role.
func (v *view) may(role auth.Role) bool { return may(&v.Principal, role, false) }

// mayNode is may for what concerns the whole node.
func (v *view) mayNode(role auth.Role) bool { return may(&v.Principal, role, true) }

// get reads from the API. The path is below /api/v1 and begins with a slash;
// parameters in it are escaped with url.PathEscape. A refusal is an *apiError.
func (v *view) get(path string, out any) error {
	return v.c.callAPI(v.r, &v.Principal, http.MethodGet, path, nil, out)
}

// post changes something over the API; out may be nil. A nil body is an empty
// object.
func (v *view) post(path string, body, out any) error {
	return v.c.callAPI(v.r, &v.Principal, http.MethodPost, path, body, out)
}

// delete removes something over the API.
func (v *view) delete(path string) error {
	return v.c.callAPI(v.r, &v.Principal, http.MethodDelete, path, nil, nil)
}

// frame is what templates see: what every page has, and Data of the page.
type frame struct {
	Title   string // of the page
	Console string // what the node is called
	Version string
	Assets  string // the path of the files, with a slash at its end
	Here    string // the path and query of the page
	Nav     []entry
	Waiting *int // open items of the inbox; nil: whoever has signed in sees none
	Me      me
	Flash   *flash
	Problem string // of the error page
	Data    any

	principal *auth.Principal
}

// May reports whether whoever has signed in has at least a role; "node " before
// it asks for somebody without a tenant.
func (f *frame) May(role string) bool {
	role, node := strings.CutPrefix(role, "node ")
	required, ok := auth.ParseRole(role)
	return ok && may(f.principal, required, node)
}

// waiting counts the open items of the inbox, with what the page knows if it does. A
// page that is only looked at for what has changed needs no count, and a failed one
// is no reason to show no page.
func (v *view) waiting(data any) *int {
	if known, ok := data.(interface{ openItems() *int }); ok {
		return known.openItems()
	}
	if v.r.Header.Get("X-Live") != "" || !v.may(auth.RoleViewer) {
		return nil
	}
	var inbox struct {
		Total *int `json:"total_size"`
	}
	if err := v.get("/inbox?page_size=1", &inbox); err != nil {
		return nil
	}
	return inbox.Total
}

// me is who has signed in.
type me struct {
	Subject, Tenant, Role, Session string
	Sees                           string // whose work
}

// sees says whose work somebody sees.
func sees(p *auth.Principal) string {
	switch {
	case p.Role < auth.RoleOperator:
		return "only what is yours"
	case p.Tenant != "":
		return "all of " + p.Tenant
	}
	return "everything"
}

// Out reports whether nobody has signed in.
func (m me) Out() bool { return m.Subject == "" }

// flash is what has come of the form before.
type flash struct {
	Kind string // "": it worked; problem: it did not
	Text string
}

func (v *view) frame(data any) *frame {
	f := &frame{
		Title: v.title, Console: v.c.opts.Config().Console.Title, Version: v.c.opts.Version, Assets: Prefix + "assets/" + v.c.assets.hash + "/",
		Here: v.r.URL.RequestURI(), Data: data, principal: &v.Principal,
	}
	if f.Console == "" {
		f.Console = "Handoff"
	}
	if p := &v.Principal; !p.Anonymous() {
		f.Nav = allowed(p, v.page.nav)
		f.Me = me{p.Subject, p.Tenant, p.Role.String(), p.Session, sees(p)}
		f.Waiting = v.waiting(data)
	}
	if v.r.Header.Get("X-Live") == "" {
		f.Flash = v.takeFlash()
	}
	return f
}

// render answers with a page: the template templates/NAME.html, whose "main" sees
// the frame. The status is 200 unless v.status says otherwise.
func (v *view) render(name string, data any) error {
	return v.write(name, v.frame(data))
}

func (v *view) write(name string, f *frame) error {
	all, err := templates()
	if err != nil {
		return err
	}
	t := all[name]
	if t == nil {
		return errors.New("there is no template " + name)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "layout", f); err != nil {
		return err
	}
	body := v.c.rebase(v.r, b.Bytes())
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.sent = true
	v.w.WriteHeader(v.status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(body) // when it fails, nobody is there to hear of it
	}
	return nil
}

// redirect answers a form that has worked: with the page at a path of the
// console, which says so.
func (v *view) redirect(path, text string) error {
	if text != "" {
		v.setFlash(&flash{Text: text})
	}
	v.sent = true
	http.Redirect(v.w, v.r, v.c.prefix(v.r)+path, http.StatusSeeOther)
	return nil
}

// refuse answers a form that has not worked, with the page at a path of the
// console, which says why. What is not the API's refusal is returned.
func (v *view) refuse(path string, err error) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	v.setFlash(&flash{"problem", e.Message})
	return v.redirect(path, "")
}

// again shows the page of a form with what the API has refused, which goes into
// problem. What is not the API's refusal is returned.
func (v *view) again(name string, page any, problem *string, err error) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	*problem, v.status = e.Message, http.StatusUnprocessableEntity
	return v.render(name, page)
}

// errEmptyMessage refuses a message without words.
var errEmptyMessage = &apiError{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Message: "Write a message."}

// failed answers with an error: a person who has not signed in is asked to, and
// others see a page that says what is wrong.
func (v *view) failed(err error) {
	if v.sent {
		v.c.log.ErrorContext(v.r.Context(), "A page of the console broke off", "path", v.r.URL.Path, "error", err)
		return
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		title := map[int]string{http.StatusNotFound: "Not found", http.StatusForbidden: "Not for you"}[e.Status]
		if title == "" {
			title = "That did not work"
		}
		v.c.fail(v, e.Status, title, e.Message)
		return
	}
	e, ok := errors.AsType[*a2a.Error](err)
	switch {
	case ok && e.Code == a2a.CodeUnauthenticated:
		v.signIn()
	case ok && e.Code != a2a.CodeInternal:
		v.c.fail(v, e.Code.HTTPStatus(), "That did not work", e.Message)
	default:
		v.c.log.ErrorContext(v.r.Context(), "A page of the console failed", "path", v.r.URL.Path, "error", err)
		v.c.fail(v, http.StatusInternalServerError, "That did not work", "The node's log has the reason.")
	}
}

// signIn sends a browser to the page where people sign in, and a program away.
func (v *view) signIn() {
	next := ""
	if v.r.Method == http.MethodGet {
		next = v.r.URL.RequestURI()
	}
	if v.r.Header.Get("X-Live") != "" {
		http.Error(v.w, "Nobody has signed in", http.StatusUnauthorized)
		return
	}
	http.Redirect(v.w, v.r, v.c.prefix(v.r)+loginPath(next), http.StatusSeeOther)
}

// fail answers with a page that has nothing but a message.
func (c *Console) fail(v *view, status int, title, message string) {
	v.status, v.title = status, title
	if v.Principal.Anonymous() {
		_ = v.authenticate() // for the navigation, where somebody has signed in
	}
	f := v.frame(nil)
	f.Problem = message
	if err := v.write("error", f); err != nil {
		c.log.ErrorContext(v.r.Context(), "A page of the console could not be written", "error", err)
		http.Error(v.w, message, status)
	}
}

// flashCookie keeps what has come of a form until the next page is shown.
const (
	flashCookie = "handoff_flash"
	flashTime   = time.Minute
	maxFlash    = 600 // bytes
)

func (v *view) setFlash(f *flash) {
	text := f.Text
	if len(text) > maxFlash {
		text = strings.ToValidUTF8(text[:maxFlash], "") + "…"
	}
	v.setCookie(flashCookie, base64.RawURLEncoding.EncodeToString([]byte(f.Kind+"\n"+text)), flashTime)
}

func (v *view) takeFlash() *flash {
	cookie, err := v.r.Cookie(flashCookie)
	if err != nil {
		return nil
	}
	v.setCookie(flashCookie, "", 0)
	content, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	kind, text, ok := strings.Cut(string(content), "\n")
	if err != nil || !ok || text == "" || len(text) > maxFlash+8 {
		return nil
	}
	if kind != "problem" {
		kind = ""
	}
	return &flash{kind, text}
}

// setCookie sets a cookie that scripts do not see. A time of 0 removes it.
func (v *view) setCookie(name, value string, life time.Duration) {
	http.SetCookie(v.w, v.cookie(name, value, life))
}

func (v *view) cookie(name, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second), HttpOnly: true,
		Secure: v.c.opts.Browser.Secure(v.r), SameSite: http.SameSiteLaxMode,
	}
	if life == 0 {
		c.MaxAge = -1
	}
	return c
}

// prefix returns the path under which a proxy publishes the node; "" for none.
func (c *Console) prefix(r *http.Request) string {
	cfg := c.opts.Config()
	if base, err := url.Parse(card.BaseURL(r, "", cfg.TrustedPrefixes())); err == nil && base.Path != "" {
		return strings.TrimSuffix(base.Path, "/")
	}
	public, err := url.Parse(cfg.PublicURL)
	if err != nil || public.Path == "" || !strings.EqualFold(public.Host, r.Host) && !(c.opts.Browser.Proxies.Trusts(r) && isForwarded(r)) {
		return ""
	}
	return strings.TrimSuffix(public.EscapedPath(), "/")
}

// isForwarded reports whether a request says that it came through a proxy.
func isForwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// rebase puts the path under which a proxy publishes the node before the paths of
// a page. Text of others cannot be taken for one, since quotes are escaped in it.
func (c *Console) rebase(r *http.Request, page []byte) []byte {
	prefix := c.prefix(r)
	if prefix == "" {
		return page
	}
	for _, path := range []string{Prefix, apiPrefix + "/", "/chat/"} {
		page = bytes.ReplaceAll(page, []byte(`="`+path), []byte(`="`+prefix+path))
	}
	return page
}

// fromPublicURL reports whether the page that sends a form is one of the node, as
// seen through a proxy that does not pass on the host.
func (c *Console) fromPublicURL(r *http.Request) bool {
	u, err := url.Parse(c.opts.Config().PublicURL)
	origin := r.Header["Origin"]
	return err == nil && u.Host != "" && len(origin) == 1 && strings.EqualFold(origin[0], u.Scheme+"://"+u.Host)
}
