package wire_test

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
)

// TestIdleSubscribersAreSmall checks the budget of 24 KB for a subscriber that
// waits, its connection included. It does not run beside other tests, which
// would be counted too.
func TestIdleSubscribersAreSmall(t *testing.T) {
	n := newNode(t, setting{})
	task := n.sent(rpc, send("ask"))
	const count, budget = 1000, 24 << 10
	before := memory()
	readers := make([]net.Conn, count)
	for i := range readers {
		readers[i] = subscribe(t, n, task.ID)
		defer readers[i].Close()
		// A few at once: the heap keeps the shape of its highest tide, and that of a
		// thousand requests under way depends on the machine.
		if came := i + 1; came%25 == 0 {
			eventually(t, "all watch", func() bool { return int(n.fixture.watchers.Load()) == came })
		}
	}
	small := func() bool { return int64(memory()-before)/count <= budget }
	eventually(t, "subscribers are small", small)
	t.Logf("%d bytes for each subscriber", int64(memory()-before)/count)

	// They all get every event, and are as small as before afterwards.
	n.sent(rpc, send("ask", object{"taskId": task.ID}))
	if got := n.until(task.ID, a2a.StateInputRequired); got == nil {
		t.Fatal("no task")
	}
	for _, c := range readers {
		lines := bufio.NewReaderSize(c, 4<<10)
		seen := 0
		for seen < 3 { // the task, WORKING, INPUT_REQUIRED
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "data: ") {
				seen++
			}
		}
	}
	eventually(t, "subscribers are small again", small)
	t.Logf("%d bytes for each subscriber after events", int64(memory()-before)/count)
	n.ok(rpc, "CancelTask", object{"id": task.ID})
	eventually(t, "nobody watches", func() bool { return n.fixture.watchers.Load() == 0 })
}

// subscribe subscribes over a socket of its own, which costs a client almost
// nothing.
func subscribe(t testing.TB, n *node, id string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":%q}}`, id)
	fmt.Fprintf(c, "POST /agents/quote/rpc HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nA2A-Version: 1.0\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return c
}

// memory returns the bytes of heap and stacks in use.
func memory() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
