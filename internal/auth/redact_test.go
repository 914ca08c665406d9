package auth_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"handoff.example/handoff/internal/auth"
)

const (
	lostKey   = "hk_4fQ0bZ1xK9aB_0123456789012345678901234567890123456789012abcdef"
	lostToken = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJyb290In0.c2lnbmF0dXJl"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		"/agents/echo/v1":              "/agents/echo/v1",
		"/v1/tasks/" + lostKey + "/x":  "/v1/tasks/hk_4fQ0bZ1xK9aB_***/x",
		lostKey[:40] + "…":             "hk_4fQ0bZ1xK9aB_***…",
		lostKey + " " + lostKey:        "hk_4fQ0bZ1xK9aB_*** hk_4fQ0bZ1xK9aB_***",
		"hk_short_key":                 "hk_short_key",
		"key 4fQ0bZ1xK9aB was revoked": "key 4fQ0bZ1xK9aB was revoked",
		"Bearer " + lostToken:          "Bearer eyJ***",
		lostToken[:30] + "…":           "eyJ***…",
		"eyJust a word":                "eyJust a word",
	} {
		if got := auth.Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLogsAreRedacted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(auth.RedactLogs(slog.NewTextHandler(&out, nil)))
	log.With("with", lostKey).WithGroup("g").Info("to "+lostToken, "text", lostKey, "error", errors.New(lostToken),
		slog.Group("inner", "text", lostKey, "n", 1), "list", []string{lostKey})
	got := out.String()
	if strings.Contains(got, lostKey[20:]) || strings.Contains(got, "c2ln") || strings.Count(got, "hk_4fQ0bZ1xK9aB_***") != 4 || strings.Count(got, "eyJ***") != 2 {
		t.Errorf("the log has: %s", got)
	}
	for _, want := range []string{"with=hk_", "g.text=hk_", "g.inner.text=hk_", "g.inner.n=1", "g.list=[hk_"} {
		if !strings.Contains(got, want) && !strings.Contains(got, strings.Replace(want, "[", `"[`, 1)) {
			t.Errorf("the log lacks %s: %s", want, got)
		}
	}
	out.Reset()
	log.Info("clean", "text", "x", "error", errors.New("y"))
	if got := out.String(); !strings.Contains(got, "msg=clean text=x error=y") {
		t.Errorf("a record without secrets: %s", got)
	}
}
