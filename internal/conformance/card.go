package conformance

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
)

// foundCard is how a card came.
type foundCard struct {
	url    *url.URL // nil for a file
	header http.Header
	err    error // why it is not usable
}

// watchedTransport remembers where the last successful answer came from.
type watchedTransport struct {
	base  http.RoundTripper
	found *foundCard
}

// RoundTrip sends the request.
func (t *watchedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil && resp.StatusCode/100 == 2 {
		at := *r.URL
		t.found.url, t.found.header = &at, resp.Header
	}
	return resp, err
}

// discover finds the card as every client does, and keeps its bytes, even of one
// that cannot be used.
func (r *run) discover(ctx context.Context) (*foundCard, error) {
	found := &foundCard{}
	if r.opts.Card != nil {
		r.raw, r.report.Card = r.opts.Card, r.opts.Reference
		r.card, found.err = client.ParseCard(r.raw, r.opts.Reference)
		if r.card != nil {
			r.report.Name = shorten(r.card.Name, 200)
		}
		return found, nil
	}
	opts := r.opts.Client
	watched := *opts.HTTPClient
	base := watched.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	watched.Transport = &watchedTransport{base: base, found: found}
	opts.HTTPClient = &watched
	opts.Cards = nil
	opts.Transports = nil
	opts.CallTimeout = r.opts.CallTimeout
	opts.VerifyCard = func(_ context.Context, card []byte) ([]byte, error) {
		r.raw = card
		return card, nil
	}
	parsed, err := client.Discover(ctx, r.opts.Reference, opts)
	if err != nil && r.raw == nil {
		return nil, err
	}
	if found.url != nil && opts.Credentials != nil {
		found.url.RawQuery = queryOf(r.opts.Reference) // a key may have been added
	}
	r.cardURL, r.card, found.err = found.url, parsed, err
	r.report.Card = r.opts.Reference
	if found.url != nil {
		r.report.Card = r.opts.Hide(found.url.Redacted())
	}
	if parsed != nil {
		r.report.Name = shorten(parsed.Name, 200)
	}
	return found, nil
}

// queryOf returns the query of a reference to a card.
func queryOf(reference string) string {
	_, query, _ := strings.Cut(reference, "?")
	query, _, _ = strings.Cut(query, "#")
	return query
}

// checkCard runs the checks of the card.
func (r *run) checkCard(ctx context.Context, found *foundCard) {
	c := &cardCheck{run: r, found: found, observed: newObserved()}
	if v, err := parse(r.raw); err == nil {
		c.json, _ = v.(object)
	}
	c.old = v03.IsCard(r.raw)
	if c.json != nil && !c.old {
		(&shape{observed: c.observed}).look("card", c.json, cardShape)
		var read a2a.AgentCard
		if a2a.Unmarshal(r.raw, &read) == nil {
			c.findings = card.Lint(&read)
		}
	}
	for _, check := range checks() {
		if check.card == nil {
			continue
		}
		f := r.finding(check, "")
		switch {
		case ctx.Err() != nil:
			f.skip(noTime)
		case c.json == nil && check.id != "card.found":
			f.skip("the card cannot be read")
		case c.old && check.id != "card.interface" && check.id != "card.found":
			f.skip("the card is one of version 0.3")
		default:
			check.card(ctx, c, f)
		}
		r.report.Results = append(r.report.Results, f.result())
	}
}

// cardCheck is what the checks of the card look at.
type cardCheck struct {
	run      *run
	found    *foundCard
	json     object // nil when it is none
	old      bool   // of version 0.3
	observed *observed
	findings []card.Finding
}

// notServed says why the way of a card is not looked at.
const notServed = "the card is a file, or written out"

func checkCardFound(_ context.Context, c *cardCheck, f *finding) {
	f.Sent = "GET " + c.run.report.Card
	if c.json == nil {
		f.broken("it is not a JSON object")
		return
	}
	f.pass("a card of " + c.run.report.Name)
}

