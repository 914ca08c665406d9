package bus

import (
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"
)

// quiet is how long the reporter says nothing more of what recurs.
const quiet = time.Minute

// reporter writes to the log, without secrets.
type reporter struct {
	logger  *slog.Logger
	secrets []string

	mu   sync.Mutex
	next map[string]time.Time // when a message that recurs may be written again
}

func newReporter(logger *slog.Logger, kind string, secrets []string) *reporter {
	return &reporter{logger: logger.With("bus", kind), secrets: secrets, next: map[string]time.Time{}}
}

func (r *reporter) info(text string, args ...any) { r.logger.Info(text, args...) }

func (r *reporter) warn(text string, err error, args ...any) {
	r.logger.Warn(text, append(args, "error", hide(err.Error(), r.secrets))...)
}

// seldom is warn for what may recur: it writes each text once in a while only.
func (r *reporter) seldom(text string, err error, args ...any) {
	now := time.Now()
	r.mu.Lock()
	due := !now.Before(r.next[text])
	if due {
		r.next[text] = now.Add(quiet)
	}
	r.mu.Unlock()
	if due {
		r.warn(text, err, args...)
	}
}

// hide blackens secrets in a text, in all forms that they may have in a URL.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		if s == "" {
			continue
		}
		for _, form := range []string{s, url.PathEscape(s), url.QueryEscape(s), url.User(s).String()} {
			text = strings.ReplaceAll(text, form, "xxxxx")
		}
	}
	return text
}
