//go:build !race

package client

import (
	"context"
	"io"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/sse"
)

// repeated is a connection on which the same frame comes again and again.
type repeated struct {
	frame string
	left  int
	rest  string
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if r.rest == "" {
			if r.left == 0 {
				break
			}
			r.left--
			r.rest = r.frame
		}
		c := copy(p[n:], r.rest)
		n, r.rest = n+c, r.rest[c:]
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *repeated) Close() error { return nil }

// What an event of a long stream costs: with Next the event itself and its text,
// with Read the text. It runs alone, since it counts what the process allocates, and
// not under the race detector, which allocates too.
func TestBytesOfAnEvent(t *testing.T) {
	const events = 20_000
	for name, tt := range map[string]struct {
		text int
		read bool
		max  uint64 // bytes for each event
	}{
		"Next, 40 bytes": {40, false, 425}, "Read, 40 bytes": {40, true, 56}, "Read, 8 KB": {8 << 10, true, 8<<10 + 32},
	} {
		frame := "data: " + `{"jsonrpc":"2.0","id":"h1","result":{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[{"text":"` +
			strings.Repeat("x", tt.text) + `"}]}}}}` + "\n\n"
		source := newEventSource(context.Background(), 0)
		source.body = &repeated{frame: frame, left: events}
		source.reader = sse.New(source, DefaultMaxFrame)
		b := &jsonRPC{link: &link{}, url: &url.URL{}}
		s := &Stream{source: source, fail: func(kind Kind, err error) *TransportError { return &TransportError{Kind: kind, Err: err} }, decode: func(frame []byte, memory *a2a.Memory, out *a2a.StreamResponse) error {
			result, err := resultOf(frame, []byte(`"h1"`), false)
			if err != nil {
				return err
			}
			return b.decode(memory, result, out)
		}}
		var e a2a.StreamResponse
		n := 0
		next := func() error {
			if tt.read {
				return s.Read(&e)
			}
			_, err := s.Next()
			return err
		}
		for ; n < 100; n++ { // buffers grow
			if err := next(); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var err error
		for ; err == nil; n++ {
			err = next()
		}
		runtime.ReadMemStats(&after)
		if n-1 != events {
			t.Fatalf("%s: %d events, %v", name, n-1, err)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) / (events - 100); got > tt.max {
			t.Errorf("%s: %d bytes an event", name, got)
		} else {
			t.Logf("%s: %d bytes an event", name, got)
		}
	}
}
