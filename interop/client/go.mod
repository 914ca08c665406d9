module handoff.example/interop/client

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	golang.org/x/net v0.62.0
	handoff.example/handoff v0.0.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace handoff.example/handoff => ../..
