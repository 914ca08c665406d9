package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Value is one value of a configuration, for people.
type Value struct {
	Path   string
	Text   string // as it is written in the file; *** for a secret, and in an address for its credentials
	Origin Origin

	restart   bool
	concealed bool // Text is not as it is written
	exact     any  // what tells two values apart
}

// Values returns every value of the configuration, defaults included, in the
// order of the structs. Agents and other maps are in the order of their keys.
func (c *Config) Values() []Value {
	var values []Value
	flatten(reflect.ValueOf(c).Elem(), "", false, func(v Value) {
		v.Origin = c.Origin(v.Path)
		if c.source != nil && !v.concealed {
			v.Text = c.source.asWritten(v.Path, v.Text)
		}
		values = append(values, v)
	})
	return values
}

// flatten calls emit with every leaf below v.
func flatten(v reflect.Value, path string, restart bool, emit func(Value)) {
	switch leaf, ok := leafText(v); {
	case ok:
		emit(Value{Path: path, Text: leaf, restart: restart, exact: v.Interface()})
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			flatten(v.Elem(), path, restart, emit)
		}
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			emit := emit
			if next := emit; f.tag.Get("conceal") == "true" {
				emit = func(v Value) {
					v.Text, v.concealed = showAddresses(v.Text), true
					next(v)
				}
			}
			flatten(v.Field(f.index), join(path, f.key), restart || f.tag.Get("restart") == "true", emit)
		}
	case v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			flatten(v.MapIndex(key), join(path, key.String()), restart, emit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			flatten(v.Index(i), path+"["+strconv.Itoa(i)+"]", restart, emit)
		}
	}
}

// leafText returns the text of a value that has no keys below it.
func leafText(v reflect.Value) (string, bool) {
	if v.Type() == jsonType {
		return string(v.Bytes()), v.Len() > 0
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok && v.Kind() != reflect.Pointer {
		text, err := m.MarshalText()
		return string(text), err == nil
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return fmt.Sprint(v.Interface()), true
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		if _, ok := leafText(element); !ok || element.Type() == jsonType || element.Kind() == reflect.Struct && element.Type() == secretType {
			return "", false
		}
		texts := make([]string, v.Len())
		for i := range texts {
			texts[i], _ = leafText(v.Index(i))
		}
		return "[" + strings.Join(texts, ", ") + "]", true
	}
	return "", false
}

// Change is a difference between two configurations.
type Change struct {
	Path     string
	Old, New string // as they are written in the file; *** for a secret, "" for none
	Restart  bool   // whether it takes effect only after a restart
}

// String returns the change for people.
func (c Change) String() string {
	switch {
	case c.Old == "":
		return c.Path + ": " + c.New
	case c.New == "":
		return c.Path + ": removed"
	case c.Old == c.New: // a secret
		return c.Path + ": changed"
	default:
		return c.Path + ": " + c.Old + " -> " + c.New
	}
}

// Diff returns what differs between two configurations, in the order of the
// structs. Agents and peers that came or went are one change each.
func Diff(before, after *Config) []Change {
	old := map[string]Value{}
	for _, v := range before.Values() {
		old[v.Path] = v
	}
	var changes []Change
	seen := map[string]bool{}
	for _, v := range after.Values() {
		seen[v.Path] = true
		was, ok := old[v.Path]
		if ok && reflect.DeepEqual(was.exact, v.exact) || added(v.Path, before) {
			continue
		}
		changes = append(changes, Change{Path: v.Path, Old: was.Text, New: v.Text, Restart: v.restart})
	}
	for _, v := range before.Values() {
		if !seen[v.Path] && !added(v.Path, after) {
			changes = append(changes, Change{Path: v.Path, Old: v.Text, Restart: v.restart})
		}
	}
	for _, path := range namedPaths(after) {
		if added(path, before) {
			changes = append(changes, Change{Path: path, New: "added"})
		}
	}
	for _, path := range namedPaths(before) {
		if added(path, after) {
			changes = append(changes, Change{Path: path, Old: "present"})
		}
	}
	return changes
}

// namedPaths returns the paths of the agents and peers.
func namedPaths(c *Config) []string {
	var paths []string
	for _, id := range c.AgentIDs() {
		paths = append(paths, join("agents", id))
	}
	for _, name := range c.PeerNames() {
		paths = append(paths, join("peers", name))
	}
	return paths
}

// added reports whether a path is that of an agent or a peer, or below one, that
// the other configuration does not have.
func added(path string, other *Config) bool {
	kind, rest, _ := strings.Cut(path, ".")
	id := rest[:strings.IndexAny(rest+".", ".[")]
	switch kind {
	case "agents":
		return other.Agents[id] == nil
	case "peers":
		return other.Peers[id] == nil
	}
	return false
}
