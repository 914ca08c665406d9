package handoff

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/changes"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/sqlite"
)

// StoreError says that the store of a node could not be opened, and what to do.
type StoreError struct {
	Store  string // without secrets
	Err    error
	Advice string // may be empty
}

// Error returns what is wrong.
func (e *StoreError) Error() string {
	text := strings.TrimPrefix(e.Err.Error(), store.ErrUnavailable.Error()+": ")
	return fmt.Sprintf("the store %s cannot be opened: %s", e.Store, config.Conceal(text))
}

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

// openStore opens the store of the configuration.
func (n *Node) openStore(c *config.Config) error {
	if c.UsesPostgres() {
		return n.openPostgres(c)
	}
	path := c.StorePath()
	if path == ":memory:" {
		dir, err := os.MkdirTemp("", "handoff")
		if err != nil {
			return fmt.Errorf("make directory for a store that forgets: %w", err)
		}
		n.temp, path = dir, dir+"/handoff.db"
	}
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{Observe: n.metrics.Commit})
	if err != nil {
		return err
	}
	n.keep(s)
	return nil
}

// keep makes a store that of the node, which tells what changes through it.
func (n *Node) keep(s store.Store) {
	if sized, ok := s.(interface {
		Size(ctx context.Context) (int64, error)
	}); ok {
		n.size = sized.Size
	}
	n.kept = changes.NewStore(s, &n.changes)
	n.store = n.kept
}

// patience is how long a node that starts waits for its database, which may be
// starting too.
const patience = 10 * time.Second

// openPostgres waits for the database, and opens the store in it.
func (n *Node) openPostgres(c *config.Config) error {
	refuse := func(err error) error {
		return &StoreError{Store: c.StoreName(), Err: err, Advice: postgres.Advice(err)}
	}
	deadline := time.Now().Add(patience)
	var found *postgres.State
	for told := false; ; {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		var err error
		found, err = postgres.Examine(ctx, c.Store)
		cancel()
		if err == nil {
			break
		}
		if !postgres.Temporary(err) || time.Now().Add(pause).After(deadline) {
			return refuse(err)
		}
		if !told {
			told = true
			n.log.Info("The database does not answer yet, and is tried again", "store", c.StoreName(), "for", patience.String(), "error", config.Conceal(err.Error()))
		}
		time.Sleep(pause)
	}
	s, err := postgres.Open(context.Background(), c.Store, postgres.Options{Observe: n.metrics.Commit})
	if err != nil {
		return refuse(err)
	}
	n.keep(s)
	if found.Has == 0 {
		// A wrong search_path or database would else go unnoticed.
		n.log.Info("The store is new, and its tables were made", "store", c.StoreName(), "schema", found.Schema)
	}
	return nil
}

// openBus opens what tells the nodes of a store of each other's changes; a
// store of one node has none.
func (n *Node) openBus(c *config.Config) error {
	if !c.UsesPostgres() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cluster, err := n.store.Cluster(ctx)
	if err != nil {
		return &StoreError{Store: c.StoreName(), Err: err, Advice: postgres.Advice(err)}
	}
	options := bus.Options{Cluster: cluster, Heard: n.hints, Restored: n.missed, Logger: n.log}
	if c.UsesNATS() {
		n.bus, err = bus.NATS(ctx, c.Bus, bus.NATSOptions{Credentials: c.BusCredentialsPath(), CA: c.BusCAPath()}, options)
	} else {
		n.bus, err = bus.Postgres(ctx, c.Store, options)
	}
	if err != nil {
		return fmt.Errorf("open bus %s: %s", c.BusName(), config.Conceal(err.Error()))
	}
	n.kept.Share(n.bus)
	return nil
}

// pause is the time between two attempts to reach the database.
const pause = 300 * time.Millisecond
