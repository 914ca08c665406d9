//go:build postgres

package handoff_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// doomedFile is the variable with the configuration of the node that this process
// is to be, instead of a test.
const doomedFile = "HANDOFF_TEST_DOOMED_NODE"

func init() {
	if file := os.Getenv(doomedFile); file != "" {
		if err := beDoomed(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// doom starts a node as a process of its own, which is what the variable says. It
// returns its first line, and what kills it, as kill -9 does.
func doom(t *testing.T, variable, config string) (kill func(), line string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	doomed := exec.CommandContext(t.Context(), os.Args[0])
	doomed.Env = append(os.Environ(), variable+"="+file)
	doomed.Stderr = t.Output()
	out, err := doomed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := doomed.Start(); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) == "" {
		t.Fatalf("the node says %q, %v", line, err)
	}
	return func() {
		if err := doomed.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = doomed.Wait()
	}, strings.TrimSpace(line)
}

// beDoomed is a node that hands over an order, says its id, and lives on until it is
// killed.
func beDoomed(file string) error {
	c, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(c, handoff.Options{})
	if err != nil {
		return err
	}
	order, err := node.Delegate(context.Background(), handoff.Delegation{To: "slow", Ref: "PO-1", Message: client.NewMessage(a2a.Text("bolts"))})
	if err != nil {
		return err
	}
	fmt.Println("order " + order.ID())
	select {}
}

// Row 137 (b), with two nodes over LISTEN/NOTIFY: the node that has handed over the
// work dies, and another one finishes it. The peer has the work once.
func TestRow137b_AnotherNodeFinishesADelegation(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"after the answer of the peer": true, "before the answer of the peer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tasks atomic.Int32
			begun, release := make(chan struct{}), make(chan struct{})
			far := newSite(t).begin(nil, nil, func(n *handoff.Node) error {
				card := handoff.NewCard("Slow", "Takes long.", "1.0.0", handoff.Skill{ID: "x", Name: "X", Description: "Does x.", Tags: []string{"x"}})
				return n.Handle("slow", card, func(ctx context.Context, turn *handoff.Turn) error {
					if tasks.Add(1); answered {
						if err := turn.Working("on it"); err != nil {
							return err
						}
					}
					begun <- struct{}{}
					select {
					case <-release:
						return turn.Artifact(a2a.Text("done: " + turn.Text()))
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			})
			config := fmt.Sprintf(`store: sqlite:tasks.db
secret_key: 0123456789abcdef0123456789abcdef
lease: 1s
peers: {slow: {card: %q, quiet: 1s, poll: {min: 100ms, max: 1s}}}
`, far.url+"/agents/slow/")
			address := aSchema(t)
			heir := join(t, address, config)

			doomed, line := doom(t, doomedFile, strings.Replace(config, "sqlite:tasks.db", address, 1))
			id := strings.TrimPrefix(line, "order ")
			select {
			case <-begun:
			case <-time.After(20 * time.Second):
				t.Fatal("the peer has not begun")
			}

			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			order, err := heir.Delegation(ctx, "PO-1")
			if err != nil || order.ID() != id {
				t.Fatalf("the other node has %v, %v", order, err)
			}
			doomed()
			close(release)
			task, err := order.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if task.Status.State != a2a.StateCompleted || len(task.Artifacts) != 1 || task.Artifacts[0].Parts[0].Text != "done: bolts" {
				t.Errorf("it is %s", task.AppendJSON(nil))
			}
			if n := tasks.Load(); n != 1 {
				t.Errorf("the peer has worked %d times", n)
			}
		})
	}
}
