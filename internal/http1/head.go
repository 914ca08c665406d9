package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// refusal is why a connection carries no request.
type refusal struct {
	status int
	why    string
}

func (e *refusal) Error() string { return e.why }

func bad(why string) error { return &refusal{http.StatusBadRequest, why} }

const (
	// slop is what net/http grants beyond the limit of a header.
	slop = 4 << 10
	// maxText is how long a head may be to be kept for the next request.
	maxText = 2 << 10
)

// read reads the head of a request, and makes the request of it.
func (c *conn) read() (*request, error) {
	if err := c.readHead(); err != nil {
		return nil, err
	}
	text := c.text
	if string(c.head) != text { // calls that come after one another are mostly alike
		text = string(c.head)
	}
	if c.text = text; len(text) > maxText {
		c.text = ""
	}
	ctx, cancel := context.WithCancel(c.base)
	r := &request{Request: none.WithContext(ctx), cancel: cancel}
	r.RemoteAddr, r.TLS = c.remote, c.tls
	if err := parse(text, r.Request); err != nil {
		cancel()
		return nil, err
	}
	c.setBody(r)
	return r, nil
}

var none http.Request

// readHead reads the head of a request, with the names of its fields canonical. Behind
// a POST there may be an empty line before it, of old clients (RFC 9112 §2.2).
func (c *conn) readHead() error {
	err := c.readLines()
	if err == nil && len(c.head) == 0 && c.posted {
		err = c.readLines()
	}
	if err != nil {
		return err
	}
	_, fields, _ := bytes.Cut(c.head, crlf)
	return canonicalize(fields)
}

// readLines reads up to an empty line, which is taken away. Every line ends with CRLF.
func (c *conn) readLines() error {
	c.head = c.head[:0]
	for start := 0; ; {
		part, err := c.in.ReadSlice('\n')
		c.head = append(c.head, part...)
		switch {
		case len(c.head) > c.server.opts.HeaderBytes+slop:
			return &refusal{http.StatusRequestHeaderFieldsTooLarge, "the header is too large"}
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return err
		}
		line := c.head[start:]
		switch {
		case !bytes.HasSuffix(line, crlf):
			return bad("a line of the header does not end with CR and LF")
		case len(line) == len(crlf):
			c.head = c.head[:start]
			return nil
		}
		start = len(c.head)
	}
}

// canonicalize checks fields, and writes their names the way that http.Header has them.
func canonicalize(fields []byte) error {
	for len(fields) > 0 {
		line, after, _ := bytes.Cut(fields, crlf)
		colon := bytes.IndexByte(line, ':')
		if colon < 1 {
			return bad("a line of the header is no field")
		}
		upper := true
		for i, b := range line[:colon] {
			switch {
			case !isToken[b]:
				return bad("the name of a field of the header is not valid")
			case upper && 'a' <= b && b <= 'z':
				line[i] = b - ('a' - 'A')
			case !upper && 'A' <= b && b <= 'Z':
				line[i] = b + ('a' - 'A')
			}
			upper = b == '-'
		}
		for _, b := range line[colon:] {
			if b < ' ' && b != '\t' || b == 0x7f {
				return bad("the value of a field of the header is not valid")
			}
		}
		fields = after
	}
	return nil
}

var crlf = []byte("\r\n")

// isToken are the bytes of a token (RFC 9110 §5.6.2).
var isToken = func() (is [256]bool) {
	for b := range 256 {
		is[b] = b < 0x80 && httpguts.IsTokenRune(rune(b))
	}
	return is
}()

