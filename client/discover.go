package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// MaxCardSize bounds an agent card, in bytes.
const MaxCardSize = 1 << 20

const opDiscover = "GetAgentCard"

// CardError says that what a reference names is no usable agent card.
type CardError struct {
	Ref string // where the card was, without query and user info
	Err error
}

// Error says what is wrong with the card.
func (e *CardError) Error() string { return "invalid card: " + e.Err.Error() + " (" + e.Ref + ")" }

// Unwrap returns the cause.
func (e *CardError) Unwrap() error { return e.Err }

// Discover returns the card of the agent that ref names (A2A §8.2):
//
//   - a host, an origin or the address of an agent: the card is at
//     .well-known/agent-card.json below it, or where that is 404 at
//     .well-known/agent.json, its place before 0.3.0. Without a scheme it is
//     https, or http for a loopback host;
//   - the URL of a card: one that ends in .json, or that answers with a card
//     while nothing is below it;
//   - a file: file:///path, or the path of one that exists.
//
// A card needs a name and interfaces to be usable; whatever else is missing is
// left to its Validate method. Options.Credentials are sent only when the card
// is refused without them.
func Discover(ctx context.Context, ref string, opts Options) (*a2a.AgentCard, error) {
	card, _, err := find(ctx, ref, opts)
	return card, err
}

// find returns the card and where it is: the URL that credentials are pinned
// to.
func find(ctx context.Context, ref string, opts Options) (*a2a.AgentCard, string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, "", fmt.Errorf("client options: %w", err)
	}
	if opts.CallTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.CallTimeout, errDeadline)
		defer cancel()
	}
	if path, ok := filePath(ref); ok {
		if opts.NoFiles {
			return nil, "", fmt.Errorf("find card %q: files are not allowed here", ref)
		}
		card, err := readCardFile(ctx, path, opts.VerifyCard)
		return card, "file://" + filepath.ToSlash(path), err
	}
	places, err := cardPlaces(ref)
	if err != nil {
		return nil, "", err
	}
	opts.CardURL = places[0].String()
	f := newFinder(opts)
	var first error
	for _, place := range places {
		if first != nil && strings.HasSuffix(place.Path, v03.WellKnownCardPath) && !missing(first) {
			continue
		}
		card, err := f.get(ctx, place)
		if err == nil {
			return card, place.String(), nil
		}
		if first == nil {
			first = err
		}
		if !notThere(err) {
			break
		}
	}
	return nil, "", first
}

// missing reports whether err is a 404.
func missing(err error) bool {
	if e, ok := errors.AsType[*TransportError](err); ok {
		return e.Status == http.StatusNotFound
	}
	return isNotFound(err)
}

// isNotFound reports whether err is a 404 whose body is an A2A error.
func isNotFound(err error) bool {
	return errors.Is(err, &a2a.Error{Code: a2a.CodeMethodNotFound}) || errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound})
}

// notThere reports whether a card may be found elsewhere instead.
func notThere(err error) bool {
	if e, ok := errors.AsType[*TransportError](err); ok {
		return e.Status != 0 && e.Status < http.StatusInternalServerError
	}
	if _, ok := errors.AsType[*CardError](err); ok {
		return true
	}
	return isNotFound(err)
}

