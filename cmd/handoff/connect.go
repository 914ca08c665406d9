package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// session is a command at work on one agent.
type session struct {
	*app
	flags  *clientFlags
	target target
	client *client.Client
	card   *a2a.AgentCard
	// process ends with the process only, ctx with --timeout too.
	process context.Context
	ctx     context.Context
	log     *wireLog // nil without --debug
	secrets redactor
	http    *http.Client
	// stranger sends requests to others than the agent: without the client
	// certificate.
	stranger *http.Client
	taken    string // the only argument, which was taken as a task
	opts     client.Options
	said     client.Options // what the command line says, where the agent is a peer
}

// open finds the agent that is named and connects to it. The function ends the
// session.
func (a *app) open(ctx context.Context, f *clientFlags, named string) (*session, func(), error) {
	s, end, err := a.prepareSession(ctx, f, named)
	if err != nil {
		return nil, nil, err
	}
	if err := s.connect(); err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}

// prepareSession finds the agent that is named and asks it nothing yet.
func (a *app) prepareSession(ctx context.Context, f *clientFlags, named string) (*session, func(), error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	t, err := a.findTarget(f, named)
	if err != nil {
		return nil, nil, err
	}
	s := &session{app: a, flags: f, target: t, process: ctx, ctx: ctx}
	if err := s.options(); err != nil {
		return nil, nil, err
	}
	end := func() {}
	if f.timeout > 0 {
		s.ctx, end = context.WithTimeout(ctx, f.timeout)
	}
	return s, end, nil
}

// connect gets the card and chooses an interface.
func (s *session) connect() error {
	c, err := s.dial()
	if err != nil {
		return s.discoveryFailure(err)
	}
	s.client, s.card = c, c.Card()
	if len(s.card.SecuritySchemes) == 0 && len(s.card.SecurityRequirements) == 0 {
		for _, name := range []string{"bearer", "api-key"} {
			if f := s.flags.set.Lookup(name); f.Changed && f.Value.String() != "" {
				s.warn("the agent's card asks for no credentials; the one of %s is sent all the same", sourceOf(f))
			}
		}
	}
	if s.log != nil {
		i := c.Interface()
		s.log.printf("agent %s: interface %s, protocol %s, at %s", s.card.Name, i.ProtocolBinding, i.ProtocolVersion, i.URL)
	}
	return nil
}

// options builds the client's options.
func (s *session) options() error {
	f := s.flags
	list, err := f.params.parse()
	if err != nil {
		return err
	}
	s.secrets = s.redactor(list)
	transport, plain, err := f.tls.transport(f.insecure)
	if err != nil {
		return err
	}
	if f.insecure {
		s.warn("TLS certificates are not verified (--insecure)")
	}
	s.http, s.stranger = &http.Client{Transport: transport}, &http.Client{Transport: plain}
	if f.debug {
		s.log = &wireLog{w: s.stderr, now: s.now, secrets: s.secrets}
		s.http.Transport = &loggedTransport{base: transport, log: s.log}
		s.stranger.Transport = &loggedTransport{base: plain, log: s.log}
	}
	s.opts = client.Options{HTTPClient: s.http, Version: f.version, Headers: http.Header{}}
	for _, p := range list {
		switch {
		case isCredential(p.name): // the client sends it to the agent's origin only
		case strings.EqualFold(p.name, a2a.HeaderExtensions):
			s.opts.Extensions = append(s.opts.Extensions, a2a.ParseExtensions([]string{p.value})...)
		case strings.EqualFold(p.name, a2a.HeaderVersion):
			return usagef("set the protocol version with --a2a-version")
		default:
			s.opts.Headers.Add(p.name, p.value)
		}
	}
	for _, name := range f.transports {
		binding, err := bindingOf(name)
		if err != nil {
			return err
		}
		s.opts.Transports = append(s.opts.Transports, binding)
	}
	s.opts.Credentials = s.credentials(list)
	if s.target.peers != nil {
		return s.asPeer()
	}
	return nil
}

