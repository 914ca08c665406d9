package handoff

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/http1"
	"handoff.example/handoff/internal/mcpgw"
	"handoff.example/handoff/internal/wire"
)

// ListenAndServe starts the node, serves its listeners until ctx ends, and then
// shuts the node down within the configured grace period: readiness is refused
// at once, streams end with a hint to reconnect, and running turns are handed
// over or finish.
func (n *Node) ListenAndServe(ctx context.Context) error {
	if err := n.ListenAdmin(); err != nil {
		return errors.Join(err, n.Shutdown(ctx))
	}
	listener, err := net.Listen("tcp", n.base.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), n.Shutdown(ctx))
	}
	return n.Serve(ctx, listener)
}

// ListenAdmin opens the admin socket, where the node has one: before its other
// listeners, so that whoever reaches the node finds the socket too. Serve does it
// otherwise.
func (n *Node) ListenAdmin() error {
	path := SocketPath(n.base)
	if path == "" || n.socket != nil {
		return nil
	}
	socket, err := listenSocket(path)
	if err != nil {
		return err
	}
	n.socket = socket
	return nil
}

// Serve is ListenAndServe on a listener of the caller's.
func (n *Node) Serve(ctx context.Context, listener net.Listener) error {
	c, address := n.base, listener.Addr().String()
	n.address.Store(&address)
	servers, err := n.servers(c, listener)
	if err != nil {
		return errors.Join(err, listener.Close(), n.Shutdown(ctx))
	}
	if err := n.Start(context.WithoutCancel(ctx)); err != nil {
		for _, s := range servers {
			err = errors.Join(err, s.listener.Close())
		}
		return errors.Join(err, n.Shutdown(ctx))
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.serve() }()
	}
	n.log.Info("The node is ready", "address", address, "agents", len(n.current.Load().specs))
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	case <-n.engine.Lost():
		err = errors.New("another process has taken over the store")
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.ShutdownGrace.Std())
	defer cancel()
	n.log.Info("The node is stopping", "grace", c.ShutdownGrace.String())
	refused := time.Now()
	n.Drain(grace)
	n.linger(grace, refused)
	// Answers that are being written get a moment of their own.
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelLast()
	for _, s := range servers {
		s.shutdown(last)
	}
	return errors.Join(err, n.Shutdown(last))
}

// lingering is how long a node refuses requests before it closes its listeners,
// where others can take them: a balancer needs a moment to notice, and an answer
// tells a client more than a connection that is refused.
const lingering = time.Second

func (n *Node) linger(ctx context.Context, since time.Time) {
	if n.bus == nil {
		return
	}
	select {
	case <-time.After(lingering - time.Since(since)):
	case <-ctx.Done():
	}
}

type server struct {
	server   *http.Server
	listener net.Listener
	calls    *http1.Server // the connections that it has taken over; nil: none
}

// serve serves the listener until the server is shut down.
func (s *server) serve() error {
	if s.server.TLSConfig != nil {
		return s.server.ServeTLS(s.listener, "", "")
	}
	return s.server.Serve(s.listener)
}

// shutdown lets answers that are being written end, and breaks them off when ctx ends.
func (s *server) shutdown(ctx context.Context) {
	var calls sync.WaitGroup
	if s.calls != nil {
		calls.Go(func() { _ = s.calls.Shutdown(ctx) }) // which closes what is left
	}
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
	calls.Wait()
}

// servers returns the listeners of a node with what they serve: the public one,
// the admin socket, and the one for metrics.
func (n *Node) servers(c *config.Config, public net.Listener) ([]server, error) {
	options := wire.ServerOptions{
		HeaderTimeout: c.Limits.HeaderTimeout.Std(), IdleTimeout: c.Limits.IdleTimeout.Std(),
		HeaderBytes: int(c.Limits.HeaderBytes), Logger: n.log,
	}
	calls := http1.New(n, http1.Options{HeaderTimeout: options.HeaderTimeout, IdleTimeout: options.IdleTimeout, HeaderBytes: options.HeaderBytes, Logger: n.log})
	main := wire.NewServer(n, options)
	calls.Attach(main)
	var err error
	if main.TLSConfig, err = n.serverTLS(c); err != nil {
		return nil, err
	}
	servers := []server{{main, public, calls}}
	if err := n.ListenAdmin(); err != nil {
		return nil, err
	}
	if n.socket != nil {
		servers = append(servers, server{server: wire.NewServer(n.adminHandler(c), options), listener: n.socket})
	}
	if c.Telemetry.Listen != "" {
		listener, err := net.Listen("tcp", c.Telemetry.Listen)
		if err != nil {
			for _, s := range servers[1:] {
				_ = s.listener.Close()
			}
			return nil, fmt.Errorf("listen for telemetry: %w", err)
		}
		mux := http.NewServeMux()
		n.observe(mux, c)
		servers = append(servers, server{server: wire.NewServer(mux, options), listener: listener})
	}
	return servers, nil
}

// SocketPath returns where the admin socket of a node is: where the
// configuration says, else beside its SQLite file or, with PostgreSQL, beside
// its configuration. It is "" for a store in memory. Whoever can open the socket
// is an admin.
func SocketPath(c *Config) string { return c.SocketPath() }

// listenSocket listens on a socket that only this user can open. One that an
// earlier process left behind is replaced, one on which a process answers is
// not.
func listenSocket(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at old admin socket: %w", err)
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("the admin socket would be at %s, where something else is; move it, or name another place in socket", path)
	case answers(path):
		return nil, fmt.Errorf("another node answers on the admin socket %s; stop that one, or give this node a socket of its own with --socket or socket: in the configuration", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove old admin socket: %w", err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		if len(path) > 100 { // systems bound the paths of sockets to about that
			err = fmt.Errorf("%w; the path has %d characters, name a shorter one in socket", err, len(path))
		}
		return nil, fmt.Errorf("listen on admin socket %s: %w", filepath.Base(path), err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect admin socket: %w", err), listener.Close())
	}
	return listener, nil
}

// answers reports whether a process listens on a socket. One that does not
// take a connection in time is taken for one that does.
func answers(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return true
	}
	return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist)
}

// adminHandler serves the admin socket: the node's API with the rights of an
// admin, and what there is to observe.
func (n *Node) adminHandler(c *config.Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/v1/", n.apiHandler(admin{}))
	tools := n.gateway.serve(c, admin{}, func(r *http.Request) bool { return r.Header["Origin"] == nil })
	offered := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !n.Config().MCPEnabled() {
			http.NotFound(w, r)
			return
		}
		tools.ServeHTTP(w, r)
	})
	mux.Handle(mcpgw.Path, offered)
	mux.Handle(mcpgw.Path+"/", offered)
	mux.HandleFunc("GET /healthz", n.serveHealth)
	mux.HandleFunc("GET /readyz", n.serveReady)
	n.observe(mux, c)
	return mux
}

// observe adds metrics and profiles, as far as they are configured.
func (n *Node) observe(mux *http.ServeMux, c *config.Config) {
	if c.Telemetry.Metrics {
		mux.Handle("GET /metrics", n.metrics.Handler())
	}
	if c.Telemetry.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
}

// admin is whoever can open the admin socket.
type admin struct{}

// Authenticate returns the local admin.
func (admin) Authenticate(*http.Request) (Principal, error) {
	return Principal{Subject: "local admin", Issuer: auth.IssuerSocket, Role: RoleAdmin, Local: true}, nil
}

var _ auth.Authenticator = admin{}

// hostsOf returns the host of a URL, if it has one.
func hostsOf(publicURL string) []string {
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{u.Hostname()}
}
