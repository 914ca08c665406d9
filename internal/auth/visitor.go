package auth

import (
	"crypto/sha256"
	"encoding/base64"
)

// Visitor returns the principal of somebody who has no credential but the secret
// that a page has given to the browser, so that what is his is nobody else's. It
// has no name: what is for callers with a credential is not for it.
func Visitor(secret, address string) Principal {
	sum := sha256.Sum256([]byte("handoff visitor " + secret))
	return Principal{
		Issuer: issuerVisitors, Subject: "visitor:" + base64.RawURLEncoding.EncodeToString(sum[:16]),
		Role: RoleCaller, Address: address,
	}
}

// issuerVisitors is the issuer of visitors. That of a token is a URL.
const issuerVisitors = "visitors"

// Named reports whether the caller has shown a credential that says who it is.
func (p *Principal) Named() bool { return !p.Anonymous() && p.Issuer != issuerVisitors }
