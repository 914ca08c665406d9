package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// anyOrigin in Options.Origins allows every origin.
const anyOrigin = "*"

const maxRedirects = 5

// originOf returns scheme, host and port of an http or https address, or "" for
// any other.
func originOf(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	if scheme != "http" && scheme != "https" || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return scheme + "://" + net.JoinHostPort(host, port)
}

func parseOrigin(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%q is not an origin such as https://api.example.com", text)
	}
	origin := originOf(u)
	if origin == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return "", fmt.Errorf("%q is not an origin such as https://api.example.com", text)
	}
	return origin, nil
}

// originSet is what credentials and redirects may go to.
type originSet struct {
	any     bool
	origins []string
}

// newOriginSet returns the allowed origins of validated options.
func newOriginSet(o *Options) originSet {
	var s originSet
	if u, err := url.Parse(o.CardURL); err == nil {
		if origin := originOf(u); origin != "" {
			s.origins = append(s.origins, origin)
		}
	}
	for _, text := range o.Origins {
		if text == anyOrigin {
			s.any = true
		} else if origin, err := parseOrigin(text); err == nil {
			s.origins = append(s.origins, origin)
		}
	}
	return s
}

func (s *originSet) allows(u *url.URL) bool {
	origin := originOf(u)
	return origin != "" && (s.any || slices.Contains(s.origins, origin))
}

// checkRedirect decides on a redirect. Credentials never leave the allowed
// origins; without credentials only a card may be found elsewhere.
func (l *link) checkRedirect(next *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	target := originOf(next.URL)
	switch {
	case len(via) > maxRedirects:
		return &refusedError{fmt.Sprintf("more than %d redirects", maxRedirects)}
	case target == "":
		return &refusedError{"redirected to something that is not HTTP"}
	case next.Method != last.Method:
		return &refusedError{fmt.Sprintf("a redirect turned %s into %s", last.Method, next.Method)}
	case last.URL.Scheme == "https" && next.URL.Scheme != "https":
		return &refusedError{"redirected from https to http"}
	}
	sameOrigin := target == originOf(via[0].URL)
	roam := l.roams && l.opts.Credentials == nil
	if !sameOrigin && !roam && !l.origins.allows(next.URL) {
		return &refusedError{fmt.Sprintf("redirected to %s: origin not allowed; list it in Origins if it is right", target)}
	}
	next.URL.User = nil
	if l.credentials != nil {
		if err := l.credentials.Apply(next.Context(), next); err != nil {
			return fmt.Errorf("apply credentials: %w", err)
		}
	}
	if check := l.opts.HTTPClient.CheckRedirect; check != nil {
		return check(next, via)
	}
	return nil
}
