package card

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/config"
)

// Canonical returns the bytes of a card that are signed and compared: without
// its signatures, in the form of RFC 8785 (A2A §8.4.1).
func Canonical(card *a2a.AgentCard) ([]byte, error) {
	unsigned := *card
	unsigned.Signatures = nil
	value := jsontext.Value(unsigned.AppendJSON(nil))
	if err := value.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonicalize card: %w", err)
	}
	return value, nil
}

// Digest returns the SHA-256 of the canonical bytes, in base64url. Two cards
// that say the same have the same digest, whoever signed them.
func Digest(card *a2a.AgentCard) (string, error) {
	canonical, err := Canonical(card)
	if err != nil {
		return "", err
	}
	return digest(canonical), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Document is a card as it is served.
type Document struct {
	body    []byte
	etag    string
	derived bool // from what a request says
}

// NewDocument returns the document of those bytes of JSON.
func NewDocument(body []byte) Document {
	return Document{body: body, etag: `"` + digest(body) + `"`}
}

// Body returns the bytes. They are not to be changed.
func (d Document) Body() []byte { return d.body }

// ETag returns the entity tag, a strong one, with its quotes.
func (d Document) ETag() string { return d.etag }

// Serve answers a request for the card of those bytes; see Document.Serve.
func Serve(w http.ResponseWriter, r *http.Request, body []byte, maxAge time.Duration) {
	NewDocument(body).Serve(w, r, maxAge)
}

// Serve answers GET and HEAD, with 304 to a client that has the card already
// (A2A §8.6.1, RFC 9110 §13.1.2), and refuses other methods. Where the URLs of
// the card come from the request, caches are told (RFC 9110 §12.5.5).
func (d Document) Serve(w http.ResponseWriter, r *http.Request, maxAge time.Duration) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		header.Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusMethodNotAllowed)
		w.Write([]byte(`{"error":{"code":405,"status":"UNIMPLEMENTED","message":"An agent card is read with GET or HEAD"}}`))
		return
	}
	header.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(max(0, maxAge)/time.Second)))
	header.Set("ETag", d.etag)
	if d.derived {
		header.Add("Vary", "Host, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix, Forwarded")
	}
	if matches(r.Header.Values("If-None-Match"), d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(len(d.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		w.Write(d.body)
	}
}

// matches reports whether If-None-Match names an entity tag, by the weak
// comparison of RFC 9110 §8.8.3.2. A list that is malformed matches nothing
// beyond its fault.
func matches(values []string, etag string) bool {
	rest := strings.TrimSpace(strings.Join(values, ","))
	if rest == "*" {
		return true
	}
	for rest != "" {
		rest = strings.TrimLeft(rest, ", \t")
		rest = strings.TrimPrefix(rest, "W/")
		if !strings.HasPrefix(rest, `"`) {
			return false
		}
		end := strings.IndexByte(rest[1:], '"')
		if end < 0 {
			return false
		}
		if rest[:end+2] == etag {
			return true
		}
		rest = rest[end+2:]
	}
	return false
}

// maxDocuments bounds the documents that a publisher keeps. Without public_url
// a client chooses the base URL, by its Host header.
const maxDocuments = 256

// Publisher hands out the cards of a configuration. It builds a card once per
// base URL, within bounds. It is safe for concurrent use.
type Publisher struct {
	config *config.Config

	mu        sync.Mutex
	documents map[key]Document
}

type key struct{ id, tenant, base string }

// NewPublisher returns a publisher of a configuration, which must not change.
func NewPublisher(c *config.Config) *Publisher {
	return &Publisher{config: c, documents: map[key]Document{}}
}

// Document returns the card of an agent below a base URL, or false when there
// is no such agent or tenant.
func (p *Publisher) Document(id, tenant, base string) (Document, bool) {
	agent := p.config.Agents[id]
	if agent == nil || tenant != "" && !slices.Contains(agent.Tenants, tenant) {
		return Document{}, false
	}
	k := key{id, tenant, base}
	p.mu.Lock()
	document, ok := p.documents[k]
	p.mu.Unlock()
	if ok {
		return document, true
	}
	document = NewDocument(v03.AppendCard(nil, For(p.config, id, base, tenant)))
	document.derived = p.config.PublicURL == ""
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.documents) >= maxDocuments {
		// Any will do: they cost microseconds to make.
		for k := range maps.Keys(p.documents) {
			delete(p.documents, k)
			break
		}
	}
	p.documents[k] = document
	return document, true
}
