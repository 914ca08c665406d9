package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// The test binary starts itself as another process, in one of these roles.
const (
	roleVariable = "HANDOFF_STORE_TEST_ROLE"
	fileVariable = "HANDOFF_STORE_TEST_FILE"

	roleOpen   = "open"   // opens the store and holds it
	roleCommit = "commit" // commits tasks in a loop and says which
	roleLock   = "lock"   // holds the lock of the database for writing
	roleLimit  = "limit"  // runs out of disk and gets it back
)

// child is another process.
type child struct {
	*exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

// start starts another process in a role.
func start(t *testing.T, role, file string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), roleVariable+"="+role, fileVariable+"="+file)
	c.Stderr = os.Stderr
	var err error
	if c.input, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// line waits for the next line that the process prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.output.Scan() {
		t.Fatalf("the other process has ended: %v", c.output.Err())
	}
	return c.output.Text()
}

// end lets the process end by itself.
func (c *child) end(t *testing.T) {
	t.Helper()
	c.input.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// playRole is what a child process does. It ends when its input ends.
func playRole(role string) int {
	file := os.Getenv(fileVariable)
	var err error
	switch role {
	case roleOpen:
		err = playOpen(file)
	case roleCommit:
		err = playCommit(file)
	case roleLock:
		err = playLock(file)
	case roleLimit:
		err = playLimit(file)
	default:
		err = fmt.Errorf("no such role: %s", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

func playOpen(file string) error {
	s, err := sqlite.Open(context.Background(), file, sqlite.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return s.Close()
}

// playCommit commits working tasks from many goroutines, each followed by its
// artifact, and prints the id of each when both are acknowledged.
func playCommit(file string) error {
	s, err := sqlite.Open(context.Background(), file, sqlite.Options{})
	if err != nil {
		return err
	}
	epoch, err := s.Join(context.Background(), store.Node{Name: "child"}, time.Hour)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d", i, n)
				c := &store.Change{
					Insert: &store.Task{ID: id, Owner: "ann", Agent: "echo", Context: "c", State: a2a.StateWorking, Lease: epoch},
					Events: []store.Event{statusBody(a2a.StateWorking)},
				}
				err := s.Commit(context.Background(), c)
				if err == nil {
					err = s.Commit(context.Background(), &store.Change{Task: c.Insert.Key, Events: []store.Event{artifactBody(id)}})
				}
				mu.Lock()
				if err != nil {
					fmt.Println("error", err)
				} else {
					fmt.Println(id)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return nil
}

func playLock(file string) error {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_, err = db.Exec("ROLLBACK")
	return err
}
