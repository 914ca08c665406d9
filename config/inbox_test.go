package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/config"
)

const agentsOfInbox = `
secret_key: 0123456789abcdef0123456789abcdef
agents:
  a: {name: A, description: A., version: 1.0.0, skills: [{id: a, name: A, description: A., tags: [a]}], run: {script: [{do: [{complete: a}]}]}}
`

func TestInbox(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(agentsOfInbox), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if i := c.Inbox; i.Due.Std() != 24*time.Hour || len(i.Remind) != 2 || i.Remind[0].Std() != 2*time.Hour || i.Webhook != nil || i.LinkTTL.Std() != 72*time.Hour {
		t.Errorf("by default: %+v", i)
	}
	for text, want := range map[string]string{
		"inbox: {webhook: {auth: x}}":                          "inbox.webhook",
		"inbox: {webhook: {url: 'ftp://x'}}":                   "inbox.webhook.url",
		"inbox: {remind: [-1h]}":                               "inbox.remind",
		"inbox: {link_ttl: 1s}":                                "inbox.link_ttl",
		"inbox: {due: soon}":                                   "inbox.due",
		"inbox: {remind: [" + strings.Repeat("1h,", 21) + "]}": "inbox.remind",
	} {
		if _, err := config.Parse([]byte(text+agentsOfInbox), t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	without := strings.Replace(agentsOfInbox, "secret_key", "# secret_key", 1)
	if _, err := config.Parse([]byte("inbox: {webhook: {url: 'https://x', links: true}}"+without), t.TempDir()); err == nil || !strings.Contains(err.Error(), "secret_key") {
		t.Errorf("links without a key: %v", err)
	}
}

// TestDocumentedInbox loads what docs/inbox.md shows.
func TestDocumentedInbox(t *testing.T) {
	t.Setenv("HOOK_TOKEN", "t")
	text, err := os.ReadFile("../docs/inbox.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d configurations", len(blocks))
	}
	c, err := config.Parse(append(blocks[0][1], agentsOfInbox...), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Inbox.Webhook; w == nil || !w.Created || !w.Links || w.Auth.Reveal() != "Bearer t" {
		t.Errorf("the webhook: %+v", w)
	}
}
