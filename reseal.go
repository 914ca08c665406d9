package handoff

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff.example/handoff/internal/api"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store"
)

// partSecretKey is the part of a node's digest that tells secret keys apart.
const partSecretKey = "secret_key"

const (
	resealBytes   = 1 << 20 // of values that are sealed again in one transaction
	resealRecount = time.Minute
)

// resealer seals again with the secret key what older keys have sealed, and says
// when those are not needed any more. It waits until no living node of the store
// seals with another key: until then, others might not be able to open what it
// seals, and might seal more with an older key. Any number of nodes may do it at
// once, and each may end at any moment: a value is replaced only while it is the
// one that was read.
type resealer struct {
	node   *Node
	sealer *auth.Sealer
	ctx    context.Context // ends with the node
	end    context.CancelFunc
	done   sync.WaitGroup
	latest atomic.Pointer[api.SealState]
	told   string // the last line that was logged
}

func newResealer(n *Node, sealer *auth.Sealer) *resealer {
	r := &resealer{node: n, sealer: sealer}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// start begins to look for what is sealed with other keys. A node without older
// keys looks once. A nil resealer does nothing.
func (r *resealer) start() {
	if r == nil {
		return
	}
	r.done.Go(func() {
		for {
			state, err := r.pass(r.ctx)
			switch {
			case r.ctx.Err() != nil:
				return
			case err != nil && !errors.Is(err, store.ErrUnavailable):
				r.node.log.Error("What older keys have sealed could not be sealed again", "error", err)
			case err == nil:
				r.tell(state)
				if len(r.sealer.KeyIDs()) == 1 {
					return
				}
			}
			wait := r.node.Config().Lease.Std()
			if err == nil && state.Spare {
				wait = resealRecount
			}
			select {
			case <-r.ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	})
}

// stop ends it. It may be called more than once, and without start.
func (r *resealer) stop() {
	if r == nil {
		return
	}
	r.end()
	r.done.Wait()
}

// state returns what was found last, nil when there is nothing to say.
func (r *resealer) state() *api.SealState {
	if r == nil {
		return nil
	}
	return r.latest.Load()
}

// pass seals again what can be, and returns what there is afterwards.
func (r *resealer) pass(ctx context.Context) (*api.SealState, error) {
	state, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	if state.Old > 0 && len(state.Waiting) == 0 {
		for _, key := range r.sealer.KeyIDs()[1:] {
			if err := r.reseal(ctx, key); err != nil {
				return nil, err
			}
		}
		if state, err = r.count(ctx); err != nil {
			return nil, err
		}
	}
	if len(r.sealer.KeyIDs()) > 1 || state.Unknown > 0 {
		r.latest.Store(state)
	}
	return state, nil
}

// count counts what is sealed with other keys.
func (r *resealer) count(ctx context.Context) (*api.SealState, error) {
	waiting, err := r.others(ctx) // before the values, which they make
	if err != nil {
		return nil, err
	}
	counts, err := r.node.store.SealKeys(ctx)
	if err != nil {
		return nil, err
	}
	state := &api.SealState{Waiting: waiting}
	ids := r.sealer.KeyIDs()
	delete(counts, ids[0])
	for _, old := range ids[1:] {
		state.Old += counts[old]
		delete(counts, old)
	}
	for _, n := range counts {
		state.Unknown += n
	}
	state.Spare = len(ids) > 1 && state.Old == 0 && len(waiting) == 0
	return state, nil
}

// others returns the names of living nodes that seal with another key.
func (r *resealer) others(ctx context.Context) ([]string, error) {
	names := []string{}
	list, err := r.node.store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	mine := r.node.digest()[partSecretKey]
	epoch, _ := r.node.engine.Epoch()
	for _, other := range list {
		if other.Alive && other.Epoch != epoch && other.Digest[partSecretKey] != mine {
			names = append(names, other.Name)
		}
	}
	return names, nil
}

// reseal seals again what was sealed with the key of that id. A value that is
// damaged is left as it is.
func (r *resealer) reseal(ctx context.Context, key string) error {
	var after *store.Sealed
	for {
		values, err := r.node.store.SealedWith(ctx, key, after, resealBytes)
		if err != nil || len(values) == 0 {
			return err
		}
		after = &values[len(values)-1]
		again := make([]store.Sealed, 0, len(values))
		for _, v := range values {
			plain, err := r.sealer.Open(v.Value)
			if err != nil {
				r.node.log.Warn("A sealed value cannot be opened and is left as it is", "grant", v.Grant, "webhook", v.Webhook, "error", err)
				continue
			}
			if v.Next, err = r.sealer.Seal(plain); err != nil {
				return err
			}
			again = append(again, v)
		}
		if err := r.node.store.Reseal(ctx, again); err != nil {
			return err
		}
	}
}

// tell logs what was found, unless that was said already.
func (r *resealer) tell(s *api.SealState) {
	log := r.node.log
	say := func(line string, tell func()) {
		if line != r.told {
			r.told = line
			tell()
		}
	}
	switch {
	case s.Unknown > 0:
		say("unknown", func() {
			log.Error("The store has values that were sealed with a key that the configuration does not have; add that key to old_secret_keys and restart", "values", s.Unknown)
		})
	case len(s.Waiting) > 0 && len(r.sealer.KeyIDs()) > 1:
		names := strings.Join(s.Waiting, ", ")
		say("waiting "+names, func() {
			log.Info("What old_secret_keys have sealed is sealed again when all nodes have the same secret_key", "values", s.Old, "others", names)
		})
	case s.Spare:
		say("spare", func() {
			log.Info("Nothing in the store is sealed with a key of old_secret_keys; when all nodes seal with the new secret_key, remove them")
		})
	case s.Old > 0:
		say("damaged", func() {
			log.Warn("Values sealed with a key of old_secret_keys could not be sealed again", "values", s.Old)
		})
	}
}
