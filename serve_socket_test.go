package handoff_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	handoff "handoff.example/handoff"
)

// The admin socket takes connections before the address of the node does, and is gone
// when the node was never served.
func TestTheAdminSocketComesFirst(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	text := "store: sqlite:tasks.db\nagents: {a: {name: A, description: A., version: '1', skills: [{id: a, name: A, description: A., tags: [x]}], run: {script: [{do: [{complete: Done}]}]}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := handoff.LoadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	node, err := handoff.New(c, handoff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is opened once
		if err := node.ListenAdmin(); err != nil {
			t.Error(err)
		}
	}
	conn, err := net.Dial("unix", handoff.SocketPath(c))
	if err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if err := node.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(handoff.SocketPath(c)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of a node that has stopped: %v", err)
	}
}
