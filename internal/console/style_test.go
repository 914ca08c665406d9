package console_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var token = regexp.MustCompile(`--([a-z-]+):\s*(#[0-9a-f]{6})`)

// colors returns the colours that a block of the style sheet names.
func colors(block string) map[string]string {
	named := map[string]string{}
	for _, m := range token.FindAllStringSubmatch(block, -1) {
		named[m[1]] = m[2]
	}
	return named
}

// luminance is the relative luminance of a colour (WCAG 2.2).
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(color[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	channel := func(v uint64) float64 {
		c := float64(v&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(n>>16) + 0.7152*channel(n>>8) + 0.0722*channel(n)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

// TestContrast holds the colours of both themes to WCAG 2.2 AA: 4.5 to 1 for text,
// 3 to 1 for what only shows where something is.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	light, rest, _ := strings.Cut(string(css), ":root[data-theme=\"light\"] {")
	asked, rest, _ := strings.Cut(rest, "\n}\n")
	chosen, _, ok := strings.Cut(rest, "/* Elements */")
	if !ok {
		t.Fatal("the style sheet has no themes")
	}
	if diff := cmp.Diff(colors(asked), colors(chosen)); diff != "" {
		t.Errorf("the dark theme of the system is not that of the switch:\n%s", diff)
	}
	for name, c := range map[string]map[string]string{"light": colors(light), "dark": colors(chosen)} {
		check := func(front, back string, least float64) {
			t.Helper()
			if c[front] == "" || c[back] == "" {
				t.Errorf("%s: there is no %s or no %s", name, front, back)
				return
			}
			if got := contrast(t, c[front], c[back]); got < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, less than %.1f", name, front, back, got, least)
			}
		}
		for _, back := range []string{"ground", "surface", "sunken", "hover"} {
			for _, front := range []string{"text", "muted", "link"} {
				check(front, back, 4.5)
			}
			check("line-strong", back, 3)
			check("focus", back, 3)
		}
		check("on-action", "action", 4.5)
		check("text", "mark", 4.5)
		for _, state := range []string{"submitted", "working", "input", "auth", "completed", "failed", "canceled", "rejected"} {
			check(state, state+"-ground", 4.5)
			check(state, "surface", 4.5)
			check("text", state+"-ground", 4.5)
		}
	}
}
