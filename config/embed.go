package config

import (
	_ "embed" // the template and the schema
	"slices"
)

//go:embed template.yaml
var template []byte

//go:embed handoff.schema.json
var schema []byte

// Template returns the commented handoff.yaml that `handoff init` writes.
func Template() []byte { return slices.Clone(template) }

// Schema returns the JSON Schema (2020-12) of the file, which `handoff init`
// writes beside it as handoff.schema.json.
func Schema() []byte { return slices.Clone(schema) }
