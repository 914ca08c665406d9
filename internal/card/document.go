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

// Matches reports whether a client has the document already, by its
// If-None-Match (RFC 9110 §13.1.2).
func (d Document) Matches(r *http.Request) bool {
	return matches(r.Header.Values("If-None-Match"), d.etag)
}

// maxDocuments bounds the documents that a publisher keeps. Without public_url
// a client chooses the base URL, by its Host header.
const maxDocuments = 256

// Publisher hands out the cards of a configuration. It builds and signs a card
// once per base URL, within bounds. It is safe for concurrent use.
type Publisher struct {
	config *config.Config
	signer *Signer

	mu        sync.Mutex
	documents map[key]Document
}

// key names a document. The skills of an extended card are those that the
// caller may use, a byte for each, and all that is the caller's in it.
type key struct {
	id, tenant, base string
	extended, old    bool
	skills           string
}

// NewPublisher returns a publisher of a configuration, which must not change.
// Its cards are signed by the signer; nil signs none.
func NewPublisher(c *config.Config, signer *Signer) *Publisher {
	return &Publisher{config: c, signer: signer, documents: map[key]Document{}}
}

// Document returns the card of an agent below a base URL, or false when there
// is no such agent or tenant. The error is that of the signer.
func (p *Publisher) Document(id, tenant, base string) (Document, bool, error) {
	agent := p.agent(id, tenant)
	if agent == nil {
		return Document{}, false, nil
	}
	document, err := p.document(key{id: id, tenant: tenant, base: base}, func() []byte { return v03.AppendCard(nil, For(p.config, id, base, tenant)) })
	return document, err == nil, err
}

// Extended returns the extended card of an agent for a caller with those
// scopes; see ForExtended. It returns false when there is no such agent or
// tenant, and when the agent has no extended card. With old it has what clients
// of version 0.3 look for too.
func (p *Publisher) Extended(id, tenant, base string, scopes []string, old bool) (Document, bool, error) {
	agent := p.agent(id, tenant)
	if agent == nil || agent.Extended == nil {
		return Document{}, false, nil
	}
	k := key{id: id, tenant: tenant, base: base, extended: true, old: old}
	for _, skill := range agent.AllSkills() {
		if holds(scopes, skill.Scopes) {
			k.skills += "1"
		} else {
			k.skills += "0"
		}
	}
	document, err := p.document(k, func() []byte {
		card := ForExtended(p.config, id, base, tenant, scopes)
		if old {
			return v03.AppendCard(nil, card)
		}
		return card.AppendJSON(nil)
	})
	return document, err == nil, err
}

func (p *Publisher) agent(id, tenant string) *config.Agent {
	agent := p.config.Agents[id]
	if agent == nil || tenant != "" && !slices.Contains(agent.Tenants, tenant) {
		return nil
	}
	return agent
}

// document returns the document of a key, which is built when it is not kept.
func (p *Publisher) document(k key, build func() []byte) (Document, error) {
	p.mu.Lock()
	document, ok := p.documents[k]
	p.mu.Unlock()
	if ok {
		return document, nil
	}
	body := build()
	if p.signer != nil {
		var err error
		if body, err = p.signer.Sign(body); err != nil {
			return Document{}, fmt.Errorf("sign card of agent %s: %w", k.id, err)
		}
	}
	document = NewDocument(body)
	document.derived = p.config.PublicURL == ""
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.documents) >= maxDocuments {
		// Any will do: they cost microseconds to make, and signed ones have one
		// base URL.
		for k := range maps.Keys(p.documents) {
			delete(p.documents, k)
			break
		}
	}
	p.documents[k] = document
	return document, nil
}
