package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is a key of a struct.
type field struct {
	key   string
	index int
	tag   reflect.StructTag
}

// fieldsOf returns the keys of a struct type in their order.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && key != "" && key != "-" {
			fields = append(fields, field{key: key, index: i, tag: f.Tag})
		}
	}
	return fields
}

// setDefaults sets the defaults of a struct and of the structs in it. The
// argument is a pointer; one to anything but a struct is left alone.
func setDefaults(pointer any) {
	v := reflect.ValueOf(pointer).Elem()
	if v.Kind() != reflect.Struct {
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		target := v.Field(f.index)
		if text, ok := f.tag.Lookup("default"); ok {
			if err := setText(target, text); err != nil {
				panic(fmt.Sprintf("default of %s.%s: %v", v.Type(), f.key, err)) // a mistake in a tag; every default is set by a test
			}
			continue
		}
		if target.Kind() == reflect.Struct {
			setDefaults(target.Addr().Interface())
		}
	}
}

// setText sets a value of a scalar type, or of a list of them, from its text as
// it is written in the file.
func setText(v reflect.Value, text string) error {
	if v.Type() == secretType {
		v.Set(reflect.ValueOf(Secret{text}))
		return nil
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && v.Type() != jsonType {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setText(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("is neither true nor false")
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return fmt.Errorf("is not a whole number")
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("is not a number")
		}
		v.SetFloat(n)
	case reflect.Slice:
		if v.Type() == jsonType {
			return fmt.Errorf("cannot be set from a text")
		}
		list := reflect.MakeSlice(v.Type(), 0, 1)
		for element := range strings.SplitSeq(text, ",") {
			if text == "" {
				break
			}
			e := reflect.New(v.Type().Elem()).Elem()
			if err := setText(e, strings.TrimSpace(element)); err != nil {
				return err
			}
			list = reflect.Append(list, e)
		}
		v.Set(list)
	default:
		return fmt.Errorf("cannot be set from a text")
	}
	return nil
}

// join appends a key to a path. A key that is not a plain word is quoted.
func join(path, key string) string {
	plain := key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/") == ""
	switch {
	case !plain:
		return path + "[" + strconv.Quote(shorten(key)) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// laterKeys are keys that a later version will have, by the path of their
// mapping with * for the name of an agent.
var laterKeys = map[string][]string{
	"":         {"push", "cluster"},
	"agents.*": {"auth", "security", "push", "mcp"},
}

var agentName = regexp.MustCompile(`^agents\.[^.\[]+`)

// later reports whether a later version will have a key.
func later(parent, key string) bool {
	return slices.Contains(laterKeys[agentName.ReplaceAllString(parent, "agents.*")], key)
}
