package llm

import (
	"strings"
	"testing"
)

func TestRedactor(t *testing.T) {
	t.Parallel()
	secrets := []string{"sk-secret-1", "sk-secret-12345", "short"}
	for text, want := range map[string]string{
		"":                                    "",
		"nothing of it, nor short":            "nothing of it, nor short",
		"a sk-secret-1 b":                     "a *** b",
		"sk-secret-1":                         "***",
		"sk-sk-secret-1sk-secret-":            "sk-***sk-secret-",
		"ends as it begins: sk-secr":          "ends as it begins: sk-secr",
		strings.Repeat("sk-secret-1 ", 50):    strings.Repeat("*** ", 50),
		"Grüße, sk-secret-1, \U0001f600 sk-s": "Grüße, ***, \U0001f600 sk-s",
	} {
		// However it is cut into pieces, it says the same.
		for size := 1; size <= max(len(text), 1); size++ {
			r := redactor{secrets: secrets}
			var b strings.Builder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				piece := r.add(rest[:n])
				if rest = rest[n:]; strings.Contains(piece, "secret-1") {
					t.Fatalf("%q in pieces of %d tells %q", text, size, piece)
				}
				b.WriteString(piece)
			}
			b.WriteString(r.rest())
			if got := b.String(); got != want {
				t.Errorf("%q in pieces of %d is %q, want %q", text, size, got, want)
			}
		}
	}
}