// filePath returns the path of a reference to a local file.
func filePath(ref string) (string, bool) {
	if isFileURL(ref) {
		u, err := url.Parse(ref)
		if err != nil || u.Host != "" && u.Host != "localhost" {
			return strings.TrimPrefix(ref, "file://"), true // opening it says what is wrong
		}
		return filepath.FromSlash(u.Path), true
	}
	if strings.Contains(ref, "://") {
		return "", false
	}
	if filepath.IsAbs(ref) || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") {
		return ref, true
	}
	if !strings.ContainsAny(ref, `/\`) && strings.HasSuffix(ref, ".json") {
		return ref, true
	}
	info, err := os.Stat(ref)
	return ref, err == nil && info.Mode().IsRegular()
}

func isFileURL(ref string) bool { return strings.HasPrefix(strings.ToLower(ref), "file://") }

func readCardFile(ctx context.Context, path string, verify verifyCard) (*a2a.AgentCard, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open card: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxCardSize+1))
	if err != nil {
		return nil, fmt.Errorf("read card: %w", err)
	}
	return verify.parse(ctx, data, path)
}

// cardPlaces returns the URLs at which the card of an HTTP reference may be, in
// order.
func cardPlaces(ref string) ([]*url.URL, error) {
	text := ref
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || originOf(u) == "" {
		return nil, fmt.Errorf("find card: %q is not a host, an http or https URL, or a file", ref)
	}
	if u.User != nil {
		return nil, fmt.Errorf("find card: the reference %s carries credentials; give them as Options.Credentials", redact(u))
	}
	if text != ref && loopback(u.Hostname()) {
		u.Scheme = "http"
	}
	u.Fragment = ""
	if strings.HasSuffix(u.Path, ".json") {
		return []*url.URL{u}, nil
	}
	places := []*url.URL{below(u, a2a.WellKnownCardPath), below(u, v03.WellKnownCardPath)}
	if strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return places, nil
	}
	return append(places, u), nil
}

// below returns the URL of a path below u.
func below(u *url.URL, path string) *url.URL {
	v := *u
	v.Path, v.RawPath = strings.TrimRight(u.Path, "/")+path, ""
	if u.RawPath != "" {
		v.RawPath = strings.TrimRight(u.RawPath, "/") + path
	}
	return &v
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// finder gets cards over HTTP.
type finder struct {
	open   *link // without credentials
	closed *link // with them; nil when there are none
	cache  *CardCache
	verify verifyCard
	now    func() time.Time
}

func newFinder(opts Options) *finder {
	f := &finder{open: newLink(opts), cache: opts.Cards, verify: opts.VerifyCard, now: time.Now}
	f.open.roams = true
	f.open.credentials = nil
	if opts.Credentials != nil {
		f.closed = newLink(opts)
	}
	return f
}

func (f *finder) get(ctx context.Context, at *url.URL) (*a2a.AgentCard, error) {
	card, err := f.getOpen(ctx, at)
	if f.closed == nil || !errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) && !errors.Is(err, &a2a.Error{Code: a2a.CodePermissionDenied}) {
		return card, err
	}
	// What one caller may see is not kept for others.
	data, _, err := fetchCard(ctx, f.closed, at, nil)
	if err != nil {
		return nil, err
	}
	return f.verify.parse(ctx, data, redact(at))
}

// getOpen gets a public card: from the cache while it is fresh, and asking
// whether it has changed when it is not (A2A §8.6.2).
func (f *finder) getOpen(ctx context.Context, at *url.URL) (*a2a.AgentCard, error) {
	key := cardKey{f.open.opts.HTTPClient, at.String()}
	request := f.open.headers(cardCall(at, nil))
	kept, found := f.cache.get(key)
	if found && !kept.answers(request) {
		kept, found = nil, false
	}
	if found && f.now().Before(kept.expires) {
		return f.verify.parse(ctx, kept.data, redact(at))
	}
	var condition http.Header
	if found {
		condition = kept.condition()
	}
	data, h, err := fetchCard(ctx, f.open, at, condition)
	if err != nil {
		return nil, err
	}
	if data == nil {
		data = kept.data
	}
	card, err := f.verify.parse(ctx, data, redact(at))
	if err != nil {
		return nil, err
	}
	f.cache.put(key, newCachedCard(data, h, request, kept, f.now()))
	return card, nil
}

func cardCall(at *url.URL, condition http.Header) *call {
	return &call{op: opDiscover, method: http.MethodGet, url: at, accept: mediaJSON + ", " + a2a.MediaType, header: condition}
}

// fetchCard returns the bytes of a card, or nil when the condition says that
// they are as before.
func fetchCard(ctx context.Context, l *link, at *url.URL, condition http.Header) ([]byte, http.Header, error) {
	c := cardCall(at, condition)
	resp, err := l.do(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode == http.StatusNotModified && condition != nil {
		discard(resp)
		return nil, resp.Header, nil
	}
	if !success(resp) {
		return nil, nil, l.statusError(ctx, c, resp)
	}
	data, err := l.readBody(ctx, c, resp, MaxCardSize)
	if err != nil {
		return nil, nil, err
	}
	if kind := answerType(resp); !isJSON(kind) && !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, nil, l.badAnswer(c, resp, describe(resp, data, nil))
	}
	return data, resp.Header, nil
}

// verifyCard is Options.VerifyCard.
type verifyCard func(ctx context.Context, card []byte) ([]byte, error)

// parse verifies a card, reads it, and checks that it is usable.
func (v verifyCard) parse(ctx context.Context, data []byte, ref string) (*a2a.AgentCard, error) {
	if v != nil && len(data) <= MaxCardSize {
		covered, err := v(ctx, data)
		if err != nil {
			return nil, &CardError{Ref: ref, Err: err}
		}
		data = covered
	}
	return parseCard(data, ref)
}

// parseCard reads a card and checks that it is usable.
func parseCard(data []byte, ref string) (*a2a.AgentCard, error) {
	if len(data) > MaxCardSize {
		return nil, &CardError{Ref: ref, Err: fmt.Errorf("%w (%d bytes)", ErrTooLarge, MaxCardSize)}
	}
	card := new(a2a.AgentCard)
	err := error(nil)
	if v03.IsCard(data) {
		if card, err = v03.ParseCard(data); err != nil {
			err = errors.New(err.Error()) // it is not what the peer says
		}
	} else {
		err = decode(data, card)
	}
	if err != nil {
		return nil, &CardError{Ref: ref, Err: err}
	}
	if err := checkCard(card, ref); err != nil {
		return nil, err
	}
	return card, nil
}

// checkCard refuses a card without a name or without complete interfaces, and
// names everything else that is missing in the same error.
func checkCard(card *a2a.AgentCard, ref string) error {
	err := card.Validate()
	e, ok := errors.AsType[*a2a.Error](err)
	if !ok {
		return nil
	}
	unusable := false
	var missing, wrong []string
	for _, v := range e.Violations {
		unusable = unusable || v.Field == "name" || strings.HasPrefix(v.Field, "supportedInterfaces")
		if v.Description == "is required" || v.Description == "needs at least one element" {
			missing = append(missing, v.Field)
		} else {
			wrong = append(wrong, v.Field+" "+v.Description)
		}
	}
	if !unusable {
		return nil
	}
	if len(missing) > 0 {
		wrong = append([]string{"missing " + strings.Join(missing, ", ")}, wrong...)
	}
	return &CardError{Ref: ref, Err: errors.New(strings.Join(wrong, "; "))}
}
