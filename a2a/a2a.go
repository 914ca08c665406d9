// Package a2a is the data model of the Agent2Agent protocol, version 1.0: its
// objects, their JSON form, task states, errors and version rules. It does no
// I/O and depends on nothing else of this module.
//
// The structs follow specification/a2a.proto field by field. Their JSON form is
// canonical ProtoJSON on the way out and lenient on the way in: unknown fields,
// nulls, integer enums, snake_case names and URL-safe base64 are accepted.
// Free-form JSON (Part.Data, every Metadata, AgentExtension.Params) is kept as
// the bytes that came.
package a2a

import "github.com/go-json-experiment/json/jsontext"

// JSON is free-form JSON kept as the bytes it arrived in. A nil JSON is an
// absent field; the JSON null is the four bytes "null".
type JSON = jsontext.Value

// MediaType is the media type of the HTTP+JSON binding (A2A §14.1.1).
const MediaType = "application/a2a+json"

// Service parameters, carried as HTTP headers or gRPC metadata (A2A §3.2.6).
const (
	// HeaderVersion names the protocol version of a request (A2A §3.6).
	HeaderVersion = "A2A-Version"
	// HeaderExtensions lists the extensions that a client opts into (A2A §4.6).
	HeaderExtensions = "A2A-Extensions"
)

// Protocol bindings as an agent card names them (A2A §4.4.6).
const (
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
	BindingGRPC    = "GRPC"
)

// WellKnownCardPath is where an agent's card is found (A2A §14.3).
const WellKnownCardPath = "/.well-known/agent-card.json"
