package backend_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"

	"handoff.example/handoff/agent"
)

// A program does not outlive a node that is killed: the next node may run the
// same turn again.
func TestExecEndsWithItsNode(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	turn := agent.NewTurn(t.Context(), said("x"), &recorder{})
	node := exec.Command(self)
	node.Env = append(os.Environ(), playEnv+"=node", "TEST_CONTROL="+c.address())
	node.Stdin = bytes.NewReader(agent.AppendTurnJSON(nil, turn, nil, nil))
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	program := c.accept()
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait()
	if err := program.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := program.conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the program goes on: %v", err)
	}
}
