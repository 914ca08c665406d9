package policy

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"strings"
	"sync"
)

// cost estimates how much work it is to hold a value against a schema: how often
// one part of the value is visited at most. Alternatives that refer to the same
// schemas again and again double it with every level, so that a small schema can
// take as long as it likes (JSS-04).
type cost struct {
	root any
	base string
	// anchors are the subschemas that have a name.
	anchors map[string][]any

	mu   sync.Mutex
	memo map[int]int64 // visits by the depth of the value
}

// Where subschemas are: for the value itself, or for a part of it.
var (
	inPlaceOne  = []string{"not", "if", "then", "else"}
	inPlaceList = []string{"allOf", "anyOf", "oneOf"}
	inPlaceMap  = []string{"dependentSchemas", "dependencies"}
	partOne     = []string{"additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "additionalItems", "unevaluatedItems"}
	partMap     = []string{"patternProperties"}
)

// errEndless says that a schema refers to itself for the same value.
var errEndless = errors.New("the schema refers to itself without end")

func newCost(root any) *cost {
	c := &cost{root: root, anchors: map[string][]any{}, memo: map[int]int64{}}
	if m, ok := root.(map[string]any); ok {
		id, _ := m["$id"].(string)
		c.base = strings.TrimSuffix(id, "#")
	}
	c.name(root)
	return c
}

// name collects the anchors.
func (c *cost) name(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := v[key].(string); ok {
				c.anchors[name] = append(c.anchors[name], v)
			}
		}
		for _, one := range v {
			c.name(one)
		}
	case []any:
		for _, one := range v {
			c.name(one)
		}
	}
}

// check refuses references that lead nowhere or to themselves.
func (c *cost) check() error {
	done := map[string]bool{}
	var walk func(v any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range []string{"$ref", "$dynamicRef"} {
				if ref, ok := v[key].(string); ok && !done[ref] {
					done[ref] = true
					if _, err := c.resolve(ref); err != nil {
						return err
					}
				}
			}
			for key, one := range v {
				if key == "enum" || key == "const" || key == "default" || key == "examples" {
					continue
				}
				if err := walk(one); err != nil {
					return err
				}
			}
		case []any:
			for _, one := range v {
				if err := walk(one); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := walk(c.root); err != nil {
		return err
	}
	return c.endless()
}

// resolve returns what a reference is to.
func (c *cost) resolve(ref string) ([]any, error) {
	text := ref
	if c.base != "" {
		text = strings.TrimPrefix(text, c.base)
	}
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok {
		return nil, fmt.Errorf("the schema refers to %.200q, which it does not contain", ref)
	}
	if fragment != "" && fragment[0] != '/' {
		if found := c.anchors[fragment]; found != nil {
			return found, nil
		}
		return nil, fmt.Errorf("the schema refers to %.200q, which it does not contain", ref)
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, fmt.Errorf("the schema refers to %.200q, which is no reference", ref)
	}
	at := c.root
	for part := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		if fragment == "" {
			break
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at, ok = v[part]
		case []any:
			at, ok = item(v, part)
		default:
			ok = false
		}
		if !ok {
			return nil, fmt.Errorf("the schema refers to %.200q, which it does not contain", ref)
		}
	}
	return []any{at}, nil
}

func item(list []any, index string) (any, bool) {
	n := 0
	for _, c := range []byte(index) {
		if c < '0' || c > '9' || n > len(list) {
			return nil, false
		}
		n = n*10 + int(c-'0')
	}
	if index == "" || n >= len(list) {
		return nil, false
	}
	return list[n], true
}

// references returns the schemas that a schema refers to for the same value.
func (c *cost) references(m map[string]any) (found []any) {
	for _, key := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := m[key].(string); ok {
			to, err := c.resolve(ref)
			if err == nil {
				found = append(found, to...)
			}
		}
	}
	return found
}

// inPlace returns the subschemas that are held against the same value.
func (c *cost) inPlace(m map[string]any) []any {
	found := c.references(m)
	for _, key := range inPlaceOne {
		if one, ok := m[key]; ok {
			found = append(found, one)
		}
	}
	for _, key := range inPlaceList {
		if list, ok := m[key].([]any); ok {
			found = append(found, list...)
		}
	}
	for _, key := range inPlaceMap {
		if all, ok := m[key].(map[string]any); ok {
			for _, one := range all {
				found = append(found, one)
			}
		}
	}
	return found
}

// endless reports a schema that comes to itself again for the same value: who
// holds a value against it never ends.
func (c *cost) endless() error {
	const busy, done = 1, 2
	state := map[uintptr]int{}
	var visit func(v any) error
	visit = func(v any) error {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		id := identity(m)
		switch state[id] {
		case busy:
			return errEndless
		case done:
			return nil
		}
		state[id] = busy
		for _, one := range c.inPlace(m) {
			if err := visit(one); err != nil {
				return err
			}
		}
		state[id] = done
		return nil
	}
	var walk func(v any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case map[string]any:
			if err := visit(v); err != nil {
				return err
			}
			for _, one := range v {
				if err := walk(one); err != nil {
					return err
				}
			}
		case []any:
			for _, one := range v {
				if err := walk(one); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(c.root)
}

// visits returns how often one part of a value of that depth is visited at most.
func (c *cost) visits(depth int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.memo[depth]
	if !ok {
		known = c.of(c.root, depth, map[visit]int64{})
		c.memo[depth] = known
	}
	return known
}

// identity tells one object from another.
func identity(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }

type visit struct {
	node  uintptr
	depth int
}

func (c *cost) of(v any, depth int, memo map[visit]int64) int64 {
	m, ok := v.(map[string]any)
	if !ok {
		return 1
	}
	key := visit{identity(m), depth}
	if known, ok := memo[key]; ok {
		return known
	}
	total := int64(1)
	for _, one := range c.inPlace(m) {
		total = plus(total, c.of(one, depth, memo))
	}
	if depth > 0 {
		for _, key := range partOne {
			if one, ok := m[key]; ok {
				total = plus(total, c.of(one, depth-1, memo))
			}
		}
		for _, key := range partMap {
			if all, ok := m[key].(map[string]any); ok {
				for _, one := range all {
					total = plus(total, c.of(one, depth-1, memo))
				}
			}
		}
		// One part meets one of the properties, and one of the items.
		properties, _ := m["properties"].(map[string]any)
		most := int64(0)
		for _, one := range properties {
			most = max(most, c.of(one, depth-1, memo))
		}
		total, most = plus(total, most), 0
		prefix, _ := m["prefixItems"].([]any)
		items, several := m["items"].([]any) // of draft-07
		if one, ok := m["items"]; ok && !several {
			items = []any{one}
		}
		for _, one := range append(prefix[:len(prefix):len(prefix)], items...) {
			most = max(most, c.of(one, depth-1, memo))
		}
		total = plus(total, most)
	}
	memo[key] = total
	return total
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64/4-b {
		return math.MaxInt64 / 4
	}
	return a + b
}
