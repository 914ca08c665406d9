package agent

import _ "embed" // for the schemas

// TurnSchema is the JSON Schema (2020-12) of a turn as programs and webhooks get
// it.
//
//go:embed turn.schema.json
var TurnSchema []byte

// StepSchema is the JSON Schema (2020-12) of one step, in the form that
// ParseStep reads.
//
//go:embed step.schema.json
var StepSchema []byte
