// Command schemagen writes handoff.schema.json and the table of keys in
// docs/configuration.md from the structs of package config. It runs in the
// directory of that package (go generate ./config).
package main

import (
	"fmt"
	"os"

	"handoff.example/handoff/config/internal/reference"
)

func main() {
	if err := reference.Write(".", "../docs/configuration.md"); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}
