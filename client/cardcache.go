package client

import (
	"container/list"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxCachedCards and maxCachedBytes bound a CardCache.
const (
	maxCachedCards = 256
	maxCachedBytes = 16 << 20
)

// CardCache keeps agent cards in memory as HTTP caching allows a shared cache (RFC
// 9111, A2A §8.6.2). A card that was asked for with credentials is never kept, and
// one that came to an http.Client is not given to another, whose cookies or client
// certificate may be those of somebody else. It holds 256 cards and 16 MiB at most
// and forgets those that were used longest ago. It is safe for use by several
// goroutines; the zero value is ready to use.
type CardCache struct {
	mu    sync.Mutex
	cards map[cardKey]*list.Element // of *cachedCard
	order list.List                 // most recently used first
	bytes int
}

// cardKey tells cards apart. The client is not freed while its card is kept, so
// that no other has its address.
type cardKey struct {
	client *http.Client
	url    string
}

// cachedCard is a card as it came.
type cachedCard struct {
	key          cardKey
	data         []byte
	expires      time.Time // fresh until then
	etag         string
	lastModified string
	vary         http.Header // of the request, by the names in Vary
}

// answers reports whether the card is what a request with those headers would
// get (RFC 9111 §4.1).
func (c *cachedCard) answers(request http.Header) bool {
	for name, values := range c.vary {
		if !slices.Equal(values, request.Values(name)) {
			return false
		}
	}
	return true
}

// varying returns the headers of a request that its answer depends on, and false
// when it depends on more than they say.
func varying(answer, request http.Header) (http.Header, bool) {
	var vary http.Header
	for _, line := range answer.Values("Vary") {
		for name := range strings.SplitSeq(line, ",") {
			switch name = strings.TrimSpace(name); name {
			case "":
				continue
			case "*":
				return nil, false
			}
			if vary == nil {
				vary = http.Header{}
			}
			vary[http.CanonicalHeaderKey(name)] = request.Values(name)
		}
	}
	return vary, true
}

// condition returns the headers that ask whether the card has changed, or nil.
func (c *cachedCard) condition() http.Header {
	switch {
	case c.etag != "":
		return http.Header{"If-None-Match": {c.etag}}
	case c.lastModified != "":
		return http.Header{"If-Modified-Since": {c.lastModified}}
	}
	return nil
}

// newCachedCard returns what is kept of an answer to a request, or nil when nothing
// may be. A 304 leaves out headers that have not changed; those come from before.
func newCachedCard(data []byte, h, request http.Header, before *cachedCard, now time.Time) *cachedCard {
	vary, ok := varying(h, request)
	if !ok {
		return nil
	}
	if vary == nil && before != nil {
		vary = before.vary
	}
	c := &cachedCard{data: data, vary: vary, etag: h.Get("ETag"), lastModified: h.Get("Last-Modified")}
	if before != nil {
		if c.etag == "" {
			c.etag = before.etag
		}
		if c.lastModified == "" {
			c.lastModified = before.lastModified
		}
	}
	lifetime, store := freshness(h, now)
	if !store || lifetime <= 0 && c.condition() == nil {
		return nil
	}
	c.expires = now.Add(lifetime)
	return c
}

// maxFreshness bounds how long a peer may have us keep a card unasked.
const maxFreshness = 24 * time.Hour

// freshness returns how long an answer is fresh, and whether it may be stored.
func freshness(h http.Header, now time.Time) (lifetime time.Duration, store bool) {
	maxAge, revalidate := time.Duration(-1), false
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store", "private":
				return 0, false
			case "no-cache":
				revalidate = true
			case "max-age":
				seconds, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 31)
				if err != nil {
					revalidate = true
				}
				maxAge = time.Duration(seconds) * time.Second
			}
		}
	}
	if revalidate {
		return 0, true
	}
	if maxAge < 0 {
		if at, err := http.ParseTime(h.Get("Expires")); err == nil {
			maxAge = at.Sub(now)
		}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		maxAge -= time.Duration(age) * time.Second
	}
	return min(max(maxAge, 0), maxFreshness), true
}

// get returns the card with that key. A nil cache has none.
func (c *CardCache) get(key cardKey) (*cachedCard, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.cards[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedCard), true
}

// put keeps the card under the key, or forgets it when card is nil.
func (c *CardCache) put(key cardKey, card *cachedCard) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.cards[key]; ok {
		c.remove(e)
	}
	if card == nil {
		return
	}
	if c.cards == nil {
		c.cards = make(map[cardKey]*list.Element)
	}
	card.key = key
	c.cards[key] = c.order.PushFront(card)
	c.bytes += len(card.data)
	for c.order.Len() > maxCachedCards || c.bytes > maxCachedBytes {
		c.remove(c.order.Back())
	}
}

func (c *CardCache) remove(e *list.Element) {
	card := c.order.Remove(e).(*cachedCard)
	delete(c.cards, card.key)
	c.bytes -= len(card.data)
}
