package peer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/store"
)

// Facts are what was observed of a peer.
type Facts struct {
	// Bindings are those that were used, the one that worked last first.
	Bindings []Binding `json:"bindings,omitempty"`
	// Version is that of the protocol that worked last.
	Version string `json:"version,omitempty"`
	// Deduplicates is true or false when that was observed.
	Deduplicates config.Tristate `json:"deduplicates,omitempty"`
	// Latency is how long the peer takes to answer, in milliseconds, smoothed.
	Latency float64 `json:"latency_ms,omitzero"`
	// Error is what went wrong last, "" when something worked since.
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`
	// Signature is what became of the verification of the card in use.
	Signature string `json:"signature,omitempty"`
	KeyID     string `json:"kid,omitempty"`
	// HeldSince is since when a card waits for approval.
	HeldSince time.Time `json:"held_since,omitzero"`
	// HeldItem is the id of the item in the inbox that asks for that.
	HeldItem string `json:"held_item,omitempty"`
	// CardAt is when the card was fetched last.
	CardAt time.Time `json:"card_at,omitzero"`
}

// Binding is an interface that was used.
type Binding struct {
	Interface string    `json:"interface"` // binding, version and URL
	Worked    time.Time `json:"worked,omitzero"`
	Failed    time.Time `json:"failed,omitzero"`
}

// Observation is what one call of a peer has shown.
type Observation struct {
	Interface    string        // binding, version and URL, such as "JSONRPC 1.0 https://…"; "": none was used
	Version      string        // of the protocol; "" with an error
	Latency      time.Duration // of a call that says how fast the peer is; 0: it does not
	Err          error         // nil: the peer has answered, if only with an error of its own
	Deduplicates *bool         // nil: nothing was seen of that
}

const (
	maxBindings = 8
	maxError    = 500 // bytes
	// factsPause is the least time between two writes of facts.
	factsPause = 5 * time.Second
	saveFacts  = 10 * time.Second
)

// observed are observations that were not written yet.
type observed struct {
	mu      sync.Mutex
	facts   []Observation
	at      []time.Time
	written time.Time
	timer   *time.Timer

	writing sync.Mutex // held while some are written, so that who closes waits for that
}

// maxObserved bounds the observations that wait to be written.
const maxObserved = 64

// Observe keeps what a call has shown. It is written soon, together with others.
func (d *Directory) Observe(_ context.Context, name string, o Observation) {
	e, err := d.find(name)
	if err != nil {
		return
	}
	if o.Err != nil {
		o.Err = errors.New(e.way.secrets.Text(o.Err.Error()))
	}
	w := &e.observed
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.facts) >= maxObserved {
		w.facts, w.at = w.facts[1:], w.at[1:]
	}
	w.facts, w.at = append(w.facts, o), append(w.at, d.now())
	if w.timer == nil {
		w.timer = time.AfterFunc(max(0, factsPause-d.now().Sub(w.written)), func() {
			ctx, cancel := context.WithTimeout(context.Background(), saveFacts)
			defer cancel()
			if err := d.flush(ctx, e); err != nil && !errors.Is(err, store.ErrUnavailable) {
				d.log.Warn("What was observed of a peer could not be kept", "peer", name, "error", err)
			}
		})
	}
}

// take returns the observations that wait, and leaves none.
func (w *observed) take(now time.Time) ([]Observation, []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	facts, at := w.facts, w.at
	w.facts, w.at, w.written = nil, nil, now
	return facts, at
}

// flush writes what was observed of a peer.
func (d *Directory) flush(ctx context.Context, e *entry) error {
	e.observed.writing.Lock()
	defer e.observed.writing.Unlock()
	list, at := e.observed.take(d.now())
	if len(list) == 0 {
		return nil
	}
	_, err := d.rows.update(ctx, e.name, func(row *store.Peer) (bool, error) {
		facts := factsOf(row)
		for i := range list {
			facts.add(&list[i], at[i])
			if list[i].Err == nil && at[i].After(row.Seen) {
				row.Seen = at[i]
			}
		}
		return true, facts.into(row)
	})
	return err
}

// factsOf returns the facts of a row, which may be unreadable.
func factsOf(row *store.Peer) Facts {
	var f Facts
	if json.Unmarshal(row.Facts, &f) != nil {
		return Facts{}
	}
	return f
}

func (f *Facts) into(row *store.Peer) error {
	data, err := json.Marshal(f)
	if err == nil {
		row.Facts = data
	}
	return err
}

// add adds what was observed at a time.
func (f *Facts) add(o *Observation, at time.Time) {
	if o.Interface != "" {
		f.binding(o, at)
	}
	if o.Deduplicates != nil {
		f.Deduplicates = config.No
		if *o.Deduplicates {
			f.Deduplicates = config.Yes
		}
	}
	if o.Err != nil {
		f.Error, f.ErrorAt = Clean(o.Err.Error(), maxError, false), at
		return
	}
	f.Error, f.ErrorAt = "", time.Time{}
	if o.Version != "" {
		f.Version = o.Version
	}
	if o.Latency > 0 {
		ms := float64(o.Latency.Microseconds()) / 1000
		if f.Latency > 0 {
			const weight = 0.2 // of the newest: a dozen calls say how a peer is now
			ms = f.Latency + weight*(ms-f.Latency)
		}
		f.Latency = ms
	}
}

func (f *Facts) binding(o *Observation, at time.Time) {
	name := Clean(o.Interface, maxName, false)
	b := Binding{Interface: name}
	rest := make([]Binding, 0, maxBindings)
	for _, known := range f.Bindings {
		if known.Interface == name {
			b = known
		} else {
			rest = append(rest, known)
		}
	}
	if o.Err != nil {
		b.Failed = at
	} else {
		b.Worked = at
	}
	f.Bindings = append(rest, b)
	slices.SortStableFunc(f.Bindings, func(a, b Binding) int { return b.Worked.Compare(a.Worked) })
	f.Bindings = f.Bindings[:min(len(f.Bindings), maxBindings)]
}

// InterfaceOf names the interface that a client uses, as facts and delegations
// have it.
func InterfaceOf(c *client.Client) string {
	i := c.Interface()
	return i.ProtocolBinding + " " + i.ProtocolVersion + " " + i.URL
}
