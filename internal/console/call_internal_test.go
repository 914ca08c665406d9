package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"handoff.example/handoff/internal/auth"
)

// A log that is larger than a page can hold is read as far as it is shown.
func TestFirstLines(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"many": "{}\n", "long": `"` + strings.Repeat("x", 1<<20) + "\"\n", "too long": strings.Repeat("x", maxAnswer) + "\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := false
			c := &Console{opts: Options{API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := io.WriteString(w, line); err != nil {
						ended = true
						return
					}
				}
			})}}
			got, err := c.firstLines(httptest.NewRequest(http.MethodGet, "/console/tasks/x/events", nil), &auth.Principal{}, "/tasks/x/events")
			if name == "too long" {
				if !errors.Is(err, errAnswerTooLarge) {
					t.Errorf("error %v", err)
				}
				return
			}
			if want := maxAnswer / len(line); err != nil || bytes.Count(got, []byte{'\n'}) != want || !ended {
				t.Errorf("%d lines, not %d; error %v", bytes.Count(got, []byte{'\n'}), want, err)
			}
		})
	}
}
