package client_test

import (
	"io"
	"strings"
	"testing"

	"handoff.example/handoff/client"
)

const eventsPerStream = 1600

// BenchmarkStream consumes an artifact of 1,600 chunks of 40 bytes. The numbers
// are those of the client and of the scripted server together; an operation is
// one event.
func BenchmarkStream(b *testing.B) {
	for _, binding := range bothBindings {
		b.Run(binding, func(b *testing.B) {
			chunk := artifactEvent("t-1", "a", strings.Repeat("x", 40), `,"append":true`)
			p := newPeer(b, binding, func(x *exchange) {
				x.w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(x.w, "data: "+x.wrap(taskEvent("t-1", "TASK_STATE_WORKING"))+"\n\n")
				frame := "id: 17\ndata: " + x.wrap(chunk) + "\n\n"
				for range eventsPerStream {
					io.WriteString(x.w, frame)
				}
				io.WriteString(x.w, "data: "+x.wrap(statusEvent("t-1", "TASK_STATE_COMPLETED"))+"\n\n")
			})
			c := p.client(b, client.Options{})
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				stream, err := c.SendStreamingMessage(b.Context(), hello())
				if err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := stream.Next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
		})
	}
}

func BenchmarkSendMessage(b *testing.B) {
	for _, binding := range bothBindings {
		b.Run(binding, func(b *testing.B) {
			p := newPeer(b, binding, func(x *exchange) { x.result(taskEvent("t-1", "TASK_STATE_COMPLETED")) })
			c := p.client(b, client.Options{})
			req := hello()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.SendMessage(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
