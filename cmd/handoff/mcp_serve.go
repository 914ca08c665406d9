package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/internal/mcp/client"
	"handoff.example/handoff/internal/mcp/stdio"
)

func newMCPServeCommand(a *app) *cobra.Command {
	var f apiFlags
	var m mcpFlags
	var std bool
	cmd := &cobra.Command{
		Use: "serve --stdio", Short: "Be a local MCP server, on standard input and output",
		Long: `Serve the tools of a node on standard input and output, for a desktop host that
starts its MCP servers as programs. The node is the one of the configuration, over
its admin socket; where it is not running, this command runs it until standard input
ends. With --node or HANDOFF_NODE it is another one, with the rights of
HANDOFF_TOKEN. The log is on standard error.`,
		Example: `  handoff mcp serve --stdio -c /etc/handoff.yaml
  HANDOFF_NODE=https://agents.example.com HANDOFF_TOKEN=hk_… handoff mcp serve --stdio --set buyers`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !std {
				return usagef("say on what: --stdio").hint("Over HTTP, handoff serve has the tools at /mcp")
			}
			return a.tellProblems(a.serveStdio(cmd.Context(), &f, &m))
		},
	}
	f.register(cmd)
	m.register(cmd)
	cmd.Flags().BoolVar(&std, "stdio", false, "on standard input and output")
	return cmd
}

// serveStdio serves a node that is running, or runs one.
func (a *app) serveStdio(ctx context.Context, f *apiFlags, m *mcpFlags) error {
	node, err := a.openNode(f)
	if err != nil {
		return err
	}
	defer node.close()
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	serve := func(ctx context.Context, node *nodeAPI) error {
		e := &stdio.Endpoint{URL: node.base + m.path(), Client: node.http, Header: http.Header{}, Logger: log}
		lists := client.Client{URL: e.URL, HTTP: e.Client, Header: e.Header, Name: "handoff", Version: versionText()}
		e.Params = lists.HeaderParams
		if node.token != "" {
			e.Header.Set("Authorization", "Bearer "+node.token)
		}
		gone := func(err error) bool { return node.local && absent(err) }
		e.Gone = gone
		err := e.Serve(ctx, a.stdin, a.stdout)
		if err != nil && gone(err) {
			err = node.unreachable(err)
		}
		return err
	}
	err = node.ready(ctx)
	switch {
	case err == nil:
		return serve(ctx, node)
	case node.local && f.socket == "" && absent(err):
		return a.serveOwn(ctx, f, log, serve)
	}
	return err
}

// serveOwn runs a node for as long as serve takes. It listens where nobody else
// comes.
func (a *app) serveOwn(ctx context.Context, f *apiFlags, log *slog.Logger, serve func(context.Context, *nodeAPI) error) error {
	c, err := f.load()
	if err != nil {
		return err
	}
	node, err := handoff.New(c, handoff.Options{Logger: log, Version: versionText()})
	if err != nil {
		return nodeFailure(err)
	}
	dir, err := os.MkdirTemp("", "handoff")
	if err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return errors.Join(err, node.Shutdown(ctx))
	}
	own, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- node.Serve(own, listener) }()
	local, err := socketNode(c)
	if err == nil {
		defer local.close()
		err = a.untilReady(own, local, ended)
	}
	if err == nil {
		err = serve(own, local)
	}
	stop()
	return errors.Join(err, ignoreClosed(<-ended))
}

// untilReady waits until the node answers, or ends.
func (a *app) untilReady(ctx context.Context, node *nodeAPI, ended chan error) error {
	for {
		err := node.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case err := <-ended:
			ended <- nil
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
