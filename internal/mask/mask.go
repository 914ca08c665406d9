// Package mask keeps what somebody was shown as a credential out of what comes back
// from there: texts, headers and bodies, at once or in pieces.
package mask

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what is masked.
const (
	minSecret  = 8  // bytes of a secret that is masked wherever it is
	minShort   = 4  // of one that is masked where it is a word of its own; shorter ones are found in any text
	maxSecrets = 64 // tokens that are remembered
	maskRead   = 32 << 10
	// sureOf is how many bytes have to match before an event of a gRPC stream, which
	// can end with any byte, is held back.
	sureOf = 6
)

// Secrets are what somebody was shown, in the forms in which it may come back. It is
// safe for concurrent use; its zero value is empty.
type Secrets struct {
	mu     sync.Mutex
	fixed  [][]byte
	short  []string // those that are masked as words only
	tokens [][]byte // that came later, oldest first
	all    atomic.Pointer[[][]byte]
}

// New returns the secrets that a configuration has. Those of less than four bytes are
// in any text, and are not looked for.
func New(secrets ...string) *Secrets {
	s := &Secrets{}
	for _, text := range secrets {
		s.fixed = append(s.fixed, forms(text)...)
		if minShort <= len(text) && len(text) < minSecret {
			s.short = append(s.short, text)
		}
	}
	s.publish()
	return s
}

// forms returns a secret as it is, and as URLs and JSON have it. The longest comes
// first.
func forms(text string) [][]byte {
	if len(text) < minSecret {
		return nil
	}
	all := []string{text, url.QueryEscape(text), url.PathEscape(text), strings.ReplaceAll(text, "/", `\/`)}
	if quoted, err := jsontext.AppendQuote(nil, text); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	var out [][]byte
	for _, form := range slices.Compact(all) {
		out = append(out, []byte(form))
	}
	return out
}

// Add remembers a token that is about to be shown. The oldest are forgotten when there
// are many.
func (s *Secrets) Add(token string) {
	of := forms(token)
	if len(of) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.tokens, func(known []byte) bool { return bytes.Equal(known, of[0]) }) {
		return
	}
	s.tokens = append(s.tokens, of...)
	s.tokens = s.tokens[max(0, len(s.tokens)-maxSecrets):]
	s.publish()
}

func (s *Secrets) publish() {
	all := slices.Concat(s.fixed, s.tokens)
	slices.SortStableFunc(all, func(a, b []byte) int { return len(b) - len(a) })
	s.all.Store(&all)
}

func (s *Secrets) list() [][]byte {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Text returns a text with *** for what is secret.
func (s *Secrets) Text(text string) string {
	text = s.anywhere(text)
	for _, secret := range s.short {
		text = replaceWord(text, secret)
	}
	return text
}

// anywhere masks those secrets that are long enough to be found within words.
func (s *Secrets) anywhere(text string) string {
	for _, secret := range s.list() {
		if strings.Contains(text, string(secret)) {
			text = strings.ReplaceAll(text, string(secret), "***")
		}
	}
	return text
}

// replaceWord replaces a secret where no letter or digit stands beside it.
func replaceWord(text, secret string) string {
	var b strings.Builder
	rest, before := text, byte(' ')
	for {
		i := strings.Index(rest, secret)
		if i < 0 {
			break
		}
		end := i + len(secret)
		if i > 0 {
			before = rest[i-1]
		}
		if wordly(before) || end < len(rest) && wordly(rest[end]) {
			b.WriteString(rest[:i+1])
			before, rest = rest[i], rest[i+1:]
			continue
		}
		b.WriteString(rest[:i] + "***")
		before, rest = secret[len(secret)-1], rest[end:]
	}
	if b.Len() == 0 {
		return text
	}
	return b.String() + rest
}

func wordly(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// Header masks the values of a header.
func (s *Secrets) Header(h http.Header) {
	for _, values := range h {
		for i := range values {
			values[i] = s.Text(values[i])
		}
	}
}

// Response masks an answer over HTTP: as many asterisks as the secret has bytes, so
// that lengths stay what they are.
func (s *Secrets) Response(r *http.Response) {
	if len(s.list()) == 0 {
		return
	}
	r.Status = s.Text(r.Status)
	s.Header(r.Header)
	if r.Body != nil && r.Body != http.NoBody {
		m := &masked{source: r.Body, response: r, secrets: s, least: 1}
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			m.least = sureOf
		}
		r.Body = m
	}
}

// masked is a body without the secrets. What could be the beginning of one is held
// back until it is known not to be.
type masked struct {
	source   io.ReadCloser
	response *http.Response
	secrets  *Secrets
	least    int // bytes of a beginning that are held back
	buf      []byte
	ready    int // bytes of buf that can be given
	err      error
}

// Read reads what was masked.
func (m *masked) Read(p []byte) (int, error) {
	for m.ready == 0 && m.err == nil {
		m.fill()
	}
	if m.ready == 0 {
		return 0, m.err
	}
	n := copy(p, m.buf[:m.ready])
	m.buf, m.ready = m.buf[n:], m.ready-n
	return n, nil
}

func (m *masked) fill() {
	held := len(m.buf)
	next := make([]byte, held+maskRead)
	copy(next, m.buf)
	n, err := m.source.Read(next[held:])
	m.buf, m.err = next[:held+n], err
	m.ready = len(m.buf)
	for _, secret := range m.secrets.list() {
		overwrite(m.buf, secret)
	}
	if err != nil {
		m.secrets.Header(m.response.Trailer)
		return
	}
	for _, secret := range m.secrets.list() {
		m.ready = min(m.ready, len(m.buf)-begun(m.buf, secret, m.least))
	}
}

// Close closes the body.
func (m *masked) Close() error { return m.source.Close() }

// overwrite masks a secret in place.
func overwrite(buf, secret []byte) {
	for rest := buf; ; {
		i := bytes.Index(rest, secret)
		if i < 0 {
			return
		}
		for j := range secret {
			rest[i+j] = '*'
		}
		rest = rest[i+len(secret):]
	}
}

// begun returns how many bytes at the end of buf are the beginning of a secret, if
// they are as many as least.
func begun(buf, secret []byte, least int) int {
	for n := min(len(buf), len(secret)-1); n >= least; n-- {
		if buf[len(buf)-n] == secret[0] && bytes.HasSuffix(buf, secret[:n]) {
			return n
		}
	}
	return 0
}

// Stream masks a text that comes in pieces. What may be the beginning of a secret is
// held back until it is known. It is for one goroutine.
type Stream struct {
	secrets *Secrets
	held    string
}

// Stream returns what masks one text.
func (s *Secrets) Stream() *Stream { return &Stream{secrets: s} }

// Add returns what may be told of the text so far.
func (m *Stream) Add(piece string) string {
	text := m.secrets.anywhere(m.held + piece)
	keep := 0
	for _, secret := range m.secrets.list() {
		keep = max(keep, begun([]byte(text), secret, 1))
	}
	m.held = text[len(text)-keep:]
	return text[:len(text)-keep]
}

// Rest returns what was held back, at the end of the text.
func (m *Stream) Rest() string {
	text := m.held
	m.held = ""
	return text
}
