module handoff.example/interop/client

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	golang.org/x/net v0.62.0
	handoff.example/handoff v0.0.0
)

replace handoff.example/handoff => ../..
