package handoff

import (
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
	"handoff.example/handoff/internal/store"
)

// openCatalog makes the directory of the peers that work is handed to, with those
// of a configuration.
func (n *Node) openCatalog(c *config.Config, guard *netguard.Guard, sealer *auth.Sealer) error {
	opts := peer.Options{Guard: guard, BaseURL: n.URL, Logger: n.log}
	if kept, ok := n.store.(store.Peers); ok {
		opts.Store = kept
	}
	if sealer != nil {
		opts.Sealer = sealer
	}
	n.catalog = peer.New(opts)
	set, err := n.catalog.Prepare(c)
	if err != nil {
		return err
	}
	n.catalog.Use(set)
	return nil
}
