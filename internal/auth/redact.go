package auth

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
)

// Forms of credentials, cut off or whole: an API key of a node, of which the id is
// no secret, and a JSON Web Token.
var (
	shownKey   = regexp.MustCompile(`(` + keyPrefix + `[0-9A-Za-z]{12}_)[0-9A-Za-z]+`)
	shownToken = regexp.MustCompile(`eyJ[0-9A-Za-z_-]+\.[0-9A-Za-z_.-]+`)
)

// Redact returns a text without the secrets that look like API keys or tokens: for
// what somebody has put by mistake where it is kept or shown.
func Redact(text string) string {
	if strings.Contains(text, keyPrefix) {
		text = shownKey.ReplaceAllString(text, "$1***")
	}
	if strings.Contains(text, "eyJ") {
		text = shownToken.ReplaceAllString(text, "eyJ***")
	}
	return text
}

// RedactLogs returns a handler of logs that redacts what is written to another one.
func RedactLogs(h slog.Handler) slog.Handler { return redacting{h} }

type redacting struct{ slog.Handler }

// Handle passes a record on. Most have nothing to hide, and stay what they are.
func (h redacting) Handle(ctx context.Context, r slog.Record) error {
	dirty := false
	message := Redact(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		_, changed := redactAttr(a)
		dirty = dirty || changed
		return !dirty
	})
	if !dirty && message == r.Message {
		return h.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a, _ = redactAttr(a)
		clean.AddAttrs(a)
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs returns the handler with attributes.
func (h redacting) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i], _ = redactAttr(a)
	}
	return redacting{h.Handler.WithAttrs(clean)}
}

// WithGroup returns the handler with a group.
func (h redacting) WithGroup(name string) slog.Handler {
	return redacting{h.Handler.WithGroup(name)}
}

// redactAttr returns an attribute without secrets, and whether it had one.
func redactAttr(a slog.Attr) (slog.Attr, bool) {
	text := ""
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		text = fmt.Sprint(v.Any())
	case slog.KindGroup:
		group, dirty := v.Group(), false
		clean := make([]slog.Attr, len(group))
		for i := range group {
			var changed bool
			clean[i], changed = redactAttr(group[i])
			dirty = dirty || changed
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}, dirty
	default:
		return a, false
	}
	clean := Redact(text)
	if clean == text {
		return a, false
	}
	return slog.String(a.Key, clean), true
}
