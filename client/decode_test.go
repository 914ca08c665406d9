package client

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// Whatever a peer answers is an object, an error of the peer, or a local error:
// never both of the latter, never a panic.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"1","result":{"task":{"id":"t","status":{"state":"NEW"}}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"x"}}`))
	f.Add([]byte(`{"error":{"code":404,"status":"NOT_FOUND"}}`))
	f.Add([]byte(`{"task":{"status":{"state":"\u0041"}},"statusUpdate":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		result, err := resultOf(data, jsontext.Value(`"1"`), false)
		if err == nil && !result.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Errorf("result %q of %q is no JSON", result, data)
		}
		var event a2a.StreamResponse
		err = new(rest).decodeFrame(data, nil, &event)
		if _, fromPeer := errors.AsType[*a2a.Error](err); fromPeer && holdsEvent(&event) {
			t.Errorf("%q is an event and an error", data)
		}
	})
}
