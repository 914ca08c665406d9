package reference

import (
	"fmt"
	"reflect"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
)

// lister writes the keys as tables, one per mapping.
type lister struct {
	comments comments
	out      strings.Builder
	seen     map[reflect.Type]bool
	queue    []mapping
	paths    map[reflect.Type]string
}

// mapping is a struct that is still to be listed.
type mapping struct {
	path string
	t    reflect.Type
}

func (l *lister) section(title, path string, t reflect.Type) {
	fmt.Fprintf(&l.out, "### %s\n\n", title)
	l.out.WriteString("| key | value | default | what it is |\n| --- | --- | --- | --- |\n")
	for _, k := range l.comments.keys(t) {
		tag := k.field.Tag
		byDefault := ""
		if text, ok := tag.Lookup("default"); ok {
			byDefault = "`" + strings.ReplaceAll(text, ",", ", ") + "`"
		} else if tag.Get("required") == "true" {
			byDefault = "required"
		}
		description := strings.ReplaceAll(k.description, "|", `\|`)
		if tag.Get("restart") == "true" {
			description += " A change needs a restart."
		}
		fmt.Fprintf(&l.out, "| `%s` | %s | %s | %s |\n", k.name, l.kind(k.field.Type, tag, childPath(path, k.name)), byDefault, description)
	}
	l.out.WriteString("\n")
}

func childPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// kind names the values of a key, and queues structs for a table of their own.
func (l *lister) kind(t reflect.Type, tag reflect.StructTag, path string) string {
	if enum := tag.Get("enum"); enum != "" && t.Kind() == reflect.String {
		return "`" + strings.ReplaceAll(enum, ",", "`, `") + "`"
	}
	switch t {
	case reflect.TypeFor[a2a.JSON]():
		return "any"
	case reflect.TypeFor[config.Duration]():
		return "duration" + bounds(tag)
	case reflect.TypeFor[config.Size]():
		return "size" + bounds(tag)
	case reflect.TypeFor[config.Secret]():
		return "secret"
	case reflect.TypeFor[config.Prefix]():
		return "network"
	case reflect.TypeFor[netguard.Destination]():
		return "destination"
	case reflect.TypeFor[config.CardSource]():
		return "URL, `file:` and a path, or a card"
	case reflect.TypeFor[config.Pin]():
		return "true, false, digest"
	case reflect.TypeFor[config.MCPAgents]():
		return "true, false, list of agents and peers"
	case reflect.TypeFor[config.MCPReason]():
		return "text, true, false"
	case reflect.TypeFor[config.MCPTools]():
		return "list of names, or " + l.kind(t.Elem(), "", path+".<name>") + " by name"
	case reflect.TypeFor[config.Tristate]():
		return "auto, true, false"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return l.kind(t.Elem(), tag, path)
	case reflect.Struct:
		if !l.seen[t] {
			l.seen[t] = true
			l.queue = append(l.queue, mapping{path, t})
		}
		return "[" + t.Name() + "](#" + anchor(l.pathOf(t, path)) + ")"
	case reflect.Map:
		return l.kind(t.Elem(), "", path+".<name>") + " by name"
	case reflect.Slice:
		return "list of " + l.kind(t.Elem(), tag, path+"[]")
	case reflect.Bool:
		return "true, false"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "number" + bounds(tag)
	default:
		return "text"
	}
}

// pathOf returns the path under which a struct has its table.
func (l *lister) pathOf(t reflect.Type, path string) string {
	if l.paths == nil {
		l.paths = map[reflect.Type]string{}
	}
	if first, ok := l.paths[t]; ok {
		return first
	}
	l.paths[t] = path
	return path
}

// anchor is how a heading is linked to.
func anchor(path string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("`.[]<>", r) {
			return -1
		}
		return r
	}, strings.ToLower(path))
}

func bounds(tag reflect.StructTag) string {
	low, high := tag.Get("min"), tag.Get("max")
	switch {
	case low != "" && high != "":
		return " from " + low + " to " + high
	case low != "" && strings.Trim(low, "0s") != "":
		return " from " + low
	default:
		return ""
	}
}
