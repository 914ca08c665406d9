package auth

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// credentialKind is the kind of a credential, which its form tells.
type credentialKind uint8

const (
	credentialNone    credentialKind = iota
	credentialKey                    // an API key of this node
	credentialToken                  // a JSON Web Token
	credentialBasic                  // a name and a password
	credentialUnknown                // anything else
)

// credential is what a request shows of its caller.
type credential struct {
	kind     credentialKind
	secret   string // the key, the token or the password
	user     string // of credentialBasic
	problem  string // of credentialUnknown, for the caller; it holds nothing of the credential
	viaBasic bool   // it came in the scheme of Basic
}

// Header names as they stand in http.Header.
const (
	headerAuthorization = "Authorization"
	headerAPIKey        = "X-Api-Key"
)

// Bounds of credentials, in bytes.
const (
	maxToken    = 16 << 10
	maxPassword = 72 // what bcrypt looks at
	maxUser     = 255
)

// credentialOf reads the credential of a request. A request has one or none:
// with several, it would depend on who reads them who is calling (RFC 6750 §2).
func credentialOf(header http.Header) credential {
	authorization, keys := header[headerAuthorization], header[headerAPIKey]
	switch {
	case len(authorization)+len(keys) == 0:
		return credential{}
	case len(authorization)+len(keys) > 1:
		return unknown("The request has more than one credential")
	case len(keys) == 1:
		if !isKey(keys[0]) {
			return unknown("The API key is not one of this node's")
		}
		return credential{kind: credentialKey, secret: keys[0]}
	}
	return parseAuthorization(authorization[0])
}

func unknown(problem string) credential {
	return credential{kind: credentialUnknown, problem: problem}
}

// parseAuthorization reads an Authorization header (RFC 9110 §11.6.2).
func parseAuthorization(text string) credential {
	if len(text) > maxToken+64 {
		return unknown("The credential is too long")
	}
	scheme, rest, found := strings.Cut(text, " ")
	rest = strings.Trim(rest, " ")
	switch {
	case !found || rest == "":
		return unknown("The Authorization header names no credential")
	case strings.EqualFold(scheme, "Bearer"):
		return parseBearer(rest)
	case strings.EqualFold(scheme, "Basic"):
		c := parseBasic(rest)
		c.viaBasic = true
		return c
	}
	return unknown("The authentication scheme is not supported here")
}

// parseBearer tells API keys and tokens apart.
func parseBearer(text string) credential {
	switch {
	case isKey(text):
		return credential{kind: credentialKey, secret: text}
	case strings.HasPrefix(text, keyPrefix):
		return unknown("The API key is not one of this node's")
	case isCompactJWS(text):
		return credential{kind: credentialToken, secret: text}
	}
	return unknown("The bearer token is neither an API key nor a JSON Web Token")
}

// isCompactJWS reports whether a text has the form of a JWS in compact
// serialization: three parts of base64url (RFC 7515 §7.1).
func isCompactJWS(text string) bool {
	dots := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			dots++
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return dots == 2 && len(text) <= maxToken
}

// parseBasic reads the credentials of Basic (RFC 7617 §2).
func parseBasic(text string) credential {
	decoded, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return unknown("The Basic credential is not base64")
	}
	user, password, found := strings.Cut(string(decoded), ":")
	switch {
	case !found:
		return unknown("The Basic credential has no colon")
	case user == "" || password == "":
		return unknown("The Basic credential has no name or no password")
	case len(user) > maxUser || len(password) > maxPassword:
		return unknown("The name or the password is too long")
	case !printable(user) || strings.ContainsRune(password, 0):
		return unknown("The name or the password has characters that it cannot have")
	}
	return credential{kind: credentialBasic, user: user, secret: password}
}
