package peer

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/mask"
	"handoff.example/handoff/internal/netguard"
)

// longest is how long a peer may take to begin its answer where nothing else
// bounds it: the limits are those of each call.
const longest = 24 * time.Hour

// way is the way out to one peer. What the operator named, the peer's own origins,
// may be private and sees the client certificate. What a card or a redirect names
// elsewhere has to be public, or allowed, and sees nothing (rows S8, S9).
type way struct {
	own        []*url.URL
	configured http.RoundTripper
	named      http.RoundTripper
	secrets    *mask.Secrets // what the peer was shown, which no answer brings back
}

// newWay returns the way to a peer whose origins are those of the URLs.
func newWay(guard *netguard.Guard, p *config.Peer, own []*url.URL, path func(string) string) (*way, error) {
	o := netguard.Options{
		DialTimeout: p.ConnectTimeout.Std(), TLSTimeout: p.ConnectTimeout.Std(), HeaderTimeout: longest, MaxRedirects: -1,
	}
	w := &way{own: own, named: guard.Named(o).Transport, secrets: secretsOf(&p.Auth)}
	if p.CA != "" || p.Auth.MTLS != nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if p.CA != "" {
		pem, err := os.ReadFile(path(p.CA))
		if err != nil {
			return nil, &FieldError{"ca", err}
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &FieldError{"ca", errors.New("has no certificate in PEM form")}
		}
	}
	if m := p.Auth.MTLS; m != nil {
		certificate, err := tls.LoadX509KeyPair(path(m.Cert), path(m.Key))
		if err != nil {
			return nil, &FieldError{"auth.mtls", err}
		}
		o.TLS.Certificates = []tls.Certificate{certificate}
	}
	w.configured = guard.Configured(o).Transport
	return w, nil
}

// secretsOf returns what a peer is shown by its configuration.
func secretsOf(auth *config.PeerAuth) *mask.Secrets {
	list := []string{auth.Bearer.Reveal()}
	if auth.Key != nil {
		list = append(list, auth.Key.Value.Reveal())
	}
	if b := auth.Basic; b != nil {
		list = append(list, b.Password.Reveal(), base64.StdEncoding.EncodeToString([]byte(b.User+":"+b.Password.Reveal())))
	}
	if o := auth.OAuth2; o != nil && !o.ClientSecret.IsZero() {
		secret := o.ClientSecret.Reveal()
		list = append(list, secret, base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(o.ClientID)+":"+url.QueryEscape(secret))))
	}
	return mask.New(list...)
}

// owns reports whether a URL is at an origin of the peer's.
func (w *way) owns(u *url.URL) bool {
	return slices.ContainsFunc(w.own, func(own *url.URL) bool { return netguard.SameOrigin(own, u) })
}

// RoundTrip sends a request the way that its address has to go. The secrets that
// the peer was shown are masked in what it answers.
func (w *way) RoundTrip(r *http.Request) (*http.Response, error) {
	by := w.named
	if w.owns(r.URL) {
		by = w.configured
	}
	response, err := by.RoundTrip(r)
	if err == nil {
		w.secrets.Response(response)
	}
	return response, err
}

// HTTP2Only returns the same way for what speaks HTTP/2 alone, such as gRPC.
func (w *way) HTTP2Only() http.RoundTripper {
	return &way{own: w.own, configured: client.HTTP2Only(w.configured), named: client.HTTP2Only(w.named), secrets: w.secrets}
}

// CloseIdleConnections closes what is in the pools.
func (w *way) CloseIdleConnections() {
	for _, t := range []http.RoundTripper{w.configured, w.named} {
		if c, ok := t.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}

// client returns an HTTP client that goes this way. Redirects stay at the peer's
// origins.
func (w *way) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if !w.owns(next.URL) {
			return &netguard.BlockedError{
				Address: next.URL.Scheme + "://" + next.URL.Host,
				Reason:  "it is a redirect to another origin; list it in origins of the peer if it is right",
			}
		}
		return nil
	}}
}

// parseOrigins returns the URLs of texts that the configuration has checked.
func parseOrigins(texts ...string) ([]*url.URL, error) {
	var own []*url.URL
	for _, text := range texts {
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("read origin: %w", err)
		}
		own = append(own, u)
	}
	return own, nil
}

// originOf returns scheme, host and port of a URL for people, or "".
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// FieldError is what is wrong with one key of a peer's configuration.
type FieldError struct {
	Path string // below the peer
	Err  error
}

// Error says what is wrong with which key.
func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }
