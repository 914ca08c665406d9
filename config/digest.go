package config

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// shared are the keys outside of agents that should be the same on all nodes of
// a store. Others, such as listen, are each node's own.
var shared = []string{"public_url", "callers", "default_agent", "outbound", "cors", "retention", "limits.body", "limits.json_depth", "limits.streams"}

// partBus is the part that tells whether nodes hear each other.
const partBus = "bus"

// Digests says what the parts of the configuration are that should be the same
// on all nodes of a store: a part is "agent delivery", say, or "retention", and
// its digest is short and tells nothing about it. Secrets count by their HMAC
// with a key, and without a key only by whether there is one.
func (c *Config) Digests(key []byte) map[string]string {
	sums := map[string]hash.Hash{}
	flatten(reflect.ValueOf(c).Elem(), "", false, func(v Value) {
		part := partOf(v.Path)
		if part == "" {
			return
		}
		if sums[part] == nil {
			sums[part] = sha256.New()
		}
		text := v.Text
		if s, ok := v.exact.(Secret); ok && len(key) > 0 && !s.IsZero() {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(s.text))
			text = string(mac.Sum(nil))
		}
		fmt.Fprintf(sums[part], "%d:%s%d:%s", len(v.Path), v.Path, len(text), text)
	})
	if servers := c.busServers(); servers != "" {
		sums[partBus] = sha256.New()
		fmt.Fprint(sums[partBus], servers)
	}
	digests := make(map[string]string, len(sums))
	for part, sum := range sums {
		digests[part] = hex.EncodeToString(sum.Sum(nil)[:6])
	}
	return digests
}

// partOf returns the part that a path belongs to, "" when it is a node's own.
func partOf(path string) string {
	if rest, ok := strings.CutPrefix(path, "agents."); ok {
		return "agent " + rest[:strings.IndexAny(rest+".", ".[")]
	}
	if rest, ok := strings.CutPrefix(path, "peers."); ok {
		return "peer " + rest[:strings.IndexAny(rest+".", ".[")]
	}
	for _, key := range shared {
		if path == key || strings.HasPrefix(path, key+".") || strings.HasPrefix(path, key+"[") {
			return key
		}
	}
	return ""
}

// Differences says for people what differs between the digests of this node and
// those of another one, in the order of the parts.
func Differences(here, there map[string]string) []string {
	parts := map[string]bool{}
	for part := range here {
		parts[part] = true
	}
	for part := range there {
		parts[part] = true
	}
	var list []string
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		mine, has := here[part]
		its, hasToo := there[part]
		switch {
		case mine == its && has == hasToo:
		case part == partBus && has != hasToo: // a version that does not tell
		case part == partBus:
			list = append(list, "bus is another one there, and nodes on different ones notice each other's changes up to a second later")
		case has && hasToo:
			list = append(list, part+" has another configuration there")
		case has:
			list = append(list, part+" is not there")
		default:
			list = append(list, part+" is only there")
		}
	}
	return list
}
