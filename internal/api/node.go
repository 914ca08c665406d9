package api

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// publishedAgent is an agent of the node. Of one that is retired only the id is
// known.
type publishedAgent struct {
	ID          string   `json:"id"`
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Version     string   `json:"version,omitempty"`
	Address     string   `json:"address,omitempty"`
	Card        string   `json:"card,omitempty"`
	Tenants     []string `json:"tenants,omitempty"`
	Retired     bool     `json:"retired"`
}

// listAgents returns the agents, and for operators those that are gone but have
// left tasks.
func (c *call) listAgents() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	cfg := c.h.opts.Config()
	base := c.base(cfg)
	answer := struct {
		Agents []*publishedAgent `json:"agents"`
	}{[]*publishedAgent{}}
	for _, id := range cfg.AgentIDs() {
		a := cfg.Agents[id]
		tenant := c.caller.Tenant
		switch {
		case tenant == "" || len(a.Tenants) == 0:
			tenant = ""
		case !slices.Contains(a.Tenants, tenant):
			continue // to its callers there is no such agent
		}
		p := &publishedAgent{
			ID: id, Name: a.Name, Description: a.Description, Version: a.Version,
			Address: card.Address(base, id, tenant), Card: card.URL(base, a, id, tenant),
		}
		if c.caller.Tenant == "" && c.caller.Role >= auth.RoleOperator {
			p.Tenants = a.Tenants
		}
		answer.Agents = append(answer.Agents, p)
	}
	if c.caller.Role < auth.RoleOperator || c.caller.Tenant != "" {
		return answer, nil
	}
	stats, err := c.h.opts.Engine.Stats(c.context())
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, s := range stats {
		if cfg.Agents[s.Agent] == nil && !gone[s.Agent] {
			gone[s.Agent] = true
			answer.Agents = append(answer.Agents, &publishedAgent{ID: s.Agent, Retired: true})
		}
	}
	slices.SortFunc(answer.Agents, func(a, b *publishedAgent) int { return strings.Compare(a.ID, b.ID) })
	return answer, nil
}

// base returns the URL below which the caller reaches the agents.
func (c *call) base(cfg *config.Config) string {
	local, _ := c.context().Value(http.LocalAddrContextKey).(net.Addr)
	if cfg.PublicURL != "" || local == nil || local.Network() != "unix" {
		return card.BaseURL(c.r, cfg.PublicURL, cfg.TrustedPrefixes())
	}
	// The admin socket is not where agents are.
	if c.h.opts.Base != nil {
		return c.h.opts.Base()
	}
	return "http://" + cfg.Listen
}

type configValue struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// getConfig returns every value in force with where it comes from.
func (c *call) getConfig() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	cfg := c.h.opts.Config()
	answer := struct {
		File   string        `json:"file,omitempty"`
		Values []configValue `json:"values"`
	}{cfg.File(), []configValue{}}
	for _, v := range cfg.Values() {
		answer.Values = append(answer.Values, configValue{v.Path, v.Text, v.Origin.String()})
	}
	return answer, nil
}

