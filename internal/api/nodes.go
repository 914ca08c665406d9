package api

import (
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
)

// neighbor is a node of the store.
type neighbor struct {
	Epoch       int64     `json:"epoch"`
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	URL         string    `json:"url,omitempty"`
	Started     time.Time `json:"started,omitzero"`
	Seen        time.Time `json:"seen,omitzero"`
	Alive       bool      `json:"alive"`
	This        bool      `json:"this"`
	Differences []string  `json:"differences"`
}

// listNodes returns the nodes of the store, newest last, with what differs in
// their configurations from that of this node.
func (c *call) listNodes() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	list, err := c.h.opts.Nodes(c.context())
	if err != nil {
		return nil, err
	}
	epoch, _ := c.h.opts.Engine.Epoch()
	var here map[string]string
	for _, n := range list {
		if n.Epoch == epoch {
			here = n.Digest
		}
	}
	answer := struct {
		Nodes []neighbor `json:"nodes"`
	}{make([]neighbor, len(list))}
	for i := range list {
		answer.Nodes[i] = neighborOf(&list[i], epoch, here)
	}
	return answer, nil
}

func neighborOf(n *store.Node, epoch int64, here map[string]string) neighbor {
	p := neighbor{
		Epoch: n.Epoch, Name: n.Name, Version: n.Version, URL: n.URL, Alive: n.Alive, This: n.Epoch == epoch,
		Started: n.Started.UTC().Truncate(time.Millisecond), Differences: []string{},
	}
	var lease config.Duration
	if err := lease.UnmarshalText([]byte(n.Digest["lease"])); err == nil && !n.Expires.IsZero() {
		p.Seen = n.Expires.Add(-lease.Std()).UTC().Truncate(time.Millisecond)
	}
	if !p.This && n.Alive && here != nil {
		p.Differences = append(p.Differences, config.Differences(here, n.Digest)...)
	}
	return p
}

// busState is how the bus of the node is.
type busState struct {
	Kind      string    `json:"kind"`
	Server    string    `json:"server"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`
	Sent      uint64    `json:"sent"`
	Heard     uint64    `json:"heard"`
	Dropped   uint64    `json:"dropped"`
}

// bus returns how the bus is, nil when there is none.
func (c *call) bus() *busState {
	if c.h.opts.Bus == nil {
		return nil
	}
	s := c.h.opts.Bus()
	if s == nil {
		return nil
	}
	return &busState{
		Kind: s.Kind, Server: s.Server, Connected: s.Connected, Since: s.Since.UTC().Truncate(time.Millisecond),
		Sent: s.Sent, Heard: s.Heard, Dropped: s.Dropped + s.Malformed,
	}
}
