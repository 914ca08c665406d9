package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Peer is another agent that work is handed to.
type Peer struct {
	// Where the agent card is: the URL of the agent or of its card, file: and a path that is relative to the configuration file, or the card itself.
	Card CardSource `yaml:"card" required:"true"`

	// The address of the peer's interface, in place of that in its card, for one that is reached through a tunnel, say.
	URL string `yaml:"url"`

	// What the node authenticates with. What the card asks for is taken.
	Auth PeerAuth `yaml:"auth"`

	// Whether the card is pinned: false takes the card as it is each time, true the card that was seen first, and a digest that card only. A card that differs waits for approval, by `handoff peer pin`.
	Pin Pin `yaml:"pin" default:"false"`

	// What happens while a changed card of a pinned peer waits for approval: block sends nothing to the peer, keep goes on with the card that was approved.
	Changed ChangedCard `yaml:"changed" default:"block" enum:"block,keep"`

	// What is asked of the signatures of the card.
	Signatures CardSignatures `yaml:"signatures"`

	// Further origins, such as https://api.example.com, that the card may name and that credentials may go to. They may be private.
	Origins []string `yaml:"origins"`

	// The certificates (PEM) that the peer's own is verified with, in place of the system's. Relative to the configuration file.
	CA string `yaml:"ca"`

	// Whether the peer takes a message that it gets twice for one: true, false, or auto for what its card declares and what was observed.
	Deduplicates Tristate `yaml:"deduplicates" default:"auto"`

	// How long work that is handed to the peer may take at most.
	Deadline Duration `yaml:"deadline" default:"7d" min:"1s"`

	// How news of the work comes, in the order of preference. What the peer cannot do is passed over.
	Channels []PeerChannel `yaml:"channels" default:"stream,push,poll" enum:"stream,push,poll"`

	// How long a stream may bring nothing before it counts as broken.
	Quiet Duration `yaml:"quiet" default:"1m" min:"1s"`

	// How often the peer is asked for news where it brings none.
	Poll PeerPoll `yaml:"poll"`

	// How long connecting to the peer may take.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"10s" min:"100ms" max:"5m"`

	// How long the peer may take to answer a request.
	AnswerTimeout Duration `yaml:"answer_timeout" default:"1m" min:"100ms" max:"1h"`

	// How long the peer may be silent where it has to answer before somebody is told in the inbox.
	Stuck Duration `yaml:"stuck" default:"15m" min:"1s"`

	// The bytes that the artifacts of one piece of work may have.
	ArtifactBytes Size `yaml:"artifact_bytes" default:"64MiB" min:"1KiB"`

	// The bytes of everything that the peer may send for one piece of work, artifacts and what it says of its state. One that sends more is told to cancel.
	ReceivedBytes Size `yaml:"received_bytes" default:"256MiB" min:"64KiB"`

	// The events that the peer may send for one piece of work. One that sends more is told to cancel.
	ReceivedEvents int `yaml:"received_events" default:"100000" min:"100"`

	// The tenant at the peer, where its card has an interface for each.
	Tenant string `yaml:"tenant"`

	// Bindings in the order of preference. Without them that of the card counts.
	Transports []string `yaml:"transports" enum:"JSONRPC,HTTP+JSON,GRPC"`

	// The URIs of extensions to ask for (A2A §4.6).
	Extensions []string `yaml:"extensions"`
}

// CardSource says where a card is: by a reference, or by the card itself.
type CardSource struct {
	ref    string
	inline string // JSON
}

// CardAt returns the source of a card that is at a URL, or in a file: file: and a
// path.
func CardAt(ref string) CardSource { return CardSource{ref: ref} }

// Ref returns the URL of the agent or its card, file: and a path, or "" when the
// card is written out.
func (s CardSource) Ref() string { return s.ref }

// Inline returns the JSON of a card that is written out, or nil.
func (s CardSource) Inline() jsontext.Value {
	if s.inline == "" {
		return nil
	}
	return jsontext.Value(s.inline)
}

// File returns the path of a card in a file as it is written.
func (s CardSource) File() (path string, ok bool) {
	path, ok = strings.CutPrefix(s.ref, "file:")
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		path = strings.TrimPrefix(rest, "localhost")
	}
	return path, ok
}

// MarshalText returns the reference, or the JSON of the card.
func (s CardSource) MarshalText() ([]byte, error) {
	if s.inline != "" {
		return []byte(s.inline), nil
	}
	return []byte(s.ref), nil
}