type configChange struct {
	Path string `json:"path"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
}

// reload puts the configuration file into effect.
func (c *call) reload() (any, error) {
	if err := c.read(&nothing{}); err != nil {
		return nil, err
	}
	changes, err := c.h.opts.Reload()
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return nil, refusedConfig(wrong)
	}
	if err != nil {
		// Whoever may reload the configuration may know what is wrong with it.
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The configuration was not reloaded: %w", err)
	}
	answer := struct {
		Changes []configChange `json:"changes"`
	}{[]configChange{}}
	for _, change := range changes {
		answer.Changes = append(answer.Changes, configChange{change.Path, change.Old, change.New})
	}
	return answer, nil
}

// refusedConfig is the error of a file that is wrong, with every problem.
func refusedConfig(wrong *config.Error) *a2a.Error {
	const most = 50
	e := &a2a.Error{Code: a2a.CodeInvalidParams, Message: "The configuration was not reloaded:\n" + wrong.Error(), Err: wrong}
	for _, p := range wrong.Problems[:min(most, len(wrong.Problems))] {
		text := p.Message
		if p.Line > 0 {
			text = "line " + strconv.Itoa(p.Line) + ": " + text
		}
		e.Violations = append(e.Violations, a2a.Violation{Field: p.Path, Description: text})
	}
	return e
}

// backup writes a copy of the store to a new file of this machine.
func (c *call) backup() (any, error) {
	var q struct {
		File string `json:"file"`
	}
	if err := c.read(&q); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(q.File) || len(q.File) > maxPath || strings.ContainsRune(q.File, 0) {
		return nil, a2a.Invalid("file", "is not the absolute path of a file on the node's machine")
	}
	err := c.h.opts.Backup(c.context(), q.File)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The file %s exists; a backup goes to a new file", q.File)
	case err != nil:
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "There is no backup: %w", err)
	}
	return struct {
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{q.File, sizeOf(q.File)}, nil
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

type stat struct {
	Agent  string    `json:"agent"`
	State  string    `json:"state"`
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"` // earliest status of a state that is not terminal
}

// status says how the node is.
func (c *call) status() (any, error) {
	if err := c.query().err(); err != nil {
		return nil, err
	}
	e, cfg := c.h.opts.Engine, c.h.opts.Config()
	stats, err := e.Stats(c.context())
	away := ""
	if engine.IsAway(err) {
		away = "The task store is not available" // the rest is known all the same
	} else if err != nil {
		return nil, err
	}
	epoch, since := e.Epoch()
	answer := struct {
		Version    string     `json:"version"`
		Epoch      int64      `json:"epoch"`
		Started    time.Time  `json:"started"`
		Uptime     int64      `json:"uptime_seconds"`
		Draining   bool       `json:"draining"`
		Agents     int        `json:"agents"`
		Store      string     `json:"store"`
		Bus        *busState  `json:"bus,omitempty"`
		Seals      *SealState `json:"seals,omitempty"`
		StoreBytes int64      `json:"store_bytes"`
		StoreError string     `json:"store_error,omitempty"`
		Tasks      []stat     `json:"tasks"`
	}{
		Version: c.h.opts.Version, Epoch: epoch, Started: since.UTC().Truncate(time.Millisecond), Uptime: int64(time.Since(since).Seconds()),
		Draining: e.Draining(), Agents: len(cfg.Agents), Store: cfg.StoreName(), Bus: c.bus(), Seals: c.seals(), StoreError: away, Tasks: []stat{},
	}
	if path := cfg.StorePath(); path != "" {
		answer.StoreBytes = sizeOf(path) + sizeOf(path+"-wal")
	}
	for _, s := range stats {
		answer.Tasks = append(answer.Tasks, statOf(s))
	}
	return answer, nil
}

// SealState says what is sealed with other keys than secret_key.
type SealState struct {
	Old     int      `json:"old"`     // values sealed with a key of old_secret_keys
	Unknown int      `json:"unknown"` // values whose key is not configured
	Waiting []string `json:"waiting"` // nodes that seal with another key
	Spare   bool     `json:"spare"`   // no key of old_secret_keys is needed
}

func (c *call) seals() *SealState {
	if c.h.opts.Seals == nil {
		return nil
	}
	return c.h.opts.Seals()
}

func statOf(s store.Stat) stat {
	answer := stat{Agent: s.Agent, State: s.State.String(), Count: s.Count}
	if !s.Oldest.IsZero() {
		answer.Oldest = s.Oldest.UTC()
	}
	return answer
}

// metrics serves what there is to measure, in the format of Prometheus.
func (c *call) metrics() (any, error) {
	if c.h.opts.Metrics == nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "This node measures nothing")
	}
	c.sent = http.StatusOK
	c.h.opts.Metrics.ServeHTTP(c.w, c.r)
	return nil, nil
}
