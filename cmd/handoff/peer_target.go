package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
)

// peerTarget returns a peer of the configuration of the working directory. It is
// spoken to as the node does: with its credentials, at its origins.
func peerTarget(local *config.Config, name string) (target, error) {
	d := peer.New(peer.Options{Guard: netguard.New(netguard.Policy{Allow: local.Outbound.Allow}), Logger: slog.New(slog.DiscardHandler)})
	set, err := d.Prepare(local)
	if err != nil {
		return target{}, failf(codeConfig, "%w", err).hint("Run: handoff check")
	}
	d.Use(set)
	p := local.Peers[name]
	t := target{ref: p.Card.Ref(), said: name, peers: d}
	if t.card, err = d.OwnCard(name); err != nil {
		return target{}, failf(codeCardNotFound, "%w", err)
	}
	if file, ok := p.Card.File(); ok {
		t.ref = local.Path(file)
	}
	if p.Card.Inline() != nil {
		t.ref = name
	}
	t.secrets = append(t.secrets, p.Auth.Bearer.Reveal())
	if p.Auth.Key != nil {
		t.secrets = append(t.secrets, p.Auth.Key.Value.Reveal())
	}
	if p.Auth.Basic != nil {
		t.secrets = append(t.secrets, p.Auth.Basic.Password.Reveal())
	}
	if p.Auth.OAuth2 != nil {
		t.secrets = append(t.secrets, p.Auth.OAuth2.ClientSecret.Reveal())
	}
	return t, nil
}

// asPeer makes the options those of a peer.
func (s *session) asPeer() error {
	opts, err := s.target.peers.ClientOptions(s.target.said, peer.User{})
	if err != nil {
		return err
	}
	s.said = s.opts
	s.overlay(&opts)
	opts.NoFiles = false // the configuration has named the file
	s.opts = opts
	return nil
}

// overlay puts what the command line says over the options of a peer.
func (s *session) overlay(o *client.Options) {
	o.Version, o.Headers = s.said.Version, s.said.Headers
	o.Extensions = append(o.Extensions[:len(o.Extensions):len(o.Extensions)], s.said.Extensions...)
	if len(s.said.Transports) > 0 {
		o.Transports = s.said.Transports
	}
	if s.said.Credentials != nil {
		o.Credentials = s.said.Credentials
	}
	if s.log != nil {
		logged := *o.HTTPClient
		logged.Transport = &loggedTransport{base: logged.Transport, log: s.log}
		o.HTTPClient = &logged
	}
}

// dial connects to the agent. The credentials of a peer are chosen for its card.
func (s *session) dial() (*client.Client, error) {
	if s.target.peers == nil {
		return client.Dial(s.ctx, s.target.ref, s.opts)
	}
	c, _, err := s.target.peers.Client(s.ctx, s.target.said, peer.User{})
	if err != nil {
		return nil, peerFailure(err)
	}
	return c.With(s.overlay)
}

// peerFailure makes a failure of why a peer cannot be called.
func peerFailure(err error) error {
	if e, ok := errors.AsType[*peer.CredentialsError](err); ok {
		f := failf(codeCredentialsMissing, "%w", e)
		f.Exit = exitAuth
		return f
	}
	return err
}

// added reports whether the node of a configuration, while it runs, has a peer of
// that name which is not in the configuration.
func (a *app) added(ctx context.Context, local *config.Config, name string) bool {
	if local == nil || local.Agents[name] != nil || local.Peers[name] != nil || !agentID.MatchString(name) || name == "localhost" || hasCardFile(name) {
		return false
	}
	node, err := socketNode(local)
	if err != nil {
		return false
	}
	defer node.close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = node.call(ctx, "GET", peerPath(name, ""), nil)
	return err == nil
}
