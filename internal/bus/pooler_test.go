package bus_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"handoff.example/handoff/internal/bus"
)

// A pooler in transaction mode accepts LISTEN, and nothing is ever heard. It is
// played by a server that says yes to all.
func TestPostgresBehindAPoolerThatDoesNotListen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				sayYes(pgproto3.NewBackend(c, c))
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	n := startNode(t, "c", func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		return bus.Postgres(ctx, "postgres://u:hunter2@"+l.Addr().String()+"/db?sslmode=disable", o)
	})
	n.log.says(t, "a pooler in transaction mode")
	n.log.hidesAll(t, "hunter2")
	if state := n.State(); state.Connected || state.Server != l.Addr().String() {
		t.Errorf("state %+v", state)
	}
}

// sayYes answers all of a client's requests, until it goes.
func sayYes(b *pgproto3.Backend) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m.(type) {
		case *pgproto3.Parse:
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Describe:
			b.Send(&pgproto3.NoData{})
		case *pgproto3.Execute:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("OK")})
		case *pgproto3.Query:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("OK")})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return
		}
	}
}
