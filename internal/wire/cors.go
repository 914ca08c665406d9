package wire

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS says which web pages may call from a browser. The zero CORS lets none.
type CORS struct {
	Origins []string // such as https://app.example.com; "*": any
	Headers []string // that pages may send besides those of the protocol
	MaxAge  time.Duration
}

// cors is a CORS made ready.
type cors struct {
	any     bool
	origins []string
	headers []string
	maxAge  []string
}

// Headers of the protocol that a page may send, and those that it may read.
var (
	corsHeaders = []string{
		"Accept", "Authorization", "X-API-Key", "Content-Type", "A2A-Version", "A2A-Extensions", "X-A2A-Extensions",
		"Last-Event-ID", "Traceparent", "Tracestate", "X-API-Key", "X-Request-Id",
		"Connect-Protocol-Version", "Connect-Timeout-Ms", "Grpc-Timeout", "X-Grpc-Web", "X-User-Agent",
	}
	corsMethods = []string{"GET, HEAD, POST, DELETE, OPTIONS"}
	corsExposed = []string{"A2A-Extensions, ETag, Grpc-Message, Grpc-Status, Grpc-Status-Details-Bin, Retry-After, WWW-Authenticate, X-Request-Id"}
	corsAny     = []string{"*"}
)

func newCORS(c CORS) cors {
	return cors{
		any:     slices.Contains(c.Origins, "*"),
		origins: c.Origins,
		headers: []string{strings.Join(append(slices.Clip(slices.Clone(corsHeaders)), c.Headers...), ", ")},
		maxAge:  []string{strconv.Itoa(int(c.MaxAge.Seconds()))},
	}
}

// answer sets the headers that let a page read the answer, if it may. Cookies
// are never involved, so that nothing is said of credentials.
func (c *cors) answer(header http.Header, r *http.Request) {
	if len(c.origins) == 0 {
		return
	}
	if !c.any {
		header["Vary"] = append(header["Vary"], "Origin")
	}
	origin := r.Header["Origin"]
	if len(origin) != 1 {
		return
	}
	switch {
	case c.any:
		header["Access-Control-Allow-Origin"] = corsAny
	case c.lists(origin[0]):
		header["Access-Control-Allow-Origin"] = origin
	default:
		return
	}
	header["Access-Control-Expose-Headers"] = corsExposed
	if r.Method == http.MethodOptions && r.Header["Access-Control-Request-Method"] != nil {
		header["Access-Control-Allow-Methods"] = corsMethods
		header["Access-Control-Allow-Headers"] = c.headers
		header["Access-Control-Max-Age"] = c.maxAge
	}
}

// lists reports whether the operator has named an origin. "*" names none.
func (c *cors) lists(origin string) bool {
	return origin != "*" && slices.ContainsFunc(c.origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// known returns the request as it is authenticated. Pages of an origin that the
// operator has named may do what a program on the same machine may, so that
// nothing is said of them; the others are strangers.
func (c *cors) known(r *http.Request) *http.Request {
	origin := r.Header["Origin"]
	if len(origin) != 1 || !c.lists(origin[0]) {
		return r
	}
	same := *r
	same.Header = maps.Clone(r.Header)
	delete(same.Header, "Origin")
	return &same
}
