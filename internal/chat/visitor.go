package chat

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

// The cookie of visitors. Over TLS its name keeps other hosts from setting it.
const (
	visitorCookie       = "handoff_visitor"
	secureVisitorCookie = "__Host-" + visitorCookie
	visitorLife         = 30 * 24 * time.Hour
	secretBytes         = 32
)

// Meters count what visitors send.
type Meters struct{ visitors, addresses, requests *auth.Meter }

// NewMeters returns meters that have counted nothing.
func NewMeters() *Meters {
	return &Meters{visitors: auth.NewMeter(), addresses: auth.NewMeter(), requests: auth.NewMeter()}
}

// admit finds out who is at the page, and refuses requests that another page may
// have made.
func (h *Handler) admit(r *http.Request, s *Surface) (auth.Principal, error) {
	if err := ownPage(r); err != nil {
		return auth.Principal{}, err
	}
	if err := checkBody(r, &s.Config); err != nil {
		return auth.Principal{}, err
	}
	return h.caller(r, s)
}

// caller returns who is at the page.
func (h *Handler) caller(r *http.Request, s *Surface) (auth.Principal, error) {
	p, err := h.opts.Auth.Authenticate(r)
	if a2a.CodeOf(err) == a2a.CodeUnauthenticated && h.opts.Browser.SessionID(r) != "" && !showsCredential(r) {
		// A session that has ended is none: who is at the page is whoever it would be
		// without its cookie, and no more than a visitor.
		without := r.Clone(r.Context())
		without.Header.Del("Cookie")
		p, err = h.opts.Auth.Authenticate(without)
	}
	switch {
	case err == nil && p.Named():
		return p, nil
	case err != nil && (showsCredential(r) || a2a.CodeOf(err) != a2a.CodeUnauthenticated):
		return auth.Principal{}, err
	case s.Config.Anonymous == config.ChatAnonymousCallers && err != nil:
		return auth.Principal{}, err
	case s.Config.Anonymous != config.ChatAnonymousCallers && s.Config.Anonymous != config.ChatAnonymousEverywhere:
		return auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "Sign in to talk to this agent")
	}
	secret := visitorOf(r)
	if secret == "" {
		return auth.Principal{}, a2a.Errorf(a2a.CodeUnauthenticated, "The browser has sent no cookie, which is how this page knows you again. Allow cookies for it, and load it again")
	}
	address := h.opts.Browser.Address(r)
	if wait := h.opts.Meters.requests.Take(&auth.Principal{Address: address}, s.Requests); wait > 0 {
		return auth.Principal{}, tooMany(wait)
	}
	return auth.Visitor(secret, address), nil
}

// meter counts a message of a visitor.
func (h *Handler) meter(p *auth.Principal, s *Surface) error {
	if p.Named() {
		return nil // the limits of the node count
	}
	wait := h.opts.Meters.addresses.Take(&auth.Principal{Address: p.Address}, perMinute(s.Config.AddressRate))
	if wait == 0 {
		wait = h.opts.Meters.visitors.Take(p, perMinute(s.Config.VisitorRate))
	}
	if wait > 0 {
		return tooMany(wait)
	}
	return nil
}

func perMinute(n int) auth.Rate { return auth.Rate{PerSecond: float64(n) / 60, Burst: n} }

func tooMany(wait time.Duration) error {
	return &a2a.Error{
		Code: a2a.CodeResourceExhausted, Message: "That was a lot at once. Wait a moment", RetryAfter: wait,
		Metadata: map[string]string{a2a.MetadataLimit: auth.LimitRequests},
	}
}

func showsCredential(r *http.Request) bool {
	return r.Header["Authorization"] != nil || r.Header["X-Api-Key"] != nil
}

// ownPage refuses what a page of another origin has sent, whatever cookies came with
// it: browsers say so in one of two headers. What they do not say it of are
// programs, which have no cookies of anybody else's.
func ownPage(r *http.Request) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin":
		return nil
	case "":
		origin := r.Header["Origin"]
		if len(origin) == 0 {
			return nil
		}
		if u, err := url.Parse(origin[0]); len(origin) == 1 && err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
			return nil
		}
	}
	return a2a.Errorf(a2a.CodePermissionDenied, "The request comes from a page of another origin")
}

// checkBody refuses a body that is no JSON, which any page could send, and one that
// is larger than the page takes.
func checkBody(r *http.Request, c *config.Chat) error {
	if r.Method != http.MethodPost {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mediaType != "application/json" && mediaType != a2a.MediaType {
		return a2a.Errorf(a2a.CodeContentTypeNotSupported, "The body has to be JSON; send Content-Type: application/json")
	}
	limit := bodyLimit(c)
	switch {
	case r.ContentLength < 0:
		return a2a.Errorf(a2a.CodeInvalidRequest, "The request does not say how long its body is")
	case r.ContentLength > limit:
		return a2a.Errorf(a2a.CodeTooLarge, "That is too much for one message")
	}
	return nil
}

// textBytes is what a message may have besides files.
const textBytes = 1 << 20

// bodyLimit is how large a request may be.
func bodyLimit(c *config.Chat) int64 {
	if !c.Files {
		return textBytes
	}
	return textBytes + int64(c.FileBytes)/3*4
}

// visitorOf returns the secret of a visitor, "" for none.
func visitorOf(r *http.Request) string {
	for _, name := range [...]string{secureVisitorCookie, visitorCookie} {
		if c, err := r.Cookie(name); err == nil && isSecret(c.Value) {
			return c.Value
		}
	}
	return ""
}

func isSecret(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(b) == secretBytes
}

// welcome gives a browser its secret, or lets it keep the one that it has.
func (h *Handler) welcome(w http.ResponseWriter, r *http.Request, s *Surface) {
	c := &http.Cookie{
		Name: visitorCookie, Value: visitorOf(r), Path: "/", MaxAge: int(visitorLife / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if c.Value == "" {
		secret := make([]byte, secretBytes)
		_, _ = rand.Read(secret) // never fails
		c.Value = base64.RawURLEncoding.EncodeToString(secret)
	}
	if strings.HasPrefix(h.opts.Base(r), "https://") {
		c.Name, c.Secure = secureVisitorCookie, true
		if len(s.Config.FrameAncestors) > 0 {
			// In the frame of another site the cookie is one of that site's visitors,
			// and of no other's.
			c.SameSite, c.Partitioned = http.SameSiteNoneMode, true
		}
	}
	http.SetCookie(w, c)
}

// session says who is at the page. The id stands for the owner of the tasks, and
// tells nothing of it.
func (h *Handler) session(_ *http.Request, _ *Surface, p *auth.Principal) (any, error) {
	sum := sha256.Sum256([]byte("handoff chat\x00" + p.Tenant + "\x00" + p.Subject))
	v := struct {
		ID      string `json:"id"`
		Name    string `json:"name,omitzero"`
		Visitor bool   `json:"visitor"`
	}{ID: base64.RawURLEncoding.EncodeToString(sum[:12]), Visitor: !p.Named()}
	if p.Named() {
		v.Name = cmp.Or(p.Subject, "you")
	}
	return v, nil
}
