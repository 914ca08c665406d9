package client

import (
	"net/http"
	"sync"
	"time"
)

// How long a connection may say nothing before it is asked, and how long it may
// take to answer.
const (
	pingAfter  = 30 * time.Second
	pongWithin = 15 * time.Second
)

// http2Client is what gRPC is sent with: a client's transport, speaking HTTP/2
// also where there is no TLS to agree on it (h2c, RFC 9113 §3.3).
type http2Client struct {
	from      *http.Client
	transport func() http.RoundTripper
	pings     bool // a connection that says nothing is asked whether it is there
}

// of returns what speaks HTTP/2 for a client. Clients that share their http.Client
// share it, and so the connections.
func (h *http2Client) of(from *http.Client) *http2Client {
	if h != nil && h.from == from {
		return h
	}
	return &http2Client{from, sync.OnceValue(func() http.RoundTripper { return HTTP2Only(from.Transport) }), pings(from.Transport)}
}

// pings reports whether HTTP2Only sees to the pings of a transport.
func pings(base http.RoundTripper) bool {
	switch base.(type) {
	case nil, *http.Transport, interface{ HTTP2Only() http.RoundTripper }:
		return true
	}
	return false
}

// HTTP2Only returns a transport like base, or like http.DefaultTransport, that
// speaks nothing but HTTP/2, also where there is no TLS, and gives up a connection
// whose other end does not answer pings. It is what gRPC is sent with. A transport that wraps another one can have a method
//
//	HTTP2Only() http.RoundTripper
//
// that wraps what HTTP2Only returns for the other; one without it, and not of
// package http, is used as it is and has to speak HTTP/2 by itself.
func HTTP2Only(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	switch t := base.(type) {
	case interface{ HTTP2Only() http.RoundTripper }:
		return t.HTTP2Only()
	case *http.Transport:
		return http2Only(t)
	}
	return base
}

// http2Only returns a transport like t, with the same dialer and settings, that
// speaks nothing but HTTP/2.
func http2Only(t *http.Transport) *http.Transport {
	t = t.Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	if t.HTTP2 == nil {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pongWithin}
	}
	return t
}
