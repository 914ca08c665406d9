package handoff

import (
	"net"
	"net/url"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

// ownAgent returns the id of the agent of this node that a peer is, by the address
// of its card or of what is spoken with it; "" for one that is elsewhere, as far as
// that can be seen.
func (n *Node) ownAgent(name string) string {
	c := n.Config()
	bases := []string{c.PublicURL, n.URL()}
	if n.catalog == nil {
		return ""
	}
	p, err := n.catalog.Get(name)
	if err != nil {
		return ""
	}
	if id := ownByCard(c, bases, p.Config); id != "" || p.Interface == nil {
		return id
	}
	return ownInterface(c, bases, p.Interface)
}

// ownByCard returns the agent of a configuration whose card a peer names, or whose
// interface stands in the card that is written out for it.
func ownByCard(c *config.Config, bases []string, p *config.Peer) string {
	for _, ref := range []string{p.Card.Ref(), p.URL} {
		if id := ownAt(c, bases, ref); id != "" {
			return id
		}
	}
	if p.Card.Inline() == nil {
		return ""
	}
	of, err := client.ParseCard(p.Card.Inline(), "")
	if err != nil {
		return ""
	}
	for i := range of.SupportedInterfaces {
		if id := ownInterface(c, bases, &of.SupportedInterfaces[i]); id != "" {
			return id
		}
	}
	return ""
}

// ownInterface returns the agent of a configuration that an interface is of.
func ownInterface(c *config.Config, bases []string, i *a2a.AgentInterface) string {
	if i.ProtocolBinding != a2a.BindingGRPC {
		return ownAt(c, bases, i.URL)
	}
	// All agents have one address there; the tenant leads to one of them.
	address := i.URL
	if !strings.Contains(address, "://") {
		address = "grpc://" + address
	}
	u, err := url.Parse(address)
	if err != nil || !sameHost(u, bases) {
		return ""
	}
	id, _, _ := strings.Cut(i.Tenant, "/")
	if c.Agents[id] != nil {
		return id
	}
	return c.DefaultAgentID()
}

// ownAt returns the agent of a configuration that is at a URL.
func ownAt(c *config.Config, bases []string, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || !sameHost(u, bases) {
		return ""
	}
	path := u.Path
	for _, base := range bases { // public_url may have a path
		if b, err := url.Parse(base); err == nil && strings.Trim(b.Path, "/") != "" {
			if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(b.Path, "/")); ok && strings.HasPrefix(rest+"/", "/") {
				path = rest
			}
		}
	}
	if rest, ok := strings.CutPrefix(path, "/agents/"); ok {
		if id, _, _ := strings.Cut(rest, "/"); c.Agents[id] != nil {
			return id
		}
	}
	for _, id := range c.AgentIDs() {
		paths := card.PathsOf(c.Agents[id], id, "")
		for _, own := range []string{paths.JSONRPC, paths.REST, paths.Card} {
			if path == own || own != "/" && strings.HasPrefix(path, strings.TrimSuffix(own, "/")+"/") {
				return id
			}
		}
	}
	if path == "" || path == "/" || path == a2a.WellKnownCardPath {
		return c.DefaultAgentID()
	}
	return ""
}

// sameHost reports whether an address is on the host and port of one of the bases.
// The names of this machine for itself are one host.
func sameHost(u *url.URL, bases []string) bool {
	for _, base := range bases {
		b, err := url.Parse(base)
		if err != nil || b.Host == "" || portOf(u) != portOf(b) {
			continue
		}
		if strings.EqualFold(u.Hostname(), b.Hostname()) || local(u.Hostname()) && local(b.Hostname()) {
			return true
		}
	}
	return false
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

// checkRelays returns what is wrong with agents that hand everything to themselves.
func checkRelays(c *config.Config) (problems []config.Problem) {
	listen := "http://" + c.Listen
	if strings.HasPrefix(c.Listen, ":") {
		listen = "http://0.0.0.0" + c.Listen
	}
	for _, id := range c.AgentIDs() {
		to := c.Agents[id].Run.Relay
		if p := c.Peers[to]; p != nil && ownByCard(c, []string{c.PublicURL, listen}, p) == id {
			problems = append(problems, c.Problem("agents."+id+".run.relay", "names the peer %s, which is this agent itself: its tasks would go in a circle", to))
		}
	}
	return problems
}
