package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store"
)

const (
	// maxAttempts is how often a transaction is tried that collides with others.
	maxAttempts = 8
	// resolvePause is the time between two questions for the outcome of a commit
	// while the database is away.
	resolvePause = 100 * time.Millisecond
	// fullPause is the time between two attempts to get one more connection of a
	// server that has no more.
	fullPause = 20 * time.Millisecond
)

// committer commits changes over a connection of its own. It belongs to the
// goroutine that runs loop.
type committer struct {
	config  *pgx.ConnConfig
	queue   *queue
	realms  *realmIDs
	resolve time.Duration
	wrote   func() // called after commits that have changed totals

	conn  *pgx.Conn
	id    []byte // of the row of conn in the table committers
	batch int64  // number of the last transaction
}

// loop commits what is in the queue until it is closed.
func (k *committer) loop() {
	defer k.disconnect()
	batch := make([]*op, 0, k.queue.limit)
	for {
		k.await()
		first, ok := <-k.queue.waiting
		if !ok {
			return
		}
		batch = k.queue.gather(append(batch[:0], first))
		began := time.Now()
		k.commit(batch)
		if k.queue.observe != nil {
			k.queue.observe(len(batch), time.Since(began))
		}
		for i, o := range batch {
			o.done <- struct{}{}
			batch[i] = nil
		}
	}
}

// await leaves the changes to the other committers as long as the server has no
// connection for this one.
func (k *committer) await() {
	for k.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		err := k.connect(ctx)
		cancel()
		if !isFull(err) || k.queue.connected.Load() == 0 {
			return // connected, or to be told by the next batch
		}
		select {
		case <-time.After(10 * resolvePause):
		case <-k.queue.ended:
			return
		}
	}
}

// commit commits a batch. When one of it spoils the transaction for all, each
// gets one of its own.
func (k *committer) commit(batch []*op) {
	var err error
	for attempt := range maxAttempts {
		if err = k.transact(batch); err == nil {
			return
		}
		if !isCollision(err) && (attempt > 0 || !isBroken(err)) {
			break
		}
	}
	if len(batch) > 1 && isPoison(err) {
		for i := range batch {
			k.commit(batch[i : i+1])
		}
		return
	}
	if code(err) == uniqueViolation {
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	} else {
		err = unavailable(err)
		if isGone(err) {
			k.queue.refuse(err) // they would only wait for the same
		}
	}
	for _, o := range batch {
		o.err = err
	}
}

// transact applies a batch in one transaction. An error says that nothing of it
// was kept, unless it wraps store.ErrUnknown.
func (k *committer) transact(batch []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	b, err := k.prepare(ctx, batch)
	if err != nil {
		k.disconnect()
		return err
	}
	for _, o := range batch {
		o.err = b.apply(o.change)
	}
	if err := b.write(ctx, k.conn); err != nil {
		if isRefused(err) {
			if _, failed := k.conn.Exec(ctx, "ROLLBACK"); failed != nil {
				k.disconnect()
			}
			return err
		}
		id, number := k.id, k.batch
		k.disconnect()
		return k.outcome(id, number, err)
	}
	if b.counts.changed() {
		k.wrote()
	}
	return nil
}

// prepare opens a transaction for a batch and reads what its guards are about.
// Until write is called, nothing can be committed.
func (k *committer) prepare(ctx context.Context, batch []*op) (*work, error) {
	if err := k.connect(ctx); err != nil {
		return nil, err
	}
	b := newWork(batch)
	realms, err := k.realms.find(ctx, k.conn, b.realmsOf())
	if err != nil {
		return nil, err
	}
	b.realms = realms
	k.batch++
	return b, b.lock(ctx, k.conn, k.id, k.batch)
}

// connect makes sure of a connection, whose row in the table committers is
// there.
func (k *committer) connect(ctx context.Context) error {
	if k.conn != nil && !k.conn.IsClosed() {
		return nil
	}
	k.disconnect()
	conn, err := pgx.ConnectConfig(ctx, k.config)
	if err != nil {
		return err
	}
	k.conn, k.batch = conn, 0
	k.queue.connected.Add(1)
	k.realms.forget() // the server may be another one, which knows less
	k.id = make([]byte, 16)
	_, _ = rand.Read(k.id) // never fails
	_, err = conn.Exec(ctx, "INSERT INTO committers (id, batch, used) VALUES ($1, 0, "+nowSQL+")", k.id)
	return err
}

// disconnect ends the connection. What it has not committed is gone.
func (k *committer) disconnect() {
	if k.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = k.conn.Close(ctx) // whether it heard us or not
	k.conn = nil
	k.queue.connected.Add(-1)
}

// outcome finds out what became of a transaction whose answer was lost. It
// returns nil when it was committed, and the error that lost the answer when
// it was not. Meanwhile, changes that come are refused.
func (k *committer) outcome(id []byte, number int64, lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), k.resolve)
	defer cancel()
	for {
		committed, err := k.lookUp(ctx, id)
		if err == nil {
			if committed >= number {
				return nil
			}
			return lost
		}
		k.disconnect()
		k.queue.refuse(unavailable(err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrUnknown, lost)
		case <-time.After(resolvePause):
		}
	}
}

// lookUp returns the number of the last transaction that a connection has
// committed. It waits for one that is under way.
func (k *committer) lookUp(ctx context.Context, id []byte) (number int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := k.connect(ctx); err != nil {
		return 0, err
	}
	err = k.conn.QueryRow(ctx, "SELECT batch FROM committers WHERE id = $1 FOR UPDATE", id).Scan(&number)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // another database took over before it heard of it
	}
	return number, err
}
