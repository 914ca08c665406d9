package peer

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/config"
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

// secrets are what a peer was shown, in the forms in which it may come back. It is
// safe for concurrent use; its zero value is empty.
type secrets struct {
	mu     sync.Mutex
	fixed  [][]byte // of the configuration
	short  []string // of it, those that are masked as words only
	tokens [][]byte // of an authorization server, oldest first
	all    atomic.Pointer[[][]byte]
}

// newSecrets returns the secrets of a configuration.
func newSecrets(auth *config.PeerAuth) *secrets {
	s := &secrets{}
	add := func(text string) {
		s.fixed = append(s.fixed, forms(text)...)
		if minShort <= len(text) && len(text) < minSecret {
			s.short = append(s.short, text)
		}
	}
	add(auth.Bearer.Reveal())
	if auth.Key != nil {
		add(auth.Key.Value.Reveal())
	}
	if b := auth.Basic; b != nil {
		add(b.Password.Reveal())
		add(base64.StdEncoding.EncodeToString([]byte(b.User + ":" + b.Password.Reveal())))
	}
	if o := auth.OAuth2; o != nil {
		add(o.ClientSecret.Reveal())
		if secret := o.ClientSecret.Reveal(); secret != "" {
			add(base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(o.ClientID) + ":" + url.QueryEscape(secret))))
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

// add remembers a token that is about to be shown.
func (s *secrets) add(token string) {
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

func (s *secrets) publish() {
	all := slices.Concat(s.fixed, s.tokens)
	slices.SortStableFunc(all, func(a, b []byte) int { return len(b) - len(a) })
	s.all.Store(&all)
}

func (s *secrets) list() [][]byte {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// text returns a text with *** for what is secret.
func (s *secrets) text(text string) string {
	for _, secret := range s.list() {
		if strings.Contains(text, string(secret)) {
			text = strings.ReplaceAll(text, string(secret), "***")
		}
	}
	for _, secret := range s.short {
		text = replaceWord(text, secret)
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

// header masks the values of a header.
func (s *secrets) header(h http.Header) {
	for _, values := range h {
		for i := range values {
			values[i] = s.text(values[i])
		}
	}
}

// response masks what a peer answers: as many asterisks as the secret has bytes, so
// that lengths stay what they are.
func (s *secrets) response(r *http.Response) {
	if len(s.list()) == 0 {
		return
	}
	r.Status = s.text(r.Status)
	s.header(r.Header)
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
	secrets  *secrets
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
		mask(m.buf, secret)
	}
	if err != nil {
		m.secrets.header(m.response.Trailer)
		return
	}
	for _, secret := range m.secrets.list() {
		m.ready = min(m.ready, len(m.buf)-begun(m.buf, secret, m.least))
	}
}

// Close closes the body.
func (m *masked) Close() error { return m.source.Close() }

// mask overwrites a secret.
func mask(buf, secret []byte) {
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