func checkCardMedia(_ context.Context, c *cardCheck, f *finding) {
	if c.found.header == nil {
		f.skip(notServed)
		return
	}
	if value := c.found.header.Get("Content-Type"); !isJSON(mediaType(c.found.header)) {
		f.broken("it is declared as %q", value)
	}
}

// problems settles a finding with what a topic has gathered.
func (f *finding) problems(o *observed, topics ...topic) {
	var texts []string
	looked := false
	for _, t := range topics {
		texts = append(texts, o.problems[t]...)
		looked = looked || o.seen[t]
	}
	switch {
	case len(texts) > 0:
		f.broken("%s", strings.Join(texts, "; "))
	case !looked:
		f.skip("no answer had anything to look at")
	}
}

func checkCardRequired(_ context.Context, c *cardCheck, f *finding) { f.problems(c.observed, required) }

func checkCardFields(_ context.Context, c *cardCheck, f *finding) {
	f.problems(c.observed, types, names, enums, oneOf)
}

// checkCardLint tells what the linter finds, apart from what is missing.
func checkCardLint(level card.Level) func(context.Context, *cardCheck, *finding) {
	return func(_ context.Context, c *cardCheck, f *finding) {
		var texts []string
		for _, finding := range c.findings {
			if finding.Level != level || finding.Text == "is required" || finding.Text == "needs at least one element" {
				continue
			}
			text := finding.Text
			if finding.Field != "" {
				text = finding.Field + ": " + text
			}
			if finding.Paragraph != "" {
				text += " (" + finding.Paragraph + ")"
			}
			texts = append(texts, text)
		}
		if len(texts) > 0 {
			f.broken("%s", strings.Join(texts, "; "))
		}
	}
}

func checkCardInterface(_ context.Context, c *cardCheck, f *finding) {
	if c.run.card == nil {
		f.broken("the card cannot be used: %v", c.found.err)
		return
	}
	var offered []string
	for _, i := range c.run.card.SupportedInterfaces {
		if isVersion1(i.ProtocolVersion) && isOneOf(i.ProtocolBinding, a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC) {
			f.pass(i.ProtocolBinding + " " + i.ProtocolVersion)
			return
		}
		offered = append(offered, shorten(i.ProtocolBinding+" "+i.ProtocolVersion, 60))
	}
	f.broken("conformance is about version 1.0, and the agent offers none of JSONRPC, HTTP+JSON and GRPC in it; it offers %s", shorten(strings.Join(offered, ", "), maxQuote))
}

func checkCardEncrypted(_ context.Context, c *cardCheck, f *finding) {
	if c.run.card == nil {
		f.skip("the card cannot be used")
		return
	}
	addresses := []string{}
	if c.run.cardURL != nil {
		addresses = append(addresses, c.run.cardURL.String())
	}
	for _, i := range c.run.card.SupportedInterfaces {
		addresses = append(addresses, i.URL)
	}
	local := false
	for _, text := range addresses {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			continue
		}
		if isPrivate(u.Hostname()) {
			local = true
			continue
		}
		f.broken("%s is http", shorten(u.Redacted(), 100))
		return
	}
	if local {
		f.skip("the agent is on a private address")
	}
}

func checkCacheControl(_ context.Context, c *cardCheck, f *finding) {
	if c.found.header == nil {
		f.skip(notServed)
		return
	}
	value := c.found.header.Get("Cache-Control")
	if !strings.Contains(value, "max-age=") {
		f.broken("there is no max-age: Cache-Control is %q", value)
		return
	}
	f.pass("Cache-Control: " + value)
}

func checkETag(_ context.Context, c *cardCheck, f *finding) {
	if c.found.header == nil {
		f.skip(notServed)
		return
	}
	if c.found.header.Get("ETag") == "" {
		f.broken("there is no ETag")
		return
	}
	f.pass("ETag: " + c.found.header.Get("ETag"))
}

