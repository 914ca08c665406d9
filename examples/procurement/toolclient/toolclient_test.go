package toolclient_test

import (
	"errors"
	"net"
	"testing"

	"handoff.example/handoff/examples/procurement/toolclient"
)

// Whatever a server that dies has heard of a call, the call can be made again.
func TestServersThatDie(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := toolclient.Server{URL: "http://" + listener.Addr().String() + "/mcp", Key: "k"}
	reading := make(chan bool)
	go func() {
		defer close(reading)
		for range 4 {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	if err := server.Call(t.Context(), "tool", "", nil, nil); !errors.Is(err, toolclient.ErrLater) {
		t.Errorf("one that hangs up: %v", err)
	}
	_ = listener.Close()
	<-reading
	if err := server.Call(t.Context(), "tool", "", nil, nil); !errors.Is(err, toolclient.ErrLater) {
		t.Errorf("one that is gone: %v", err)
	}
}
