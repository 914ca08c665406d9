package client

import (
	"container/list"
	"net/http"
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

// CardCache keeps agent cards in memory as HTTP caching allows (RFC 9111, A2A
// §8.6.2). It holds 256 cards and 16 MiB at most and forgets those that were
// used longest ago. It is safe for use by several goroutines; the zero value is
// ready to use.
type CardCache struct {
	mu    sync.Mutex
	cards map[string]*list.Element // of *cachedCard
	order list.List                // most recently used first
	bytes int
}

// cachedCard is a card as it came.
type cachedCard struct {
	key          string
	data         []byte
	expires      time.Time // fresh until then
	etag         string
	lastModified string
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

// newCachedCard returns what is kept of an answer, or nil when nothing may be.
// A 304 leaves out headers that have not changed; those come from before.
func newCachedCard(data []byte, h http.Header, before *cachedCard, now time.Time) *cachedCard {
	c := &cachedCard{data: data, etag: h.Get("ETag"), lastModified: h.Get("Last-Modified")}
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
	maxAge := time.Duration(-1)
	for _, line := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(name) {
			case "no-store":
				return 0, false
			case "no-cache":
				return 0, true
			case "max-age":
				seconds, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 31)
				if err != nil {
					return 0, true
				}
				maxAge = time.Duration(seconds) * time.Second
			}
		}
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
func (c *CardCache) get(key string) (*cachedCard, bool) {
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
func (c *CardCache) put(key string, card *cachedCard) {
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
		c.cards = make(map[string]*list.Element)
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
