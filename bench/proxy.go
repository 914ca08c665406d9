package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// proxy is between nodes and a database, and counts what they say to each other.
type proxy struct {
	listener net.Listener
	folder   string
	trips    atomic.Int64 // round trips: times that the database answered
	asked    atomic.Int64 // bytes to the database
	answered atomic.Int64 // bytes from it
}

const socketName = ".s.PGSQL.5432"

func startProxy(database string) (*proxy, error) {
	folder, err := os.MkdirTemp("", "px")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(folder, socketName))
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, folder: folder}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(database, socketName))
			if err != nil {
				client.Close()
				continue
			}
			// The first answer after a question is a round trip.
			var asking atomic.Bool
			go carry(server, client, func(n int) {
				p.asked.Add(int64(n))
				asking.Store(true)
			})
			go carry(client, server, func(n int) {
				p.answered.Add(int64(n))
				if asking.CompareAndSwap(true, false) {
					p.trips.Add(1)
				}
			})
		}
	}()
	return p, nil
}

// carry copies from one connection to another until either ends.
func carry(to, from net.Conn, see func(n int)) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			see(n) // before the other side can answer
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// through returns the address of a database, by way of the proxy.
func (p *proxy) through(url, folder string) string { return strings.Replace(url, folder, p.folder, 1) }

func (p *proxy) stop() {
	p.listener.Close()
	os.RemoveAll(p.folder)
}
