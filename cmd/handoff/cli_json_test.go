package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// section returns what a document says below a heading.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, body, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	level := strings.Index(heading, " ")
	if next := regexp.MustCompile(`(?m)^#{1,` + string(rune('0'+level)) + `} `).FindStringIndex(body); next != nil {
		body = body[:next[0]]
	}
	return body
}

// apiMembers returns the members of a type of the API, with dots.
func apiMembers(t *testing.T, name string) map[string]bool {
	t.Helper()
	members := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(section(t, "../../docs/api.md", "### "+name), -1) {
		members[m[1]] = true
	}
	if len(members) == 0 {
		t.Fatalf("the API documents no members of %s", name)
	}
	return members
}

// checkMembers checks that an object of an example has members of the API only.
func checkMembers(t *testing.T, what string, object map[string]any, prefix string, known map[string]bool) {
	t.Helper()
	for name, value := range object {
		if !known[prefix+name] {
			t.Errorf("the example of %s has %q, which the API does not have", what, prefix+name)
		}
		if inner, ok := value.(map[string]any); ok && name == "remote" {
			checkMembers(t, what, inner, prefix+name+".", known)
		}
	}
}

var jsonBlock = regexp.MustCompile("(?s)```json\n(.*?)```")

// The document of the JSON output names every command of these groups, and shows
// nothing that the API, whose answers they write, does not have.
func TestJSONOfNodeCommandsIsDocumented(t *testing.T) {
	t.Parallel()
	root := newRoot(&app{lookupEnv: func(string) (string, bool) { return "", false }})
	for group, shown := range map[string]string{"delegation": "Delegation", "inbox": "InboxDetail", "peer": ""} {
		text := section(t, "../../docs/cli-json.md", "## `"+group+"`")
		cmd, _, err := root.Find([]string{group})
		if err != nil || len(cmd.Commands()) < 5 {
			t.Fatalf("%s: %v, %d commands", group, err, len(cmd.Commands()))
		}
		for _, c := range cmd.Commands() {
			if !regexp.MustCompile("`(" + group + " )?" + c.Name() + "`").MatchString(text) {
				t.Errorf("docs/cli-json.md does not say what %s %s writes", group, c.Name())
			}
		}
		if shown == "" {
			continue
		}
		block := jsonBlock.FindStringSubmatch(text)
		var example map[string]any
		if block == nil || json.Unmarshal([]byte(block[1]), &example) != nil {
			t.Fatalf("%s has no example that is JSON", group)
		}
		checkMembers(t, group, example, "", apiMembers(t, shown))
		if item, ok := example["item"].(map[string]any); ok {
			checkMembers(t, group, item, "", apiMembers(t, "InboxItem"))
		}
	}
}
