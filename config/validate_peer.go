package config

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/netguard"
)

// cardDigest is a SHA-256 in base64url without padding.
var cardDigest = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

func (v *validator) peers() {
	c := v.config
	for _, name := range c.PeerNames() {
		path := join("peers", name)
		switch p := c.Peers[name]; {
		case !agentID.MatchString(name):
			v.problem(path, "", "is not a name: use a-z, 0-9 and -, begin with a letter or a digit, and up to 63 characters")
		case c.Agents[name] != nil:
			v.problem(path, "give one of them another name", "is the id of an agent too, so that nobody could tell which is meant")
		case p == nil:
			v.problem(path, "", "has no value")
		default:
			v.peer(p, path)
		}
	}
}

func (v *validator) peer(p *Peer, path string) {
	v.cardSource(p.Card, path+".card")
	if p.URL != "" {
		v.url(path+".url", p.URL)
	}
	if p.Pin.On() && p.Pin != PinFirst && !cardDigest.MatchString(string(p.Pin)) {
		v.problem(path+".pin", "`handoff peer show` says what the digest is", "is neither true, nor false, nor the digest of a card (43 characters)")
	}
	for i, origin := range p.Origins {
		v.origin(fmt.Sprintf("%s.origins[%d]", path, i), origin)
	}
	for i, origin := range p.Signatures.JKU {
		v.origin(fmt.Sprintf("%s.signatures.jku[%d]", path, i), origin)
		v.secureURL(fmt.Sprintf("%s.signatures.jku[%d]", path, i), origin)
	}
	s := &p.Signatures
	if s.Policy == "require" && len(s.Trust) == 0 && len(s.JKU) == 0 {
		v.problem(path+".signatures.policy", "name trusted keys in trust, or the origin of the peer's keys in jku", "takes no card, since no key is trusted")
	}
	for i, file := range s.Trust {
		v.readable(fmt.Sprintf("%s.signatures.trust[%d]", path, i), file)
	}
	if p.CA != "" {
		v.readable(path+".ca", p.CA)
	}
	if len(p.Channels) == 0 {
		v.problem(path+".channels", "", "is empty, so that no news would come")
	}
	if p.Poll.Min > p.Poll.Max {
		v.problem(path+".poll.min", "", "is more than poll.max")
	}
	for i, uri := range p.Extensions {
		if u, err := url.Parse(uri); err != nil || u.Scheme == "" || strings.ContainsAny(uri, ", \r\n") {
			v.problem(fmt.Sprintf("%s.extensions[%d]", path, i), "", "is not a URI")
		}
	}
	v.peerAuth(&p.Auth, path+".auth")
}

func (v *validator) cardSource(s CardSource, path string) {
	file, isFile := s.File()
	switch {
	case s.Inline() != nil:
		if len(s.inline) > MaxPeerCard {
			v.problem(path, "", "has more than %d bytes", MaxPeerCard)
		}
	case s.Ref() == "":
		v.problem(path, "write the URL of the agent, file: and the path of its card, or the card", "is empty")
	case isFile && file == "":
		v.problem(path, "", "names no file")
	case isFile:
		v.readable(path, file)
	case !strings.Contains(s.Ref(), "://"):
		v.problem(path, "write it like https://agents.example.com/agents/quote/, or file:card.json", "is not an http or https URL")
	default:
		v.url(path, s.Ref())
		if u, err := url.Parse(s.Ref()); err == nil && u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()) {
			v.warn(path, "", "is not https, so that anybody on the way could read and change what is sent")
		}
	}
}

// MaxPeerCard bounds the card of a peer that is written out, in bytes.
const MaxPeerCard = 1 << 20

// readable checks that a file or folder is there.
func (v *validator) readable(path, name string) {
	if s := v.config.source; s == nil || s.dir == "" {
		return
	}
	if _, err := os.Stat(v.config.path(name)); err != nil {
		v.problem(path, "", "cannot be read: %v", err)
	}
}

// origin checks a scheme with a host and a port.
func (v *validator) origin(path, text string) {
	u, message := webURL(text)
	switch {
	case message != "":
		v.problem(path, "write it like https://api.example.com", "%s", message)
	case strings.Trim(u.Path, "/") != "" || hasQuery(u):
		v.problem(path, fmt.Sprintf("write %s://%s", u.Scheme, u.Host), "is more than an origin")
	}
}