// UnmarshalYAML reads both forms.
func (s *CardSource) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	switch {
	case err != nil:
		return err
	case kind == shapeScalar:
		return unmarshal(&s.ref)
	case kind == shapeList:
		return errors.New("is a URL, file: and a path, or a card, not a list")
	}
	var value jsontext.Value
	if err := unmarshal(&value); err != nil {
		return err
	}
	s.inline = string(value)
	return nil
}

// NewPeer returns a peer with every default, whose card is at a URL, or in a file:
// file: and a path.
func NewPeer(card string) *Peer {
	p := &Peer{}
	setDefaults(p)
	p.Card = CardAt(card)
	return p
}

// PeerAuth is what a peer may be shown. Several kinds may stand beside each
// other: those that its card asks for are taken, and none is ever sent to another
// origin than the peer's.
type PeerAuth struct {
	// A token, sent as Authorization: Bearer.
	Bearer Secret `yaml:"bearer"`

	// An API key.
	Key *PeerKey `yaml:"key"`

	// A name and a password (HTTP Basic).
	Basic *PeerBasic `yaml:"basic"`

	// Tokens of an authorization server (OAuth 2.0).
	OAuth2 *PeerOAuth2 `yaml:"oauth2"`

	// A client certificate.
	MTLS *PeerCertificate `yaml:"mtls"`
}

// PeerKey is an API key for a peer. A text is the key.
type PeerKey struct {
	// The key.
	Value Secret `yaml:"value" required:"true"`

	// Where it goes. Without it, where the card says, or in a header.
	In KeyPlace `yaml:"in" enum:"header,query,cookie"`

	// The name of the header, parameter or cookie. Without it, that in the card, or X-API-Key.
	Name string `yaml:"name"`
}

// KeyPlace is the part of a request that an API key goes into.
type KeyPlace string

// The parts of a request that an API key can go into.
const (
	KeyInHeader KeyPlace = "header"
	KeyInQuery  KeyPlace = "query"
	KeyInCookie KeyPlace = "cookie"
)

// UnmarshalYAML reads the short form, which is the key, and the long one.
func (k *PeerKey) UnmarshalYAML(unmarshal func(any) error) error {
	kind, err := shapeOf(unmarshal)
	if err != nil {
		return err
	}
	if kind == shapeScalar {
		return unmarshal(&k.Value)
	}
	type long PeerKey
	return unmarshal((*long)(k))
}

// PeerBasic is a name and a password for a peer.
type PeerBasic struct {
	// The name.
	User string `yaml:"user" required:"true"`

	// The password.
	Password Secret `yaml:"password" required:"true"`
}

// PeerOAuth2 is how the node gets tokens for a peer (RFC 6749).
type PeerOAuth2 struct {
	// The flow: client_credentials for the node itself, authorization_code (with PKCE) for people who log in by `handoff peer login`.
	Flow PeerFlow `yaml:"flow" default:"client_credentials" enum:"client_credentials,authorization_code"`

	// The id of the node at the authorization server.
	ClientID string `yaml:"client_id" required:"true"`

	// Its secret. A public client has none.
	ClientSecret Secret `yaml:"client_secret"`

	// The authorization server, exactly as it writes itself. Where tokens are and people log in is then found through what it says of itself (RFC 8414, OpenID Connect Discovery), and who comes back from a login is held against it (RFC 9207).
	Issuer string `yaml:"issuer"`

	// Where tokens are. Without it and without issuer, what the card says, if that is at an origin of the peer.
	TokenURL string `yaml:"token_url"`

	// Where people log in, for authorization_code. Without it and without issuer, what the card says, if that is at an origin of the peer.
	AuthorizationURL string `yaml:"authorization_url"`

	// The scopes to ask for. Without them, those that the card requires.
	Scopes []string `yaml:"scopes"`

	// What the token is for, sent as audience.
	Audience string `yaml:"audience"`

	// What the token is for, sent as resource (RFC 8707).
	Resource string `yaml:"resource"`

	// How the node shows its id and secret: basic in the header (HTTP Basic), body in the form.
	ClientAuth OAuthClientAuth `yaml:"client_auth" default:"basic" enum:"basic,body"`

	// Whether each caller of the node logs in to the peer, and work is handed on in the caller's name. Otherwise one login counts for all.
	PerUser bool `yaml:"per_user" default:"false"`
}