// ask gets the card once more.
func (c *cardCheck) ask(ctx context.Context, method string, header http.Header) *answer {
	a := &answer{op: "GetAgentCard", sent: method + " " + c.run.report.Card}
	way := c.run.route(c.run.cardURL)
	l := &link{http: way.http, headers: c.run.opts.Client.Headers, credentials: way.credentials, timeout: c.run.opts.CallTimeout, observed: c.observed}
	l.fetch(ctx, &call{op: a.op}, &exchange{method: method, url: c.run.cardURL, header: header}, a)
	return a
}

func checkNotModified(ctx context.Context, c *cardCheck, f *finding) {
	if c.found.header == nil {
		f.skip(notServed)
		return
	}
	etag := c.found.header.Get("ETag")
	if etag == "" {
		f.skip("there is no ETag to ask with")
		return
	}
	a := c.ask(ctx, http.MethodGet, http.Header{"If-None-Match": {etag}})
	f.Sent, f.Seen = a.sent+" If-None-Match: "+etag, a.describe()
	switch {
	case a.failed():
		f.broken("%v", a.err)
	case a.status != http.StatusNotModified:
		f.Seen = ""
		f.broken("HTTP %d and not 304", a.status)
	}
}

func checkCORS(ctx context.Context, c *cardCheck, f *finding) {
	if c.found.header == nil {
		f.skip(notServed)
		return
	}
	a := c.ask(ctx, http.MethodGet, http.Header{"Origin": {"https://browser.example"}})
	f.Sent = a.sent + " Origin: https://browser.example"
	if a.failed() {
		f.broken("%v", a.err)
		return
	}
	if allowed := a.header.Get("Access-Control-Allow-Origin"); allowed != "" {
		f.pass("browsers of other origins may read it: Access-Control-Allow-Origin: " + allowed)
		return
	}
	f.pass("browsers of other origins cannot read it: there is no Access-Control-Allow-Origin")
}

func checkSignatures(ctx context.Context, c *cardCheck, f *finding) {
	signatures, ok := c.json["signatures"].([]any)
	if !ok || len(signatures) == 0 {
		f.skip("the card is not signed")
		return
	}
	for _, s := range signatures {
		if problem := headerProblem(text(member(s, "protected"))); problem != "" {
			f.broken("%s", problem)
			return
		}
	}
	verifier := c.run.opts.Verifier
	if verifier == nil {
		verifier = &card.Verifier{Policy: card.PolicyPrefer, Trusted: &card.TrustStore{}, Partial: true}
		if c.run.cardURL != nil {
			verifier.JKUOrigins = []string{c.run.cardURL.Scheme + "://" + c.run.cardURL.Host}
			verifier.HTTPClient = c.run.route(c.run.cardURL).http
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.run.opts.CallTimeout)
	defer cancel()
	v, err := verifier.Verify(ctx, c.run.raw)
	switch e, ok := errors.AsType[*card.SignatureError](err); {
	case ok:
		f.broken("%s", e.Reason)
	case err != nil:
		f.broken("%v", err)
	case v.Outcome == card.OutcomeUnverified:
		f.skip("no key is at hand: %s", v.Signatures[0].Reason)
	default:
		f.pass(string(v.Outcome) + " with key " + v.KeyID + " (" + v.Algorithm + ") from " + v.Source)
	}
}

// headerProblem says what a protected header lacks (A2A §8.4.2).
func headerProblem(protected string) string {
	data, err := base64.RawURLEncoding.DecodeString(protected)
	if err != nil {
		return "protected is not base64url"
	}
	v, err := parse(data)
	if err != nil {
		return "protected: " + err.Error()
	}
	for _, name := range []string{"alg", "kid"} {
		if text(member(v, name)) == "" {
			return "protected has no " + name
		}
	}
	return ""
}
