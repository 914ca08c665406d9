package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"handoff.example/handoff/examples/procurement/erp"
)

// The gateway has erp-draft as a process. When that is killed with SIGKILL half-way
// through the valuation, the gateway starts it again, and the call with it.
func TestValuationOutlivesItsServer(t *testing.T) {
	t.Parallel()
	g := gatewayWith(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var v erp.Valuation
	ended := make(chan error, 1)
	go func() {
		ended <- g.Call(ctx, "rebuild_stock_valuation", "", map[string]any{"period": "2026-09"}, &v)
	}()
	for done := 0; done < 20; {
		if err := g.look(ctx, "erp.db", "SELECT count(*) FROM valued", &done); err != nil {
			t.Fatal(err)
		}
	}
	pid := child(t, g.running[gateway].Process.Pid, "erp-draft")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || v.Articles != 60 || v.Begun != 2 {
		t.Errorf("it has come to %+v: %v", v, err)
	}
	if again := child(t, g.running[gateway].Process.Pid, "erp-draft"); again == pid {
		t.Error("the process is the one that was killed")
	}
}

// child returns the process of that name below another.
func child(t *testing.T, parent int, name string) int {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, thread.Name()))
		if err != nil {
			continue // the thread is gone
		}
		for _, field := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(comm)) == name {
				return pid
			}
		}
	}
	t.Fatalf("process %d has no child %s", parent, name)
	return 0
}
