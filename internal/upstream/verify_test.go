package upstream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// What is deep inside of an answer is skipped, wherever it comes apart and whatever
// is escaped in it.
func TestTrackerSkipsWhatIsDeep(t *testing.T) {
	t.Parallel()
	pieces := []string{"x", strings.Repeat("y", 500), `\"`, `\\`, `\n`, `é`, `{`, `}`, `]`, `,`, `:`, `\\\"`}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var text strings.Builder
		for range random.IntN(30) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"%s","id":2}],"resultType":"task"},"id":1}`, &text)
		var tr tracker
		for rest := []byte(answer); len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			if err := tr.feed(rest[:n]); err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			rest = rest[n:]
		}
		kind := ""
		note := func(k string, _ bool) error {
			kind = k
			return nil
		}
		if err := tr.finish([]byte("1"), note); err != nil || kind != "task" {
			t.Fatalf("%s: kind %q, error %v", answer, kind, err)
		}
	}
}

// BenchmarkTracker reads texts with few escapes, with many, and without an end.
func BenchmarkTracker(b *testing.B) {
	for name, piece := range map[string]string{"plain": "x", "lines": strings.Repeat("x", 80) + `\n`, "escapes": `\\`} {
		b.Run(name, func(b *testing.B) {
			text := []byte(`{"result":{"content":[{"text":"` + strings.Repeat(piece, (1<<20)/len(piece)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var tr tracker
				if err := tr.feed(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
