// Package process starts programs so that they end: with the children that they
// have, and with the node that has started them. What it takes for that differs
// between operating systems.
package process

import (
	"os"
	"slices"
)

// Environment returns those of the named environment variables that are set, and
// those that programs need on this system, as NAME=value.
func Environment(names ...string) []string {
	var env []string
	for _, name := range slices.Concat(names, inherited) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
