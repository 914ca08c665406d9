package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
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

// slop is what net/http grants beyond the limit of a header.
const slop = 4 << 10

// read reads the head of a request, and makes the request of it.
func (c *conn) read() (*request, error) {
	if err := c.readHead(); err != nil {
		return nil, err
	}
	if string(c.head) != c.text { // calls that come after one another are mostly alike
		c.text = string(c.head)
	}
	text := c.text
	if len(text) > room {
		c.head, c.text = nil, ""
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

// readHead reads the head of a request, with the names of its fields canonical. There
// may be an empty line before it (RFC 9112 §2.2).
func (c *conn) readHead() error {
	err := c.readLines()
	if err == nil && len(c.head) == 0 {
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
	parseFields(fields, r)
	if err := findHost(r); err != nil {
		return err
	}
	r.Close = wantsClose(r)
	if err := findLength(r); err != nil {
		return err
	}
	if expect := r.Header["Expect"]; expect != nil && (len(expect) > 1 || !strings.EqualFold(expect[0], "100-continue")) {
		return &refusal{http.StatusExpectationFailed, "only 100-continue can be expected"}
	}
	return nil
}

// parseFields reads the fields of the header.
func parseFields(fields string, r *http.Request) {
	n := strings.Count(fields, "\r\n")
	values := make([]string, n)
	r.Header = make(http.Header, n)
	for i := range values {
		var line string
		line, fields, _ = strings.Cut(fields, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if others := r.Header[name]; others != nil {
			r.Header[name] = append(others, value)
			continue
		}
		values[i] = value
		r.Header[name] = values[i : i+1 : i+1]
	}
}

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
	if r.ProtoMinor == 0 {
		return !httpguts.HeaderValuesContainsToken(connection, "keep-alive")
	}
	return connection != nil && httpguts.HeaderValuesContainsToken(connection, "close")
}

// findLength finds out how long the content is (RFC 9112 §6.3). What two readers could
// understand in two ways is refused.
func findLength(r *http.Request) error {
	lengths, encodings := r.Header["Content-Length"], r.Header["Transfer-Encoding"]
	switch {
	case encodings != nil && (lengths != nil || r.ProtoMinor == 0):
		return bad("the length of the content is given in two ways")
	case encodings != nil && (len(encodings) > 1 || !strings.EqualFold(encodings[0], "chunked")):
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
