package handoff

import (
	"context"
	"errors"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/span"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/telemetry"
	"handoff.example/handoff/internal/upstream"
)

// askedPatience is how long a scrape of the metrics waits for the store.
const askedPatience = 5 * time.Second

// watch has the metrics that are asked for with each scrape come from the parts of
// the node.
func (n *Node) watch() {
	n.metrics.WatchBuild(n.opts.Version)
	n.metrics.WatchStock(engine.PeerPrefix, n.stock)
	n.metrics.WatchLoad(func() telemetry.Load { return telemetry.Load(n.engine.Load()) })
	n.metrics.WatchInbox(n.openItems)
	n.metrics.WatchWebhooks(n.behind)
	n.metrics.WatchAudit(n.audit.Lost)
	n.metrics.WatchJobs(n.nextJob)
	n.metrics.WatchNodes(n.nodes)
	n.metrics.WatchStoreSize(n.storeSize)
	n.metrics.WatchServers(n.serversUp)
	if n.busState() != nil {
		n.metrics.WatchBus(n.busNumbers)
	}
}

// asked returns what f finds out for a scrape. That it fails is for the log.
func asked[T any](n *Node, what string, f func(context.Context) (T, error)) (value T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), askedPatience)
	defer cancel()
	value, err := f(ctx)
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) { // of which the log tells elsewhere
			n.log.Warn("A metric could not be read", "of", what, "error", err)
		}
		return value, false
	}
	return value, true
}

func (n *Node) stock() []telemetry.Stock {
	stats, _ := asked(n, "tasks", func(ctx context.Context) ([]store.Stat, error) {
		return n.store.Stats(ctx, time.Now().Add(-n.current.Load().config.StaleAfter.Std()))
	})
	stock := make([]telemetry.Stock, len(stats))
	for i, s := range stats {
		stock[i] = telemetry.Stock{Agent: s.Agent, State: s.State.String(), Count: s.Count, Oldest: s.Oldest, Stale: s.Stale}
	}
	return stock
}

func (n *Node) openItems() []telemetry.Items {
	counts, _ := asked(n, "inbox", n.inbox.Counts)
	items := make([]telemetry.Items, len(counts))
	for i, c := range counts {
		items[i] = telemetry.Items(c)
	}
	return items
}

func (n *Node) behind() (telemetry.Webhooks, bool) {
	s, ok := asked(n, "webhooks", n.webhooks.Stats)
	return telemetry.Webhooks{Waiting: s.Retrying, Oldest: s.Oldest, Dead: s.Dead}, ok
}

func (n *Node) nextJob() (time.Time, bool) { return asked(n, "jobs", n.store.NextJob) }

func (n *Node) nodes() (count telemetry.Nodes, ok bool) {
	list, ok := asked(n, "nodes", n.store.Nodes)
	for i := range list {
		if list[i].Alive {
			count.Alive++
		} else {
			count.Dead++
		}
	}
	return count, ok
}

func (n *Node) storeSize() (int64, bool) {
	if n.size == nil {
		return 0, false
	}
	return asked(n, "size of the store", n.size)
}

// serversUp says which tool servers can be called.
func (n *Node) serversUp() map[string]bool {
	up := map[string]bool{}
	for _, name := range n.gateway.servers.Names() {
		if s, ok := n.gateway.servers.State(name); ok {
			up[name] = s.Up && s.Circuit != upstream.CircuitOpen
		}
	}
	return up
}

func (n *Node) busNumbers() telemetry.Bus {
	s := n.busState()
	return telemetry.Bus{Connected: s.Connected, Sent: s.Sent, Heard: s.Heard, Dropped: s.Dropped + s.Malformed}
}

// outcomeOfCall names what came of a call of a peer, without what it says.
func outcomeOfCall(err error) string {
	if err == nil {
		return "ok"
	}
	if t, ok := errors.AsType[*client.TransportError](err); ok {
		return string(t.Kind)
	}
	if _, ok := errors.AsType[*a2a.Error](err); ok {
		return "refused"
	}
	return "other"
}

func traceConfig(c *config.Config, version string) telemetry.TraceConfig {
	t := telemetry.TraceConfig{
		Endpoint: c.Telemetry.OTLP.Endpoint, Service: c.Telemetry.OTLP.ServiceName,
		Ratio: c.Telemetry.OTLP.Ratio, Version: version, Headers: map[string]string{}, IDs: span.IDs{},
	}
	for name, value := range c.Telemetry.OTLP.Headers {
		t.Headers[name] = value.Reveal()
	}
	return t
}