// bindingOf returns the binding of a name, in any case, and with the names that
// people use.
func bindingOf(name string) (string, error) {
	switch strings.ToLower(name) {
	case "jsonrpc", "json-rpc":
		return a2a.BindingJSONRPC, nil
	case "http+json", "rest", "http":
		return a2a.BindingREST, nil
	case "grpc":
		return a2a.BindingGRPC, nil
	}
	return "", usagef("--transport %q is not JSONRPC, HTTP+JSON or GRPC", name)
}

// isCredential reports whether a service parameter is one that authenticates.
func isCredential(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "cookie", "proxy-authorization":
		return true
	}
	return false
}

// redactor hides the credentials of the command.
func (s *session) redactor(list []param) redactor {
	secrets := append([]string{s.flags.bearer, s.flags.apiKey, s.target.token}, s.target.secrets...)
	for _, p := range list {
		if !strings.EqualFold(p.name, a2a.HeaderExtensions) {
			secrets = append(secrets, p.value)
		}
	}
	return newRedactor(secrets)
}

// credentials returns what authenticates requests, or nil.
func (s *session) credentials(list []param) client.Credentials {
	var all []client.Credentials
	bearer := s.flags.bearer
	if bearer == "" && s.flags.apiKey == "" {
		bearer = s.target.token
	}
	if bearer != "" {
		all = append(all, client.Bearer(bearer))
	}
	if s.flags.apiKey != "" {
		all = append(all, client.CredentialsFunc(s.applyKey))
	}
	for _, p := range list {
		if isCredential(p.name) {
			all = append(all, client.APIKey("header", p.name, p.value))
		}
	}
	if len(all) == 0 && !s.flags.tls.authenticates() {
		return nil
	}
	// A client certificate alone is a credential too, which no other origin gets.
	return client.CredentialsFunc(func(ctx context.Context, r *http.Request) error {
		for _, c := range all {
			if err := c.Apply(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// applyKey sends the API key where the card asks for it (A2A §4.5.2), and to
// the usual header while there is no card yet.
func (s *session) applyKey(ctx context.Context, r *http.Request) error {
	location, name := keyPlace(s.card)
	return client.APIKey(location, name, s.flags.apiKey).Apply(ctx, r)
}

// keyPlace returns where an API key goes: to the scheme that the agent
// requires, else to the first that it declares.
func keyPlace(card *a2a.AgentCard) (location, name string) {
	const usual = "X-API-Key"
	if card == nil {
		return "header", usual
	}
	var names []string
	for _, r := range card.SecurityRequirements {
		names = append(names, slices.Sorted(maps.Keys(r.Schemes))...)
	}
	names = append(names, slices.Sorted(maps.Keys(card.SecuritySchemes))...)
	for _, n := range names {
		if key := card.SecuritySchemes[n].APIKey; key != nil && key.Name != "" {
			return key.Location, key.Name
		}
	}
	return "header", usual
}

// authenticates reports whether requests carry credentials.
func (s *session) authenticates() bool { return s.opts.Credentials != nil }

// failure makes a failure of what an operation returned.
func (s *session) failure(err error) error {
	if err == nil || is[*failure](err) {
		return err
	}
	if s.process.Err() != nil {
		return failf(codeInterrupted, "interrupted")
	}
	if s.ctx.Err() != nil {
		return failf(codeTimeout, "the agent was not done within %s", s.flags.timeout)
	}
	f := classify(err)
	f.Message = s.secrets.hide(f.Message) // an agent may repeat what it was sent
	switch {
	case errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}) || errors.Is(err, &a2a.Error{Code: a2a.CodePermissionDenied}):
		return s.authFailure(f)
	case errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}):
		f.Hint = "List your tasks with: " + s.target.nextCommand(s.flags, "task", "list")
		if agentID.MatchString(s.taken) {
			f.Hint += fmt.Sprintf("; %q was taken as the task, and the agent stands before it", s.taken)
		}
	case errors.Is(err, &a2a.Error{Code: a2a.CodeExtensionSupportRequired}):
		f.Hint = "Add: --svc-param A2A-Extensions:URI, if you can do what the extension asks for"
	case f.Code == codeUnreachable && f.Hint == "":
		f.Hint = s.unreachableHint(err)
	}
	if is[*client.TransportError](err) && schemeHint(err.Error()) != "" {
		f.Code, f.Exit, f.Hint = codeUnreachable, exitOf(codeUnreachable), schemeHint(err.Error())
	}
	if e, ok := errors.AsType[*client.TransportError](err); ok && e.Kind == client.KindRefused && strings.Contains(e.Error(), "origin not allowed") {
		f.Hint = "The card sends requests to another host, and credentials do not go there; name the card at that host"
	}
	return f
}

// authFailure says what credentials the agent asks for.
func (s *session) authFailure(f *failure) *failure {
	if s.authenticates() {
		f.Code = codeAuthFailed
		f.Hint = "Check the credentials; the agent accepts: " + s.schemes()
	} else {
		f.Code = codeCredentialsMissing
		f.Hint = "Set A2ACLI_BEARER or A2ACLI_API_KEY, or give --bearer, --api-key or --client-cert; the agent accepts: " + s.schemes()
	}
	f.Exit = exitAuth
	return f
}

// schemes names the security schemes of the card.
func (s *session) schemes() string {
	if s.card == nil || len(s.card.SecuritySchemes) == 0 {
		return "its card does not say what"
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(s.card.SecuritySchemes)) {
		texts = append(texts, name+" ("+schemeText(s.card.SecuritySchemes[name])+")")
	}
	return strings.Join(texts, ", ")
}

func (s *session) unreachableHint(err error) string {
	e, ok := errors.AsType[*client.TransportError](err)
	if !ok {
		return ""
	}
	if hint := tlsHint(e.Err, e.URL); hint != "" {
		return hint
	}
	switch e.Kind {
	case client.KindResolve:
		if agentID.MatchString(s.target.ref) {
			return fmt.Sprintf("There is no host, no agent and no peer of ./%s called %s; run the command in the folder of the node that has it, name the node of an agent with --node, or give a URL", configFile, s.target.ref)
		}
		return "Check the name of the host"
	case client.KindTimeout:
		return "The agent accepted the connection and did not answer; try again later"
	}
	return "Check that the agent runs and that its address is right"
}

// discoveryFailure makes a failure of a card that was not found.
func (s *session) discoveryFailure(err error) error {
	switch {
	case s.process.Err() != nil || s.ctx.Err() != nil:
		return s.failure(err)
	case errors.Is(err, &a2a.Error{Code: a2a.CodeUnauthenticated}), errors.Is(err, &a2a.Error{Code: a2a.CodePermissionDenied}):
		return s.failure(err)
	case is[*client.CardError](err):
		return s.failure(err)
	}
	e, ok := errors.AsType[*client.TransportError](err)
	if ok && e.Status == 0 || is[*client.InterfaceError](err) {
		return s.failure(err)
	}
	if ok && e.Status >= 200 && e.Status < 300 {
		return failf(codeCardInvalid, "%w", err)
	}
	if ok && schemeHint(e.Error()) != "" {
		return s.failure(err)
	}
	f := failf(codeCardNotFound, "there is no agent card at %s: %w", s.target.ref, err)
	f.Hint = "Check the address; the card of an agent is at its address followed by " + a2a.WellKnownCardPath
	return f
}

// patience is how long a command that was told to stop may still ask what
// became of its message.
const patience = 3 * time.Second

// afterwards returns a context for the last questions of a command that has run
// out of time.
func (s *session) afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(s.process), patience)
}

// schemeText describes a security scheme in few words.
func schemeText(scheme a2a.SecurityScheme) string {
	switch {
	case scheme.APIKey != nil:
		return fmt.Sprintf("API key in %s %s", scheme.APIKey.Location, scheme.APIKey.Name)
	case scheme.HTTPAuth != nil:
		return "HTTP " + scheme.HTTPAuth.Scheme
	case scheme.OAuth2 != nil:
		return "OAuth 2.0"
	case scheme.OpenIDConnect != nil:
		return "OpenID Connect"
	case scheme.MutualTLS != nil:
		return "mutual TLS"
	}
	return "unknown scheme"
}
