package interop

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// operation is a row of the table in docs/interop.md. The names are those that
// all suites use; ../run knows them too.
type operation string

const (
	opCard       operation = "card"
	opSend       operation = "send"
	opImmediate  operation = "immediate"
	opMessage    operation = "message"
	opStream     operation = "stream"
	opSubscribe  operation = "subscribe"
	opAnswer     operation = "answer"
	opGet        operation = "get"
	opList       operation = "list"
	opCancel     operation = "cancel"
	opPushCreate operation = "push-create"
	opPushGet    operation = "push-get"
	opPushList   operation = "push-list"
	opPushDelete operation = "push-delete"
	opWebhook    operation = "webhook"
	opExtended   operation = "extended"
	opParts      operation = "parts"
	opErrors     operation = "errors"
)

type operations []operation

// notOffered is the result of a case whose operation the card of the server
// does not have.
const notOffered = "not offered"

// result is what a case has shown, one line of the file that RESULTS names.
type result struct {
	SDK        string                `json:"sdk"`
	Binding    a2a.TransportProtocol `json:"binding"`
	Operations operations            `json:"operations"`
	Case       string                `json:"case"`
	Result     string                `json:"result"`
	Limit      string                `json:"limit,omitzero"`
}

// record writes the result of a case when it ends. The case may change it.
func record(t *testing.T, binding a2a.TransportProtocol, o operations) *result {
	t.Helper()
	r := &result{SDK: "a2a-go", Binding: binding, Operations: o, Case: t.Name(), Result: "pass"}
	t.Cleanup(func() {
		if t.Failed() {
			r.Result = "fail"
		}
		write(t, r)
	})
	return r
}

func write(t *testing.T, r *result) {
	t.Helper()
	path := os.Getenv("RESULTS")
	if path == "" {
		return // one works on the suite by hand
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}
