package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

func newServeCommand(a *app) *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node",
		Long: `Run the node that a configuration file describes.

SIGINT and SIGTERM stop it: readiness is refused, streams end, and turns finish
within shutdown_grace; a second signal ends it at once. SIGHUP reloads the file,
as handoff reload does.`,
		Example: "  handoff serve\n  handoff serve -c /etc/handoff.yaml --listen 0.0.0.0:8080 --log-format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.tellProblems(a.serve(cmd.Context(), &f))
		},
	}
	f.registerFile(cmd)
	f.registerOverrides(cmd)
	return cmd
}

// serve runs a node until ctx ends.
func (a *app) serve(ctx context.Context, f *nodeFlags) error {
	c, err := f.load()
	if err != nil {
		return err
	}
	level := &nodeLevel{}
	level.config.Store(c)
	log := newLogger(a.stderr, c, level)
	node, err := handoff.New(c, handoff.Options{Logger: log, Version: versionText()})
	if err != nil {
		return nodeFailure(err)
	}
	if err := node.ListenAdmin(); err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return errors.Join(listenFailure(c.Listen, err), node.Shutdown(ctx))
	}
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-reloads:
				reload(node, log)
			case <-done:
				return
			}
		}
	}()
	level.node.Store(node)
	scheme := "http://"
	if node.Config().TLS != nil {
		scheme = "https://"
	}
	base := scheme + localAddress(listener.Addr().String())
	logAgents(node, log, base)
	a.printConsole(ctx, node, log, base, listener.Addr())
	defer runtime.KeepAlive(make([]byte, spareHeap))
	return node.Serve(ctx, listener)
}

// spareHeap is memory that is never touched, and so takes none: the collector begins
// later by that much. The heap of a node that serves calls is so small that it would
// be collected dozens of times a second otherwise.
const spareHeap = 4 << 20

// logAgents says where the agents are.
func logAgents(node *handoff.Node, log *slog.Logger, base string) {
	c := node.Config()
	if c.PublicURL != "" {
		base = c.PublicURL
	}
	for _, id := range c.AgentIDs() {
		log.Info("An agent is published", "agent", id, "address", card.Address(base, id, ""), "card", card.URL(base, c.Agents[id], id, ""))
	}
	if len(c.Agents) == 0 && len(c.Peers) == 0 && !c.MCPEnabled() {
		log.Warn("The configuration has no agents; add one below agents: and reload")
	}
}

// localAddress returns an address under which a listener is reached from here.
func localAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// reload reads the configuration again, and says what came of it. What has
// changed, the node says itself.
func reload(node *handoff.Node, log *slog.Logger) {
	changes, err := node.Reload()
	wrong, several := errors.AsType[*config.Error](err)
	switch {
	case several:
		for _, p := range wrong.Problems {
			log.Error("The configuration was not reloaded", "file", wrong.File, "line", p.Line, "path", p.Path, "problem", p.Message)
		}
	case err != nil:
		log.Error("The configuration was not reloaded", "error", err)
	default:
		log.Info("The configuration was reloaded", "changes", len(changes))
	}
}

// nodeLevel is the level of the log, as the configuration in force has it.
type nodeLevel struct {
	config atomic.Pointer[config.Config]
	node   atomic.Pointer[handoff.Node] // nil until there is one
}

// Level returns the level.
func (l *nodeLevel) Level() slog.Level {
	c := l.config.Load()
	if node := l.node.Load(); node != nil {
		c = node.Config()
	}
	switch c.Log.Level {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// newLogger returns a log in the configured form.
func newLogger(w io.Writer, c *config.Config, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// nodeFailure tells an error of a node that could not be made.
func nodeFailure(err error) error {
	if is[*config.Error](err) {
		return configFailure(err)
	}
	if e, ok := errors.AsType[*handoff.StoreError](err); ok && e.Advice != "" {
		return failf(codeInternal, "%w", err).hint("%s", e.Advice)
	}
	return failf(codeInternal, "%w", err).hint("See: handoff doctor")
}

// listenFailure tells why the address cannot be listened on.
func listenFailure(address string, err error) error {
	f := failf(codeInternal, "listen on %s: %w", address, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.Message = "the address " + address + " is in use by another program"
		f.Hint = "Stop that program, or choose another address with --listen or listen: in the configuration"
	case errors.Is(err, syscall.EACCES):
		f.Hint = "Ports below 1024 need a privilege; choose a higher one with --listen"
	default:
		f.Hint = "Choose another address with --listen or listen: in the configuration"
	}
	return f
}
