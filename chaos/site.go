//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// site is what is under test: one node, or several that share a store.
type site struct {
	dir   string
	nodes []*server
	lease time.Duration // how long a node counts as alive without a sign of life
	// patience is how long a client waits for an answer, or for the next event of
	// a stream, before it turns to another node. 0 is for ever.
	patience time.Duration
}

// newSite prepares what the nodes of a site share: the journals.
func newSite(dir string, lease time.Duration) (*site, error) {
	s := &site{dir: dir, lease: lease}
	for _, agent := range programs {
		if err := os.Mkdir(s.journal(agent)+".locks", 0o700); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// programs are the agents that run the program.
var programs = []string{"once", "again"}

// journal is where the program of an agent writes; of no agent, what all these
// names begin with.
func (s *site) journal(agent string) string {
	path := filepath.Join(s.dir, "journal")
	if agent != "" {
		path += "." + agent
	}
	return path
}

// configuration completes the configuration of a node with the agents, which
// are the same on every node.
func (s *site) configuration(head string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return head + strings.NewReplacer("PROGRAM", self, "JOURNAL", s.journal("")).Replace(agentsConfiguration), nil
}

func (s *site) addresses() []string {
	addresses := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		addresses[i] = n.address
	}
	return addresses
}

func (s *site) sockets() []string {
	sockets := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		sockets[i] = n.socket
	}
	return sockets
}

// starts returns how often processes of the nodes have been started.
func (s *site) starts() int {
	n := 0
	for _, node := range s.nodes {
		n += node.starts
	}
	return n
}

// end ends what is left of the nodes.
func (s *site) end() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.end())
	}
	return errors.Join(errs...)
}
