package inbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strconv"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// Prefix is the path below which the pages behind links are.
const Prefix = "/inbox/"

// maxLinkLife is how long a link is good at most.
const maxLinkLife = 90 * 24 * time.Hour

// Link is a link that answers one item, without any other credentials, until the
// item is settled or the link expires.
type Link struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// Link makes a link for an open item. Whoever has it may answer in the name of
// person; life is how long it is good, 0 for the configured time.
func (s *Service) Link(ctx context.Context, scope store.Scope, id, person string, life time.Duration, by string) (*Link, error) {
	settings := s.opts.Settings()
	if life == 0 {
		life = settings.linkLife()
	}
	switch {
	case len(s.opts.Keys) == 0:
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "Links need the secret_key of the configuration")
	case len(person) > maxAssignee:
		return nil, a2a.Invalid("for", "is longer than %d bytes", maxAssignee)
	case life < time.Second || life > maxLinkLife:
		return nil, a2a.Invalid("expires", "is not from now to 90 days from now")
	}
	expires := s.opts.Now().Add(life).UTC().Truncate(time.Second)
	words := "until " + expires.Format(time.RFC3339)
	if person != "" {
		words = "for " + person + ", " + words
	}
	if err := s.update(ctx, scope, &store.InboxUpdate{ID: id, Entry: store.InboxEntry{By: by, What: "linked", Words: words}}); err != nil {
		return nil, err
	}
	return &Link{URL: s.link(id, person, expires), Expires: expires}, nil
}

// link returns the URL of the page for an item.
func (s *Service) link(id, person string, expires time.Time) string {
	q := url.Values{"expires": {strconv.FormatInt(expires.Unix(), 10)}}
	if person != "" {
		q.Set("for", person)
	}
	q.Set("signature", base64.RawURLEncoding.EncodeToString(sign(s.opts.Keys[0], id, person, expires.Unix())))
	return s.opts.Base() + Prefix + url.PathEscape(id) + "?" + q.Encode()
}

// sign returns the signature of a link.
func sign(key []byte, id, person string, expires int64) []byte {
	mac := hmac.New(sha256.New, key)
	b := []byte("inbox link\x00")
	for _, text := range []string{id, person, strconv.FormatInt(expires, 10)} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	mac.Write(b)
	return mac.Sum(nil)
}

// claim is what a link says, once it is verified.
type claim struct {
	person  string
	expires time.Time
}

// verify returns what the query of a link to an item says; false when the link is
// not one of ours.
func (s *Service) verify(id string, q url.Values) (claim, bool) {
	expires, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	signature, serr := base64.RawURLEncoding.Strict().DecodeString(q.Get("signature"))
	if err != nil || serr != nil {
		return claim{}, false
	}
	c := claim{person: q.Get("for"), expires: time.Unix(expires, 0).UTC()}
	for _, key := range s.opts.Keys {
		if hmac.Equal(signature, sign(key, id, c.person, expires)) {
			return c, true
		}
	}
	return claim{}, false
}

// by names who answers with a link, for the record.
func (c *claim) by() string {
	if c.person == "" {
		return "whoever has the link"
	}
	return c.person + " (by link)"
}