// PeerFlow is how the node gets a token.
type PeerFlow string

// How the node can get a token.
const (
	PeerFlowClientCredentials PeerFlow = "client_credentials"
	PeerFlowAuthorizationCode PeerFlow = "authorization_code"
)

// OAuthClientAuth is how a client authenticates at a token endpoint (RFC 6749
// §2.3.1).
type OAuthClientAuth string

// How a client can authenticate.
const (
	OAuthClientBasic OAuthClientAuth = "basic"
	OAuthClientBody  OAuthClientAuth = "body"
)

// PeerCertificate is a client certificate for a peer.
type PeerCertificate struct {
	// The certificate with its chain, PEM. Relative to the configuration file.
	Cert string `yaml:"cert" required:"true"`

	// The private key, PEM. Relative to the configuration file.
	Key string `yaml:"key" required:"true"`
}

// CardSignatures is what is asked of the signatures of a peer's card (A2A §8.4).
type CardSignatures struct {
	// What passes: ignore is any card, prefer refuses wrong signatures by known keys, and require takes no card without a good signature by a trusted key.
	Policy string `yaml:"policy" default:"prefer" enum:"ignore,prefer,require"`

	// Files and folders with trusted keys: .json (JWKS), .pem and .crt. Relative to the configuration file.
	Trust []string `yaml:"trust"`

	// Origins, such as https://keys.example.com, whose keys are trusted when a signature names them (jku). Others are not asked.
	JKU []string `yaml:"jku"`

	// Whether a signature suffices that covers the fields of A2A 1.0 alone, as the official SDKs make it. What it does not cover is not used.
	Partial bool `yaml:"partial" default:"false"`
}

// ChangedCard says what happens while a changed card waits for approval.
type ChangedCard string

// What can happen while a changed card waits for approval.
const (
	ChangedBlock ChangedCard = "block"
	ChangedKeep  ChangedCard = "keep"
)

// PeerChannel is a way in which news of a peer comes.
type PeerChannel string

// The ways in which news of a peer can come.
const (
	PeerStream PeerChannel = "stream"
	PeerPush   PeerChannel = "push"
	PeerPolls  PeerChannel = "poll"
)

// PeerPoll bounds the time between two questions for news.
type PeerPoll struct {
	// The time to the first question. It grows while nothing happens.
	Min Duration `yaml:"min" default:"2s" min:"100ms"`

	// The longest time between two questions.
	Max Duration `yaml:"max" default:"5m" min:"1s"`
}

// Pin says whether a card is pinned: false, true, or its digest.
type Pin string

// Words for Pin that are no digest.
const (
	PinOff   Pin = "false"
	PinFirst Pin = "true"
)

// On reports whether the card is pinned.
func (p Pin) On() bool { return p != PinOff && p != "" }

// Digest returns the digest that the configuration names, or "".
func (p Pin) Digest() string {
	if p == PinOff || p == PinFirst {
		return ""
	}
	return string(p)
}

// UnmarshalYAML reads true, false or a digest.
func (p *Pin) UnmarshalYAML(unmarshal func(any) error) error {
	text, err := wordOrBool(unmarshal)
	*p = Pin(text)
	return err
}

// Tristate is true, false or auto.
type Tristate string

// The values of a Tristate.
const (
	Auto Tristate = "auto"
	Yes  Tristate = "true"
	No   Tristate = "false"
)

// UnmarshalYAML reads true, false or auto.
func (s *Tristate) UnmarshalYAML(unmarshal func(any) error) error {
	text, err := wordOrBool(unmarshal)
	switch {
	case err != nil:
		return err
	case !slices.Contains([]Tristate{Auto, Yes, No}, Tristate(text)):
		return errors.New("is not one of auto, true, false")
	}
	*s = Tristate(text)
	return nil
}

// wordOrBool returns the text of a value that is a text, true or false.
func wordOrBool(unmarshal func(any) error) (string, error) {
	var v any
	if err := unmarshal(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return fmt.Sprint(v), nil
	}
	return "", errors.New("is a text, true or false")
}

// PeerNames returns the names of the peers in order.
func (c *Config) PeerNames() []string {
	names := make([]string, 0, len(c.Peers))
	for name := range c.Peers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Path returns a path of the file as one that is not relative to it.
func (c *Config) Path(path string) string { return c.path(path) }
