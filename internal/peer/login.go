package peer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/oauth"
)

// Paths below the public URL at which people log in to peers.
const (
	LoginPath    = "/oauth/login"
	CallbackPath = "/oauth/callback"
)

const (
	loginTime   = 10 * time.Minute
	maxLogins   = 500 // under way to one peer
	maxOwn      = 4   // of one user
	maxState    = 4 << 10
	loginCookie = "handoff_login"
)

// Login is where a person goes to log in to a peer.
type Login struct {
	URL     string
	Expires time.Time
}

// ErrNoLogin says that nobody logs in to a peer.
var ErrNoLogin = errors.New("nobody logs in to this peer: its auth has no oauth2 with the flow authorization_code")

// Login begins a login of a user to a peer (RFC 6749 §4.1, with PKCE). The person
// opens the URL, confirms there, and comes back to CallbackPath. Where one login
// counts for all, the user is of no matter.
func (d *Directory) Login(ctx context.Context, name string, user User) (*Login, error) {
	e, err := d.find(name)
	if err != nil {
		return nil, err
	}
	o := e.config.Auth.OAuth2
	switch {
	case o == nil || o.Flow != config.PeerFlowAuthorizationCode:
		return nil, ErrNoLogin
	case d.opts.BaseURL == nil:
		return nil, errors.New("the node has no address to come back to")
	case d.opts.Sealer == nil:
		return nil, ErrNoKey
	}
	var asked chosen
	if current, _, err := d.ensure(ctx, e, false); err == nil { // else the configuration has to say all of it
		set, err := choose(e.name, current.use, &e.config.Auth)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(set, func(c chosen) bool { return c.kind == kindOAuth2 }); i >= 0 {
			asked = set[i]
		}
	} else if isHeld(err) {
		return nil, err
	}
	asking, err := e.tokens.client(ctx, asked)
	if err != nil {
		return nil, err
	}
	state := name + "." + rand.Text() + rand.Text()
	begun, err := asking.Authorize(state, d.opts.BaseURL()+CallbackPath, e.access(asked))
	if err != nil {
		return nil, &FieldError{"auth.oauth2", err}
	}
	l := login{State: hashOf(state), User: e.tokens.forUser(user), Begun: *begun, Expires: d.now().Add(loginTime)}
	err = d.changeWallet(ctx, name, func(w *wallet) error {
		return w.begin(l)
	})
	if err != nil {
		return nil, err
	}
	return &Login{URL: d.opts.BaseURL() + LoginPath + "?state=" + url.QueryEscape(state), Expires: l.Expires}, nil
}