// parse makes a request of a head whose names of fields are canonical.
func parse(head string, r *http.Request) error {
	line, fields, _ := strings.Cut(head, "\r\n")
	method, rest, ok := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || !httpguts.ValidHeaderFieldName(method) {
		return bad("the first line is not that of a request")
	}
	switch proto {
	case "HTTP/1.1":
		r.ProtoMinor = 1
	case "HTTP/1.0":
	default:
		if strings.HasPrefix(proto, "HTTP/") {
			return &refusal{http.StatusHTTPVersionNotSupported, "this connection speaks HTTP/1.1"}
		}
		return bad("the first line is not that of a request")
	}
	r.Proto, r.ProtoMajor = proto, 1
	r.Method, r.RequestURI = method, target
	if method == http.MethodConnect {
		return &refusal{http.StatusNotImplemented, "this is no proxy"}
	}
	var err error
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		return bad("the target of the request cannot be read")
	}
	r.Header = make(http.Header, min(strings.Count(fields, "\r\n"), maxHint))
	addFields(r.Header, fields)
	if err := findHost(r); err != nil {
		return err
	}
	r.Close = wantsClose(r)
	if err := findLength(r); err != nil {
		return err
	}
	if err := findTrailer(r); err != nil {
		return err
	}
	if expect := r.Header["Expect"]; expect != nil && (len(expect) > 1 || !is(expect[0], "100-continue")) {
		return &refusal{http.StatusExpectationFailed, "only 100-continue can be expected"}
	}
	return nil
}

// maxHint bounds the fields of a header for which there is room before they are seen.
const maxHint = 32

// is compares a token, whose case does not count, without taking other letters for
// those of ASCII.
func is(value, token string) bool { return len(value) == len(token) && strings.EqualFold(value, token) }

// findHost finds which host is meant (RFC 9112 §3.2).
func findHost(r *http.Request) error {
	hosts := r.Header["Host"]
	switch {
	case len(hosts) > 1:
		return bad("there is more than one Host")
	case len(hosts) == 0 && r.ProtoMinor == 1:
		return bad("there is no Host")
	case len(hosts) == 1 && !httpguts.ValidHostHeader(hosts[0]):
		return bad("the Host is not valid")
	}
	r.Host = r.URL.Host
	if r.Host == "" && len(hosts) == 1 {
		r.Host = hosts[0]
	}
	delete(r.Header, "Host")
	return nil
}

// wantsClose reports whether the connection ends with the request (RFC 9112 §9.3).
func wantsClose(r *http.Request) bool {
	connection := r.Header["Connection"]
	if connection == nil {
		return r.ProtoMinor == 0
	}
	return httpguts.HeaderValuesContainsToken(connection, "close") ||
		r.ProtoMinor == 0 && !httpguts.HeaderValuesContainsToken(connection, "keep-alive")
}

// findLength finds out how long the content is (RFC 9112 §6.3). What two readers could
// understand in two ways is refused.
func findLength(r *http.Request) error {
	lengths, encodings := r.Header["Content-Length"], r.Header["Transfer-Encoding"]
	switch {
	case encodings != nil && (lengths != nil || r.ProtoMinor == 0):
		return bad("the length of the content is given in two ways")
	case encodings != nil && (len(encodings) > 1 || !is(encodings[0], "chunked")):
		return &refusal{http.StatusNotImplemented, "the only Transfer-Encoding is chunked"}
	case encodings != nil:
		delete(r.Header, "Transfer-Encoding")
		r.TransferEncoding, r.ContentLength = []string{"chunked"}, -1
		return nil
	case lengths == nil:
		return nil
	case len(lengths) > 1:
		return bad("there is more than one Content-Length")
	}
	n, err := strconv.ParseUint(lengths[0], 10, 63)
	if err != nil {
		return bad("the Content-Length is no length")
	}
	r.ContentLength = int64(n)
	return nil
}

// findTrailer finds which fields are announced to come behind the content (RFC 9110
// §6.6.2).
func findTrailer(r *http.Request) error {
	announced := r.Header["Trailer"]
	if announced == nil || r.ContentLength >= 0 {
		return nil
	}
	delete(r.Header, "Trailer")
	r.Trailer = http.Header{}
	for name := range announcedBy(announced) {
		if !mayTrail(name) {
			return bad("the trailer has a field that it may not have")
		}
		r.Trailer[name] = nil
	}
	return nil
}

// announcedBy returns the names in the values of Trailer, as http.Header has them.
func announcedBy(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, value := range values {
			for name := range strings.SplitSeq(value, ",") {
				if name = textproto.CanonicalMIMEHeaderKey(strings.Trim(name, " \t")); name != "" && !yield(name) {
					return
				}
			}
		}
	}
}

// mayTrail reports whether a field may come behind the content.
func mayTrail(name string) bool {
	switch name {
	case "Transfer-Encoding", "Trailer", "Content-Length":
		return false
	}
	return true
}
