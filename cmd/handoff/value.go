package main

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
)

// writeValue writes a value of ours as JSON or YAML.
func (a *app) writeValue(v any) error {
	document, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return a.writeDocument(a.output, document, false)
}

// plural counts things: 1 agent, 2 agents.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// bytesText tells a size to people.
func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, suffix := float64(n)/unit, 0
	for value >= unit && suffix < 4 {
		value, suffix = value/unit, suffix+1
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + string("KMGTP"[suffix]) + "iB"
}