func (v *validator) peerAuth(a *PeerAuth, path string) {
	if k := a.Key; k != nil {
		switch {
		case k.Value.IsZero():
			v.problem(path+".key", "", "is empty")
		case k.Name != "" && !header.MatchString(k.Name):
			v.problem(path+".key.name", "", "is not a name of letters, digits and dashes")
		}
	}
	if b := a.Basic; b != nil && (b.User == "" || strings.Contains(b.User, ":")) {
		v.problem(path+".basic.user", "", "is not a name: it cannot be empty or have a colon")
	}
	if m := a.MTLS; m != nil {
		v.readable(path+".mtls.cert", m.Cert)
		v.readable(path+".mtls.key", m.Key)
	}
	for name, s := range map[string]Secret{"bearer": a.Bearer, "key.value": a.keyValue()} {
		if strings.ContainsAny(s.text, "\r\n\x00") {
			v.problem(path+"."+name, "", "has characters that a header cannot have")
		}
	}
	o := a.OAuth2
	if o == nil {
		return
	}
	path += ".oauth2"
	if o.ClientID == "" {
		v.problem(path+".client_id", "", "is empty")
	}
	// A secret over plain HTTP is a secret of everybody on the way (RFC 6749 §3.2).
	if o.TokenURL != "" {
		v.secureURL(path+".token_url", o.TokenURL)
	}
	if o.Issuer != "" {
		v.secureURL(path+".issuer", o.Issuer)
	}
	v.scopes(path+".scopes", o.Scopes)
	if o.Flow == PeerFlowAuthorizationCode {
		if o.AuthorizationURL != "" {
			v.authorizationURL(path+".authorization_url", o.AuthorizationURL)
		}
		if v.config.PublicURL == "" && v.config.source != nil && v.config.source.dir != "" {
			v.warn(path, "set public_url", "sends people back to this node after the login, and without public_url that is where it listens")
		}
		return
	}
	switch {
	case o.ClientSecret.IsZero():
		v.problem(path+".client_secret", "", "is missing; the flow client_credentials needs one")
	case o.PerUser:
		v.problem(path+".per_user", "set flow to authorization_code", "is for people, and client_credentials is for the node")
	case o.AuthorizationURL != "":
		v.problem(path+".authorization_url", "", "is for the flow authorization_code")
	}
}

// authorizationURL checks where people log in. It may have a query (RFC 6749
// §3.1).
func (v *validator) authorizationURL(path, text string) {
	u, message := webURL(text)
	switch {
	case message != "":
		v.problem(path, "write it like https://sso.example.com/authorize", "%s", message)
	case u.Scheme != "https" && !netguard.IsLoopback(u.Hostname()):
		v.problem(path, "", "is not https")
	case u.Fragment != "":
		v.problem(path, "", "has a fragment")
	}
}

func (a *PeerAuth) keyValue() Secret {
	if a.Key == nil {
		return Secret{}
	}
	return a.Key.Value
}

// Kinds names the credentials that are configured, in the words of the file.
func (a *PeerAuth) Kinds() []string {
	var kinds []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"bearer", !a.Bearer.IsZero()}, {"key", a.Key != nil}, {"basic", a.Basic != nil}, {"oauth2", a.OAuth2 != nil}, {"mtls", a.MTLS != nil}} {
		if k.set {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// ParsePeer reads the JSON of a peer that came over the network, in the form of
// the file, and checks it. It may not name what is on the node's machine: the
// environment and files. Its error is an *Error without the texts of secrets.
func ParsePeer(name string, data []byte) (*Peer, error) {
	value := jsontext.Value(bytes.Clone(data))
	if err := value.Canonicalize(); err != nil || value.Kind() != '{' {
		return nil, &Error{Problems: []Problem{{Path: "peers", Message: "is not a JSON object"}}}
	}
	if namesFile(value) {
		return nil, &Error{Problems: []Problem{{Path: join("peers", name), Message: "names a file of the node's machine", Hint: hintInFile}}}
	}
	key, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return nil, &Error{Problems: []Problem{{Path: "peers", Message: "the name is not UTF-8"}}}
	}
	text := slices.Concat([]byte(`{"peers":{`), key, []byte(`:`), value, []byte(`}}`))
	c, err := parse(text, "", "", func(string) (string, bool) { return "", false }, nil, nil)
	if err != nil {
		if e, ok := err.(*Error); ok {
			for i := range e.Problems {
				e.Problems[i].Line, e.Problems[i].Column = 0, 0 // of a file that nobody has
			}
		}
		return nil, err
	}
	if problem := localPlace(c.Peers[name], join("peers", name)); problem != nil {
		return nil, &Error{Problems: []Problem{*problem}}
	}
	return c.Peers[name], nil
}

const hintInFile = "write the peer into the configuration file instead"

// namesFile reports whether a value of a peer is file: and a path. What is within
// a card that is written out is none.
func namesFile(peer jsontext.Value) bool {
	var members map[string]jsontext.Value
	if json.Unmarshal(peer, &members) != nil {
		return false // parsing says what is wrong
	}
	for key, value := range members {
		if (key != "card" || value.Kind() == '"') && bytes.Contains(value, []byte(`"file:`)) {
			return true
		}
	}
	return false
}

// localPlace returns a problem when a peer names files by their paths.
func localPlace(p *Peer, path string) *Problem {
	for _, one := range []struct {
		key string
		set bool
	}{
		{".ca", p.CA != ""},
		{".signatures.trust", len(p.Signatures.Trust) > 0},
		{".auth.mtls", p.Auth.MTLS != nil},
	} {
		if one.set {
			return &Problem{Path: path + one.key, Message: "names a file of the node's machine", Hint: hintInFile}
		}
	}
	return nil
}
