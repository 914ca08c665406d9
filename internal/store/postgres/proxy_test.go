//go:build postgres

package postgres_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// proxy stands between a node and a server, and breaks what passes.
type proxy struct {
	folder   string
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// judge, when set, sees each piece that passes and says how much of it goes
	// on, and whether the connection ends then.
	judge func(toServer bool, piece []byte) (pass int, end bool)
	// frozen, when set, holds up all that comes until it is closed.
	frozen chan struct{}
}

// newProxy starts a proxy before a server.
func newProxy(t *testing.T, s *postgrestest.Server) *proxy {
	t.Helper()
	const name = postgrestest.SocketName
	// Not the folder of the test: the name of a socket has to be short.
	folder, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	p := &proxy{folder: folder, target: s.Socket(), conns: map[net.Conn]bool{}}
	if p.listener, err = net.Listen("unix", filepath.Join(p.folder, name)); err != nil {
		t.Fatal(err)
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.thaw()
		p.listener.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *proxy) dsn(s *postgrestest.Server, schema string) string {
	return withSchema("host="+p.folder+" user=handoff dbname=postgres", schema)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.running.Go(func() { p.copy(client, server, true) })
		p.running.Go(func() { p.copy(server, client, false) })
	}
}

func (p *proxy) copy(from, to net.Conn, toServer bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		pass, end := n, false
		p.mu.Lock()
		if p.judge != nil {
			pass, end = p.judge(toServer, buffer[:n])
		}
		frozen := p.frozen
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if _, err := to.Write(buffer[:pass]); err != nil || end {
			return
		}
	}
}

// watch sets the judge of what passes from now on.
func (p *proxy) watch(judge func(toServer bool, piece []byte) (pass int, end bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// freeze holds up what passes from now on; it is called by a judge.
func (p *proxy) freeze() {
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// thaw lets all go on.
func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}
