package config_test

import (
	"strings"
	"testing"

	"handoff.example/handoff/config"
)

// What is wrong with the page of an agent is said with its place.
func TestChat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ settings, chat, want string }{
		"all":                    {"callers: {keys: true}", "{enabled: true, title: A, greeting: B, frame_ancestors: ['https://www.example.com', 'http://localhost:3000', 'https://[2001:db8::1]:8443'], anonymous: callers, files: false, visitor_rate: 5, address_rate: 50}", ""},
		"an origin with a path":  {"", "{frame_ancestors: ['https://www.example.com/shop']}", "agents.desk.chat.frame_ancestors[0]: is more than an origin"},
		"an origin with a slash": {"", "{frame_ancestors: ['https://www.example.com/']}", "agents.desk.chat.frame_ancestors[0]: is more than an origin"},
		"an origin over http":    {"", "{frame_ancestors: ['https://a.example', 'http://www.example.com']}", "agents.desk.chat.frame_ancestors[1]: is not https"},
		"a pattern":              {"", "{frame_ancestors: ['https://*.example.com']}", "agents.desk.chat.frame_ancestors[0]: has characters"},
		"another directive":      {"", "{frame_ancestors: [\"https://a.example;script-src\"]}", "agents.desk.chat.frame_ancestors[0]: has characters"},
		"a keyword":              {"", "{frame_ancestors: [\"'self'\"]}", "agents.desk.chat.frame_ancestors[0]: is not an http or https URL"},
		"nobody is let in":       {"callers: {anonymous: 'off', keys: true}", "{enabled: true, anonymous: callers}", "agents.desk.chat.anonymous: lets in whom callers.anonymous lets in, which is nobody"},
		"another word":           {"", "{anonymous: always}", "agents.desk.chat.anonymous: is not one of off, callers, everywhere"},
		"a long title":           {"", "{title: " + strings.Repeat("x", 201) + "}", "agents.desk.chat.title: is longer than 200 bytes"},
		"no messages":            {"", "{visitor_rate: 0}", "agents.desk.chat.visitor_rate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte(c.settings+"\nagents:\n  desk: {name: D, description: D., version: 1.0.0, skills: [{id: a, name: A, description: A., tags: [x]}], run: {script: [{do: [{complete: done}]}]}, chat: "+c.chat+"}\n"), "")
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Scopes that visitors cannot have keep them out by accident, which is said.
func TestChatOfAnAgentThatTakesScopes(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte("agents:\n  desk: {name: D, description: D., version: 1.0.0, skills: [{id: a, name: A, description: A., tags: [x]}], callers: {scopes: [book]}, run: {script: [{do: [{complete: done}]}]}, chat: {enabled: true, anonymous: callers}}\n"), "")
	if err == nil || !strings.Contains(err.Error(), "agents.desk.chat.anonymous: lets in visitors who have neither the role nor the scopes") {
		t.Errorf("error %v", err)
	}
}
