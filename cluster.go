package handoff

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/bus"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// ear hands what the bus brings to the engine, which is made after the bus.
type ear struct{ engine atomic.Pointer[engine.Engine] }

// hints takes hints of other nodes. Those that come before there is an engine
// concern nobody here.
func (e *ear) hints(list []bus.Hint) {
	if engine := e.engine.Load(); engine != nil {
		engine.Heard(list)
	}
}

// restored is told that hints may have been missed.
func (e *ear) restored() {
	if engine := e.engine.Load(); engine != nil {
		engine.Restored()
	}
}

// hints takes hints of other nodes.
func (n *Node) hints(list []bus.Hint) {
	n.heard.hints(list)
	n.changes.Hints(list)
}

// missed is told that hints may have been missed.
func (n *Node) missed() {
	n.heard.restored()
	n.changes.Missed()
}

// busName returns the bus for people.
func (n *Node) busName() string {
	if name := n.Config().BusName(); name != "" {
		return name
	}
	return "none"
}

// busState returns how the bus is, nil when there is none.
func (n *Node) busState() *bus.State {
	reporter, ok := n.bus.(bus.Reporter)
	if !ok {
		return nil
	}
	state := reporter.State()
	return &state
}

// self is the node as it enters itself in the store.
func (n *Node) self(c *config.Config) store.Node {
	return store.Node{Name: nodeName(), Version: n.opts.Version, URL: addressOf(c), Digest: n.digest()}
}

// addressOf returns the URL of this one node, "" when it is not known before
// the node listens.
func addressOf(c *config.Config) string {
	if c.NodeURL != "" {
		return strings.TrimSuffix(c.NodeURL, "/")
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// ownURL returns where this one node is reached, for answers that have to come
// to it, without a slash at its end.
func (n *Node) ownURL() string {
	if own := n.Config().NodeURL; own != "" {
		return strings.TrimSuffix(own, "/")
	}
	return n.URL()
}

// digest says what the configuration in force is, in the parts that all nodes
// should share.
func (n *Node) digest() map[string]string {
	c := n.Config()
	keys, err := keysOf(c)
	if err != nil {
		return nil
	}
	digest := c.Digests(keys.fingerprint)
	digest["lease"] = c.Lease.String() // as it is: package api tells by it when a node was last heard
	if signer := n.signer(); signer != nil {
		if jwks, err := signer.JWKS(); err == nil {
			sum := sha256.Sum256(jwks)
			digest["signing"] = hex.EncodeToString(sum[:6])
		}
	}
	if keys.fingerprint != nil {
		sum := sha256.Sum256(keys.fingerprint)
		digest[partSecretKey] = hex.EncodeToString(sum[:6])
	}
	if keys.oldFingerprint != nil {
		sum := sha256.Sum256(keys.oldFingerprint)
		digest["old_secret_keys"] = hex.EncodeToString(sum[:6])
	}
	return digest
}

// peers watches whether the other nodes of the store have the same
// configuration.
type peers struct {
	node *Node
	kick chan struct{}   // the configuration has changed
	ctx  context.Context // ends with the node
	end  context.CancelFunc
	done sync.WaitGroup
	told map[string]bool // what was said already
}

func newPeers(n *Node) *peers {
	p := &peers{node: n, kick: make(chan struct{}, 1), told: map[string]bool{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// comparing is how often nodes are compared.
const comparing = time.Minute

// start announces the configuration, and begins to compare it. A store of one
// node has nothing to compare with.
func (p *peers) start() {
	p.changed() // agents of the program may have come after the node was made
	p.done.Go(func() {
		ticker := time.NewTicker(comparing)
		defer ticker.Stop()
		for {
			select {
			case <-p.ctx.Done():
				return
			case <-p.kick:
				p.announce(p.ctx)
			case <-ticker.C:
			}
			if p.node.Config().UsesPostgres() {
				p.compare(p.ctx)
			}
		}
	})
}

// stop ends the comparing. It may be called more than once, and without start.
func (p *peers) stop() {
	p.end()
	p.done.Wait()
}

// changed is told that the configuration may be another one.
func (p *peers) changed() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *peers) announce(ctx context.Context) {
	epoch, _ := p.node.engine.Epoch()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.node.store.Announce(ctx, epoch, p.node.digest()); err != nil && ctx.Err() == nil {
		p.node.log.Warn("The configuration of this node could not be announced to the others", "error", config.Conceal(err.Error()))
	}
}

// compare logs what differs on other nodes that are alive, in one line for each
// node, and again when something else does.
func (p *peers) compare(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := p.node.store.Nodes(ctx)
	if err != nil {
		return // whoever needs the store says that it is away
	}
	epoch, _ := p.node.engine.Epoch()
	here, now := p.node.digest(), map[string]bool{}
	for _, other := range list {
		if other.Epoch == epoch || !other.Alive {
			continue
		}
		differences := strings.Join(config.Differences(here, other.Digest), "; ")
		if differences == "" {
			continue
		}
		key := other.Name + " " + differences
		if now[key] = true; !p.told[key] {
			p.node.log.Warn("Another node has another configuration", "node", other.Name, "differences", differences)
		}
	}
	p.told = now
}
