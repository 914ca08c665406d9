// Package bus carries hints between the nodes of a cluster. A hint says that a
// task has reached a sequence; who hears it looks into the database, which is
// the truth. So a hint that is lost, repeated, late or invented does no harm: it
// costs one poll at most. That is why a bus never holds up who publishes, keeps
// only the highest sequence of a task while hints wait, and drops hints, counted,
// when too many wait.
package bus

import (
	"errors"
	"log/slog"
	"time"
)

// Hint says that a task has reached a sequence. It may be wrong.
type Hint struct {
	// Task is the id of the task: 1 to 256 bytes of UTF-8 without control
	// characters. Hints with other ids are dropped.
	Task string
	// Seq is the sequence that the task has reached, 0 or more.
	Seq int64
}

// Bus carries hints to the other nodes of a cluster. It is safe for concurrent
// use.
type Bus interface {
	// Publish tells the other nodes, soon. It never blocks; hints that cannot be
	// kept until they can be sent are dropped. After Close all are.
	Publish(Hint)
	// Close sends what waits, for 1 s at most, and ends the bus. Neither Heard nor
	// Restored is called any more when it returns, so they must not call it. It may
	// be called again.
	Close() error
}

// Reporter is a Bus that tells operators about itself. The buses of this package
// do.
type Reporter interface {
	Bus
	// State returns the present state.
	State() State
}

// State is what operators want to know of a bus. The numbers count from the
// start of the node.
type State struct {
	Kind      string    // "postgres" or "nats"
	Server    string    // host:port of the server, or of all when none is connected; no secrets
	Connected bool      // whether hints come and go
	Since     time.Time // since when it is, or is not, connected
	Sent      uint64    // hints that the server has got from this node
	Heard     uint64    // hints that came from other nodes
	Dropped   uint64    // hints given up, of this node and of others
	Malformed uint64    // messages that could not be read
}

// Options of a bus.
type Options struct {
	// Cluster is the id that the nodes of one store share. It names the subject or
	// the channel, so that clusters on one server do not mix. It must not be empty.
	Cluster string
	// Heard is called with hints of other nodes, each task once. It may keep the
	// slice. Heard and Restored are called from one goroutine; while one of them
	// runs, further hints are gathered.
	Heard func([]Hint)
	// Restored is called when hints of other nodes may have been lost: the
	// connection was gone and is back, or too many hints came at once. The owner
	// then polls at once. It is called once a second at most.
	Restored func()
	// Logger gets what operators should know; nil: nothing is logged.
	Logger *slog.Logger
	// Window is how long hints are gathered at most while messages are under way;
	// 0: 2 ms. The first hint after a while goes at once.
	Window time.Duration
}

const defaultWindow = 2 * time.Millisecond

// setDefaults completes options, and checks them.
func (o *Options) setDefaults() error {
	if o.Cluster == "" {
		return errors.New("bus without the id of a cluster")
	}
	if o.Heard == nil {
		o.Heard = func([]Hint) {}
	}
	if o.Restored == nil {
		o.Restored = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	return nil
}