// hashOf returns a SHA-256 in base64url.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// ServeHTTP serves LoginPath and CallbackPath. A login is bound to the browser in
// which it was confirmed: a link that somebody else has sent does not make the
// tokens of one person those of another.
func (d *Directory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	switch {
	case strings.HasSuffix(r.URL.Path, CallbackPath) && r.Method == http.MethodGet:
		d.serveCallback(w, r)
	case strings.HasSuffix(r.URL.Path, LoginPath) && r.Method == http.MethodGet:
		d.serveLogin(w, r)
	case strings.HasSuffix(r.URL.Path, LoginPath) && r.Method == http.MethodPost:
		d.serveConfirmed(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		show(w, http.StatusMethodNotAllowed, page{Title: "This is not how a login goes"})
	}
}

// page is what people see.
type page struct {
	Title string
	Text  string
	State string // of a form to confirm
}

var pages = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:4rem auto;padding:0 1rem}button{font:inherit;padding:.5rem 1rem}</style>
<h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .State}}<form method="post"><input type="hidden" name="state" value="{{.State}}"><button>Continue</button></form>{{end}}
</html>
`))

func show(w http.ResponseWriter, status int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pages.Execute(w, p)
}

var gone = page{Title: "This login is over", Text: "It has ended, was used already, or began elsewhere. Begin again with: handoff peer login"}

// loginOf returns the login of a state, without ending it.
func (d *Directory) loginOf(ctx context.Context, state string) (*entry, *login, error) {
	name, _, ok := strings.Cut(state, ".")
	if !ok || len(state) > maxState {
		return nil, nil, errors.New("the state is none of ours")
	}
	e, err := d.find(name)
	if err != nil {
		return nil, nil, err
	}
	row, err := d.rows.get(ctx, name, time.Second) // whoever guesses asks the store no more often
	if err != nil {
		return nil, nil, err
	}
	w, err := d.openWallet(row)
	if err != nil {
		return nil, nil, err
	}
	i := w.index(state, d.now())
	if i < 0 {
		return nil, nil, errors.New("there is no login of that state")
	}
	return e, &w.Logins[i], nil
}

// begin adds a login. A user who begins more than a few loses the first of them,
// and nobody else does.
func (w *wallet) begin(l login) error {
	own := 0
	for i := len(w.Logins) - 1; i >= 0; i-- {
		if w.Logins[i].User != l.User {
			continue
		}
		if own++; own >= maxOwn {
			w.Logins = slices.Delete(w.Logins, i, i+1)
		}
	}
	if len(w.Logins) >= maxLogins {
		return ErrBusy
	}
	w.Logins = append(w.Logins, l)
	return nil
}

// ErrBusy says that too many logins to a peer are under way.
var ErrBusy = errors.New("too many logins to this peer are under way; try again in ten minutes")

// index returns the place of the login of a state, or -1.
func (w *wallet) index(state string, now time.Time) int {
	hash := hashOf(state)
	return slices.IndexFunc(w.Logins, func(l login) bool {
		return subtle.ConstantTimeCompare([]byte(l.State), []byte(hash)) == 1 && now.Before(l.Expires)
	})
}

// serveLogin asks the person to confirm.
func (d *Directory) serveLogin(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("state")
	e, l, err := d.loginOf(r.Context(), state)
	if err != nil {
		d.log.Info("A login was opened that there is not", "error", err)
		show(w, http.StatusNotFound, gone)
		return
	}
	whom := "Whoever may hand work to it here will act there with what you may do."
	if l.User != (User{}) {
		whom = fmt.Sprintf("This node will then act there with what you may do, for the caller %q. Go on only if that is you.", l.User.Subject)
	}
	show(w, http.StatusOK, page{Title: "Log in to " + e.name, Text: "You are about to log in to the peer " + e.name + " at " + originOf(l.Begun.URL) + ". " + whom, State: state})
}

// serveConfirmed binds the login to the browser and sends the person to the
// authorization server.
func (d *Directory) serveConfirmed(w http.ResponseWriter, r *http.Request) {
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		show(w, http.StatusForbidden, gone)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxState*2)
	state, browser := r.PostFormValue("state"), rand.Text()
	e, _, err := d.loginOf(r.Context(), state)
	address := ""
	if err == nil {
		err = d.changeWallet(r.Context(), e.name, func(w *wallet) error {
			i := w.index(state, d.now())
			if i < 0 || w.Logins[i].Browser != "" {
				return errors.New("the login is bound to another browser")
			}
			w.Logins[i].Browser, address = hashOf(browser), w.Logins[i].Begun.URL
			return nil
		})
	}
	if err != nil {
		d.log.Info("A login could not go on", "error", err)
		show(w, http.StatusNotFound, gone)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: browser, Path: "/", MaxAge: int(loginTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(d.opts.BaseURL(), "https:"),
	})
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// serveCallback ends a login: the code becomes a token.
func (d *Directory) serveCallback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	cookie, err := r.Cookie(loginCookie)
	var e *entry
	var l *login
	if err == nil {
		e, l, err = d.takeLogin(r.Context(), q.Get("state"), cookie.Value)
	}
	if err != nil {
		d.log.Info("A login came back that there is not", "error", err)
		show(w, http.StatusBadRequest, gone)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: loginCookie, Path: "/", MaxAge: -1})
	code, err := l.Begun.CodeOf(q)
	if err != nil {
		d.log.Warn("A login to a peer has failed", "peer", e.name, "error", err)
		show(w, http.StatusBadRequest, page{Title: "You are not logged in to " + e.name, Text: refusal(err)})
		return
	}
	asking := e.tokens.at(oauth.Server{TokenURL: l.Begun.TokenURL})
	got, err := asking.Exchange(r.Context(), &l.Begun, code)
	if err == nil {
		err = d.keepToken(r.Context(), e.name, l.User, got)
	}
	if err != nil {
		d.log.Warn("A login to a peer has failed", "peer", e.name, "error", err)
		show(w, http.StatusBadGateway, page{Title: "You are not logged in to " + e.name, Text: Clean(err.Error(), maxError, false)})
		return
	}
	d.log.Info("Somebody has logged in to a peer", "peer", e.name, "user", l.User.Subject)
	show(w, http.StatusOK, page{Title: "You are logged in to " + e.name, Text: "You can close this window."})
}

// refusal says to a person why a login has failed. Of a response that is from
// somebody else nothing is shown (RFC 9207 §2.4).
func refusal(err error) string {
	if _, ok := errors.AsType[*oauth.IssuerError](err); ok {
		return "The answer is not from the authorization server that you were sent to. The log of the node says more."
	}
	if e, ok := errors.AsType[*oauth.DeniedError](err); ok {
		return Clean("The authorization server says: "+strings.TrimSpace(e.Code+" "+e.Text), maxError, false)
	}
	return Clean(err.Error(), maxError, false)
}

// takeLogin ends the login of a state in the browser that it is bound to. It works
// once.
func (d *Directory) takeLogin(ctx context.Context, state, browser string) (*entry, *login, error) {
	e, _, err := d.loginOf(ctx, state)
	if err != nil {
		return nil, nil, err
	}
	var taken login
	err = d.changeWallet(ctx, e.name, func(w *wallet) error {
		i := w.index(state, d.now())
		if i < 0 {
			return errors.New("the login was used already")
		}
		if subtle.ConstantTimeCompare([]byte(w.Logins[i].Browser), []byte(hashOf(browser))) != 1 {
			return errors.New("the login began in another browser")
		}
		taken = w.Logins[i]
		w.Logins = slices.Delete(w.Logins, i, i+1)
		return nil
	})
	return e, &taken, err
}

// Logout forgets the token of a user.
func (d *Directory) Logout(ctx context.Context, name string, user User) error {
	e, err := d.find(name)
	if err != nil {
		return err
	}
	if e.config.Auth.OAuth2 == nil {
		return ErrNoLogin
	}
	user = e.tokens.forUser(user)
	return d.changeWallet(ctx, name, func(w *wallet) error {
		w.Tokens = slices.DeleteFunc(w.Tokens, func(t userToken) bool { return t.User == user })
		return nil
	})
}
