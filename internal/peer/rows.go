package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"handoff.example/handoff/internal/store"
)

const (
	// rowAge is how old what is known of a row may be: other nodes change it too.
	rowAge = 5 * time.Second
	// maxTries bounds the attempts at a row that others change at the same time.
	maxTries = 8
)

// rows are what is kept of peers, with those that were read last.
type rows struct {
	store store.Peers
	now   func() time.Time

	mu     sync.Mutex
	known  map[string]knownRow
	names  []string // of the rows of peers that were added
	listed time.Time
}

// knownRow is a row as it was read. It must not be changed.
type knownRow struct {
	row *store.Peer
	at  time.Time
}

func newRows(s store.Peers, now func() time.Time) *rows {
	if s == nil {
		s = &memory{}
	}
	return &rows{store: s, now: now, known: map[string]knownRow{}}
}

// get returns a row that is not older than age. One that there is not is empty.
func (r *rows) get(ctx context.Context, name string, age time.Duration) (*store.Peer, error) {
	r.mu.Lock()
	known, ok := r.known[name]
	r.mu.Unlock()
	if ok && r.now().Sub(known.at) < age {
		return known.row, nil
	}
	row, err := r.store.Peer(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		row, err = &store.Peer{Name: name}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read peer: %w", err)
	}
	r.keep(row)
	return row, nil
}

func (r *rows) keep(row *store.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[row.Name] = knownRow{row, r.now()}
}

// update changes a row and saves it, again when others were faster. The function
// changes a copy and reports whether it has; it is called anew with each copy.
func (r *rows) update(ctx context.Context, name string, change func(row *store.Peer) (bool, error)) (*store.Peer, error) {
	age := rowAge
	for range maxTries {
		before, err := r.get(ctx, name, age)
		if err != nil {
			return nil, err
		}
		row := *before
		changed, err := change(&row)
		if err != nil {
			return nil, err
		}
		if !changed {
			return before, nil
		}
		err = r.store.SavePeer(ctx, &row)
		if err == nil {
			r.keep(&row)
			return &row, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, fmt.Errorf("save peer: %w", err)
		}
		age = 0
	}
	return nil, fmt.Errorf("save peer: %w", store.ErrConflict)
}

// remove deletes a row.
func (r *rows) remove(ctx context.Context, name string) error {
	err := r.store.DeletePeer(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, name)
	r.listed = time.Time{}
	if err != nil {
		return fmt.Errorf("delete peer: %w", err)
	}
	return nil
}

// added returns the names of the peers that were added while nodes ran.
func (r *rows) added(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	fresh := !r.listed.IsZero() && r.now().Sub(r.listed) < rowAge
	names := r.names
	r.mu.Unlock()
	if fresh {
		return names, nil
	}
	list, err := r.store.Peers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list peers: %w", err)
	}
	names = nil
	for i := range list {
		if list[i].Added != nil {
			names = append(names, list[i].Name)
		}
		r.keep(&list[i])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names, r.listed = names, r.now()
	return names, nil
}

// forget has the list of peers read anew.
func (r *rows) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = time.Time{}
}

// memory keeps rows for a program that has no store, such as a command.
type memory struct {
	mu   sync.Mutex
	rows map[string]store.Peer
}

// Peers returns all rows by name.
func (m *memory) Peers(context.Context) ([]store.Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []store.Peer
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		list = append(list, m.rows[name])
	}
	return list, nil
}

// Peer returns one row.
func (m *memory) Peer(_ context.Context, name string) (*store.Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[name]
	if !ok {
		return nil, store.ErrNotFound
	}
	return &row, nil
}

// SavePeer makes or replaces a row.
func (m *memory) SavePeer(_ context.Context, p *store.Peer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[p.Name].Version != p.Version {
		return store.ErrConflict
	}
	if m.rows == nil {
		m.rows = map[string]store.Peer{}
	}
	p.Version++
	m.rows[p.Name] = *p
	return nil
}

// DeletePeer removes a row.
func (m *memory) DeletePeer(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.rows[name]; !ok {
		return store.ErrNotFound
	}
	delete(m.rows, name)
	return nil
}
