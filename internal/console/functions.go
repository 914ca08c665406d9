package console

import (
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"handoff.example/handoff/internal/content"
)

// functions are those that templates have beside the ones of the language.
var functions = template.FuncMap{
	"dict":     dict,
	"rfc3339":  func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
	"utc":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"ago":      func(t time.Time) string { return short(time.Since(t)) },
	"duration": short,
	"state":    stateOf,
	"path":     url.PathEscape,
	"query":    queryOf,
	"title":    title,
	"words":    func(s string) string { return strings.ReplaceAll(s, "_", " ") },
	"plural":   plural,
	"clip":     clip,
	"bytes":    content.Size,
	"number":   number,
	"deref":    func(n *int) int { return *n },
	"jsontree": jsonTree,
	"visible":  content.Visible,
	"add":      func(a, b int) int { return a + b },
	"sub":      func(a, b int) int { return a - b },
	"even":     func(n int) bool { return n%2 == 0 },
	"px":       coordinate,
	"kind":     kindWord,
	"origin":   originOf,
}

// origin is who has a task: an agent (""), a peer or a server of tools.
type origin struct{ Kind, Name string }

// originOf reads the name under which the store has who has a task.
func originOf(agent string) origin {
	if kind, name, ok := strings.Cut(agent, ":"); ok && (kind == "peer" || kind == "mcp") {
		return origin{kind, name}
	}
	return origin{Name: agent}
}

// dict makes an object of names and values, for templates that take several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict has a name without a value")
	}
	d := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict has a name that is no text: %v", pairs[i])
		}
		d[name] = pairs[i+1]
	}
	return d, nil
}

// queryOf makes a query of names and values, with its ?; empty values are left
// out.
func queryOf(pairs ...string) (string, error) {
	if len(pairs)%2 != 0 {
		return "", errors.New("query has a name without a value")
	}
	return address("", valuesOf(pairs...)), nil
}

// shownState is a state as people read it: with a word, and with a colour and a
// shape of the same name.
type shownState struct{ Key, Word string }

// states are the states of tasks, deliveries and the like, by what the API calls
// them.
var states = map[string]shownState{
	"TASK_STATE_SUBMITTED":      {"submitted", "Submitted"},
	"TASK_STATE_WORKING":        {"working", "Working"},
	"TASK_STATE_INPUT_REQUIRED": {"input", "Needs input"},
	"TASK_STATE_AUTH_REQUIRED":  {"auth", "Needs approval"},
	"TASK_STATE_COMPLETED":      {"completed", "Completed"},
	"TASK_STATE_FAILED":         {"failed", "Failed"},
	"TASK_STATE_CANCELED":       {"canceled", "Canceled"},
	"TASK_STATE_REJECTED":       {"rejected", "Rejected"},

	"idle": {"completed", "Idle"}, "behind": {"working", "Behind"}, "retrying": {"input", "Retrying"}, "dead": {"failed", "Given up"},
	"open": {"input", "Open"}, "settled": {"completed", "Settled"}, "overdue": {"failed", "Overdue"},
	"up": {"completed", "Up"}, "down": {"failed", "Down"}, "alive": {"completed", "Alive"}, "gone": {"canceled", "Gone"},
	"outcome allowed": {"completed", "Allowed"}, "outcome approve": {"auth", "Needs approval"}, "outcome approve if": {"auth", "Approval for some"},
	"outcome denied": {"failed", "Denied"}, "outcome hidden": {"canceled", "Hidden"}, "outcome held": {"input", "Held"},
	"outcome left out": {"canceled", "Left out"}, "outcome not listed": {"canceled", "Not listed"},
	"revoked": {"canceled", "Revoked"}, "expired": {"canceled", "Expired"}, "good": {"completed", "Good"},
}

func stateOf(state string) shownState {
	if s, ok := states[state]; ok {
		return s
	}
	word := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(state, "TASK_STATE_"), "_", " "))
	if word == "" {
		word = "unknown"
	}
	return shownState{"submitted", title(word)}
}

// short writes a time that something takes, for people: its two largest units.
func short(d time.Duration) string {
	switch d = d.Abs(); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return units(int(d/time.Minute), "min", int(d%time.Minute/time.Second), "s", d < 10*time.Minute)
	case d < 48*time.Hour:
		return units(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "min", true)
	}
	return units(int(d/(24*time.Hour)), "d", int(d%(24*time.Hour)/time.Hour), "h", d < 10*24*time.Hour)
}

func units(a int, unit string, b int, smaller string, both bool) string {
	text := strconv.Itoa(a) + " " + unit
	if both && b > 0 {
		text += " " + strconv.Itoa(b) + " " + smaller
	}
	return text
}

// title returns a text with a capital letter at its beginning.
func title(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}

// seconds writes a time as whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// number writes a number with thin spaces between thousands.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// clip bounds a text that is shown, in characters.
func clip(limit int, s string) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return strings.TrimSpace(string(runes[:limit])) + "…"
}

// coordinate writes a place or a length in a drawing.
func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }
