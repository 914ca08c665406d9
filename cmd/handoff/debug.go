package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/client"
)

// redacted stands for what is not shown.
const redacted = "***"

// maxLoggedLine bounds a line of a body in the log, in bytes. A longer one is
// told by its length alone, since a cut could leave half a secret.
const maxLoggedLine = 64 << 10

// redactor hides the texts that nobody may read.
type redactor struct {
	texts []string // in every form in which they travel
	short []string // hidden where they are the value of a header or parameter
}

// minRedacted is the length, in bytes, from which a secret is hidden within
// other text. A shorter one is found in words that have nothing to do with it.
const minRedacted = 8

func newRedactor(secrets []string) redactor {
	var r redactor
	for _, s := range secrets {
		if len(s) < minRedacted {
			if s != "" {
				r.short = append(r.short, s)
			}
			continue
		}
		quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, ""))
		r.texts = append(r.texts, s, url.QueryEscape(s), url.PathEscape(s), string(quoted[1:len(quoted)-1]))
	}
	// A secret that holds another one goes first, or its rest would stay.
	slices.SortFunc(r.texts, func(a, b string) int { return len(b) - len(a) })
	return r
}

// hide returns the text without the secrets.
func (r redactor) hide(text string) string {
	for _, s := range r.texts {
		text = strings.ReplaceAll(text, s, redacted)
	}
	return text
}

// hides reports whether the value of a header or parameter is a short secret,
// or has one for a word, such as the token of Bearer.
func (r redactor) hides(value string) bool {
	return slices.ContainsFunc(r.short, func(s string) bool {
		return value == s || slices.Contains(strings.Fields(value), s)
	})
}

// wireLog writes what goes over the wire to standard error, without
// credentials (a2a-cli §12.1).
type wireLog struct {
	mu      sync.Mutex
	w       io.Writer
	now     func() time.Time
	secrets redactor
}

// printf writes a line.
func (l *wireLog) printf(format string, args ...any) {
	text := visible(l.redact(fmt.Sprintf(format, args...)))
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "debug %s %s\n", l.now().UTC().Format("15:04:05.000"), text)
}

// secretName is the name of a header, parameter or member that holds a
// credential, whoever chose it.
var secretName = regexp.MustCompile(`(?i)(auth|token|secret|passw|credential|cookie|session|signature|key$)`)

// secretMember finds members of JSON whose text is a credential.
var secretMember = regexp.MustCompile(`(?i)"([a-z_-]*(?:token|secret|passw|credential|api_?key)[a-z_-]*)"(\s*:\s*)"(?:[^"\\]|\\.)*"`)

func (l *wireLog) redact(text string) string {
	text = secretMember.ReplaceAllStringFunc(text, func(member string) string {
		m := secretMember.FindStringSubmatch(member)
		if m[1] == "nextPageToken" || m[1] == "pageToken" {
			return member
		}
		return `"` + m[1] + `"` + m[2] + `"` + redacted + `"`
	})
	return l.secrets.hide(text)
}

// address returns a URL without credentials.
func (l *wireLog) address(u *url.URL) string {
	v := *u
	v.User = nil
	if v.RawQuery != "" {
		q := v.Query()
		for name := range q {
			if secretName.MatchString(name) && name != "pageToken" || slices.ContainsFunc(q[name], l.secrets.hides) {
				q[name] = []string{redacted}
			}
		}
		v.RawQuery = strings.ReplaceAll(q.Encode(), url.QueryEscape(redacted), redacted)
	}
	return v.String()
}

func (l *wireLog) header(prefix string, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := strings.Join(h[name], ", ")
		if secretName.MatchString(name) && !strings.EqualFold(name, "WWW-Authenticate") || l.secrets.hides(value) {
			value = redacted
		}
		l.printf("%s %s: %s", prefix, name, value)
	}
}

// loggedTransport logs every request and its answer.
type loggedTransport struct {
	base http.RoundTripper
	log  *wireLog
}

// HTTP2Only is for the client, which speaks gRPC.
func (t *loggedTransport) HTTP2Only() http.RoundTripper {
	return &loggedTransport{base: client.HTTP2Only(t.base), log: t.log}
}

// RoundTrip sends the request.
func (t *loggedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.log.printf("> %s %s", r.Method, t.log.address(r.URL))
	t.log.header(">", r.Header)
	if r.GetBody != nil && !isProtobuf(r.Header) {
		if body, err := r.GetBody(); err == nil {
			data, _ := io.ReadAll(io.LimitReader(body, maxLoggedLine+1))
			t.log.line(">", data)
			body.Close()
		}
	}
	start := t.log.now()
	resp, err := t.base.RoundTrip(r)
	took := t.log.now().Sub(start).Round(time.Millisecond)
	if err != nil {
		t.log.printf("< no answer after %s: %v", took, err)
		return nil, err
	}
	t.log.printf("< %s after %s", resp.Status, took)
	t.log.header("<", resp.Header)
	if !isProtobuf(resp.Header) {
		resp.Body = &loggedBody{ReadCloser: resp.Body, log: t.log}
	}
	return resp, nil
}

// isProtobuf reports whether a body is one of gRPC, which nobody can read.
func isProtobuf(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}

// line logs a line of a body.
func (l *wireLog) line(prefix string, line []byte) {
	line = bytes.TrimRight(line, "\r\n")
	switch {
	case len(line) > maxLoggedLine:
		l.printf("%s (more than %d bytes, not shown)", prefix, maxLoggedLine)
	case len(line) > 0:
		l.printf("%s %s", prefix, line)
	}
}

// loggedBody logs a body as it is read, line by line.
type loggedBody struct {
	io.ReadCloser
	log  *wireLog
	line []byte
}

// Read reads from the body.
func (b *loggedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	rest := p[:n]
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		b.add(rest[:i])
		b.flush()
		rest = rest[i+1:]
	}
	b.add(rest)
	if err != nil {
		b.flush()
	}
	return n, err
}

func (b *loggedBody) add(data []byte) {
	if room := maxLoggedLine + 1 - len(b.line); room > 0 {
		b.line = append(b.line, data[:min(room, len(data))]...)
	}
}

func (b *loggedBody) flush() {
	b.log.line("<", b.line)
	b.line = b.line[:0]
}

// Close logs what is left and closes the body.
func (b *loggedBody) Close() error {
	b.flush()
	return b.ReadCloser.Close()
}
