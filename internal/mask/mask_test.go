package mask_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"handoff.example/handoff/internal/mask"
)

// However a body is cut into pieces, nothing of a secret is in it, and its length
// is what it was.
func TestABodyInPieces(t *testing.T) {
	t.Parallel()
	const secret, body = "secret-token", "a secret-token, sec, secret-secret-token and secret-toke"
	want := strings.ReplaceAll(body, secret, strings.Repeat("*", len(secret)))
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one by one": iotest.OneByteReader, "halves": iotest.HalfReader, "at once": iotest.DataErrReader,
	} {
		s := mask.New()
		s.Add(secret)
		r := &http.Response{Header: http.Header{}, Body: io.NopCloser(wrap(strings.NewReader(body)))}
		s.Response(r)
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	s := mask.New("sk-secret-1", "sk-token-23456", "short")
	for text, want := range map[string]string{
		"":                                    "",
		"nothing of it, nor short":            "nothing of it, nor short",
		"a sk-secret-1 b sk-token-23456":      "a *** b ***",
		"sk-secret-1":                         "***",
		"sk-sk-secret-1sk-secret-":            "sk-***sk-secret-",
		"ends as it begins: sk-secr":          "ends as it begins: sk-secr",
		strings.Repeat("sk-secret-1 ", 50):    strings.Repeat("*** ", 50),
		"Grüße, sk-secret-1, \U0001f600 sk-s": "Grüße, ***, \U0001f600 sk-s",
	} {
		// However it is cut into pieces, it says the same.
		for size := 1; size <= max(len(text), 1); size++ {
			m := s.Stream()
			var b strings.Builder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				piece := m.Add(rest[:n])
				if rest = rest[n:]; strings.Contains(piece, "secret-1") {
					t.Fatalf("%q in pieces of %d tells %q", text, size, piece)
				}
				b.WriteString(piece)
			}
			b.WriteString(m.Rest())
			if got := b.String(); got != want {
				t.Errorf("%q in pieces of %d is %q, want %q", text, size, got, want)
			}
		}
	}
}
