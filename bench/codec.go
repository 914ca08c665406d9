package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"handoff.example/handoff/a2a"
)

// benchCodec compares the two JSON codecs on a message with a data part and on a
// task with an artifact. The ratio is the smallest of the four.
func benchCodec(context.Context, scale) (row, error) {
	message := `{"messageId":"m-1","contextId":"c-1","role":"ROLE_USER","parts":[{"text":"hello"},{"data":{"rows":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"BRG-0042","quantity":12.5,"tags":["a","b"],"note":null},`, 30), ",") + `]}}]}`
	task := `{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-01T00:00:00.000Z"},"artifacts":[{"artifactId":"a-1","name":"result","parts":[` +
		strings.TrimSuffix(strings.Repeat(`{"text":"a line of the result"},`, 20), ",") + `]}],"history":[{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"hello"}]}]}`
	var m a2a.Message
	var t a2a.Task
	var sm sdk.Message
	var st sdk.Task
	for _, err := range []error{
		a2a.Unmarshal([]byte(message), &m), a2a.Unmarshal([]byte(task), &t),
		json.Unmarshal([]byte(message), &sm), json.Unmarshal([]byte(task), &st),
	} {
		if err != nil {
			return row{}, err
		}
	}
	speed := func(f func()) float64 {
		return float64(testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				f()
			}
		}).NsPerOp())
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var buf []byte
	ratios := []float64{
		speed(func() { _, err := json.Marshal(&sm); must(err) }) / speed(func() { buf = m.AppendJSON(buf[:0]) }),
		speed(func() { _, err := json.Marshal(&st); must(err) }) / speed(func() { buf = t.AppendJSON(buf[:0]) }),
		speed(func() { var v sdk.Message; must(json.Unmarshal([]byte(message), &v)) }) /
			speed(func() { var v a2a.Message; must(a2a.Unmarshal([]byte(message), &v)) }),
		speed(func() { var v sdk.Task; must(json.Unmarshal([]byte(task), &v)) }) /
			speed(func() { var v a2a.Task; must(a2a.Unmarshal([]byte(task), &v)) }),
	}
	least := min(ratios[0], ratios[1], ratios[2], ratios[3])
	return row{
		Name:    "codec: encode a message, encode a task, decode a message, decode a task",
		Handoff: fmt.Sprintf("%.0fx, %.0fx, %.0fx, %.1fx as fast", ratios[0], ratios[1], ratios[2], ratios[3]),
		Peer:    "1", Ratio: least, Budget: ">= 3x", Held: least >= 3,
	}, nil
}
