// Package api is the node's own REST API, below /api/v1/: what the command line
// and a console need to see and to settle what is on a node.
package api

import (
	"context"
	"log/slog"
	"net/http"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// Options are what the API runs on.
type Options struct {
	Engine *engine.Engine
	Auth   auth.Authenticator
	Logger *slog.Logger // nil: slog.Default()
	// Version is that of the program.
	Version string
	// Config returns the configuration in force, Reload reads it again.
	Config func() *config.Config
	Reload func() ([]config.Change, error)
	// Backup writes a consistent copy of the store to a new file.
	Backup func(ctx context.Context, file string) error
	// Metrics serves what there is to measure; nil: nothing.
	Metrics http.Handler
}

// New returns a handler of everything below /api/v1/.
func New(Options) http.Handler {
	return http.NotFoundHandler()
}
