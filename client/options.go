package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"handoff.example/handoff/a2a"
)

// Limits that hold where Options name none.
const (
	DefaultIdleTimeout = 2 * time.Minute
	DefaultCallTimeout = time.Minute
	DefaultMaxResponse = 64 << 20 // bytes
	DefaultMaxFrame    = 16 << 20 // bytes
	DefaultVersion     = "1.0"
)

// Options say how a client finds and speaks to an agent. The zero value is
// ready to use.
type Options struct {
	// HTTPClient sends the requests; nil is http.DefaultClient. Its Timeout is
	// not used, since it would end long streams: the limits below are.
	HTTPClient *http.Client

	// Credentials authenticate every request; nil sends none. An agent's card
	// is asked for without them first. New needs CardURL or Origins with them.
	Credentials Credentials
	// CardURL is where the card comes from. Its origin (scheme, host and port)
	// is one that credentials may go to. Dial sets it.
	CardURL string
	// Origins are further origins that credentials and redirects may go to,
	// such as https://api.example.com. The entry "*" allows every one.
	Origins []string

	// Headers go with every request: service parameters of the binding (A2A
	// §3.2.6). Secrets belong in Credentials.
	Headers http.Header
	// Extensions are the URIs of extensions to opt into (A2A §4.6).
	Extensions []string
	// Version is the protocol version to ask for; "" is DefaultVersion. With
	// "0.3" interfaces of 0.3 come first, and to an agent whose card has none,
	// 0.3 is spoken at those that it has.
	Version string
	// Transports are bindings in the order of preference, such as
	// a2a.BindingREST. Empty takes the order of the card, and so does a card
	// that has none of them (A2A §8.3.2).
	Transports []string
	// Fallback goes on to the next interface of the card when no connection
	// to the one in use can be made. What may have been sent is never sent
	// again, and interfaces on an origin that credentials may not go to are left
	// out.
	Fallback bool
	// TryVersion03 sends a request once more in version 0.3 when the agent
	// answers that it does not know the method: some cards name 1.0 for an
	// agent that speaks 0.3.
	TryVersion03 bool
	// MediaType is the type of request bodies on HTTP+JSON; "" is
	// a2a.MediaType. A peer that answers 415 is asked once more with
	// application/json.
	MediaType string
	// IgnoreCapabilities calls operations that the card does not declare
	// (A2A §3.3.4). Without it they fail before anything is sent.
	IgnoreCapabilities bool

	// IdleTimeout is how long a stream may bring no byte at all, keep-alive
	// comments included; 0 is DefaultIdleTimeout, negative is none. There is
	// no limit on the total. Streams of gRPC have no comments: with 0 they may
	// be quiet after the first event for as long as the agent answers the pings
	// of HTTP/2.
	IdleTimeout time.Duration
	// ResponseTimeout is how long SendMessage may take; 0 is none, because a
	// blocking send lasts as long as its task.
	ResponseTimeout time.Duration
	// CallTimeout is how long any other operation, and getting a card, may
	// take; 0 is DefaultCallTimeout, negative is none.
	CallTimeout time.Duration
	// MaxResponse bounds an answer, after decompression, in bytes; 0 is
	// DefaultMaxResponse.
	MaxResponse int
	// MaxTask bounds the task that Wait and SendAndWait collect from events, in
	// bytes of memory, about; 0 is DefaultMaxTask, negative is no limit.
	MaxTask int
	// MaxFrame bounds one event of a stream in bytes; 0 is DefaultMaxFrame.
	MaxFrame int

	// VerifyCard checks the signatures of every card before it is used, the
	// extended one too (A2A §8.4.3). It is given the card's JSON as it came and
	// returns the JSON that may be relied on: the same, or the part that a
	// signature covers. Its error refuses the card, as the cause of a
	// *CardError. Nil takes cards as they are.
	VerifyCard func(ctx context.Context, card []byte) ([]byte, error)

	// Tracer makes a span for each operation whose context is a part of a trace;
	// nil: none. The W3C trace context of an operation goes with its request in
	// either case.
	Tracer trace.Tracer

	// Cards keeps the cards that were found; nil asks for them every time.
	Cards *CardCache
	// NoFiles refuses references to local files, for references that come
	// from somebody else.
	NoFiles bool

	http2       *http2Client // what gRPC is sent with; New makes it
	defaultIdle bool         // nobody has named an IdleTimeout
}

// withDefaults returns the options with every limit filled in.
func (o Options) withDefaults() (Options, error) {
	if o.HTTPClient == nil {
		o.HTTPClient = http.DefaultClient
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.MediaType == "" {
		o.MediaType = a2a.MediaType
	}
	o.defaultIdle = o.IdleTimeout == 0 || o.defaultIdle && o.IdleTimeout == DefaultIdleTimeout
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = DefaultMaxResponse
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	return o, o.validate()
}

func (o *Options) validate() error {
	if !speaks(o.Version) && !isVersion03(o.Version) {
		return fmt.Errorf("option Version %q: this client speaks 1.0 and 0.3", o.Version)
	}
	for _, t := range o.Transports {
		if !slices.ContainsFunc(bindings, func(b string) bool { return strings.EqualFold(b, t) }) {
			return fmt.Errorf("option Transports: %q is not one of %s", t, strings.Join(bindings, ", "))
		}
	}
	for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization"} {
		if o.Headers.Get(name) != "" {
			return fmt.Errorf("option Headers: %s belongs in Credentials", name)
		}
	}
	for _, origin := range o.Origins {
		if origin == anyOrigin {
			continue
		}
		if _, err := parseOrigin(origin); err != nil {
			return fmt.Errorf("option Origins: %w", err)
		}
	}
	for _, uri := range o.Extensions {
		if uri == "" || strings.ContainsAny(uri, ", \r\n") {
			return errors.New("option Extensions: an extension is one URI")
		}
	}
	return nil
}

// speaks reports whether the client can speak that version of the protocol.
func speaks(version string) bool {
	v, err := a2a.ParseVersion(version)
	return err == nil && v.Major() == a2a.Version10.Major()
}
