package a2a

import (
	"fmt"
	"strings"
	"testing"
)

// benchMessage is a message with a data part of about 2 KB.
var benchMessage = func() string {
	var b strings.Builder
	for i := range 18 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%05d","description":"Hex bolt M%d, zinc plated","quantity":%d,"price":%d.25,"hazard":false}`, i, i+4, 100*i, i)
	}
	return `{"messageId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3c","contextId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3d","role":"ROLE_USER",` +
		`"parts":[{"text":"Please quote the attached order."},{"data":{"order":"PO-2026-0117","lines":[` + b.String() +
		`],"currency":"EUR","notes":null},"mediaType":"application/json"}],"metadata":{"trace":"a"}}`
}()

// benchTask is a task with a status message, an artifact and three messages.
var benchTask = func() string {
	user := `{"messageId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3c","contextId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3d",` +
		`"taskId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3e","role":"ROLE_USER",` +
		`"parts":[{"text":"Please quote the attached order. We need it at dock 7 by Friday."}]}`
	agent := strings.Replace(user, "ROLE_USER", "ROLE_AGENT", 1)
	return `{"id":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3e","contextId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3d",` +
		`"status":{"state":"TASK_STATE_COMPLETED","message":` + agent + `,"timestamp":"2026-03-14T09:26:53.589Z"},` +
		`"artifacts":[{"artifactId":"0198b1f0-3c3e-7d3a-9f52-6a1a3e1a2b3f","name":"quote","parts":[` +
		`{"text":"Total: 12,345.00 EUR, delivery in 5 days."},` +
		`{"data":{"total":12345,"currency":"EUR","days":5},"mediaType":"application/json"}]}],` +
		`"history":[` + user + "," + agent + "," + user + `],"metadata":{"ref":"PO-1"}}`
}()

func benchmarkEncode(b *testing.B, v object, text string) {
	b.Helper()
	if err := Unmarshal([]byte(text), v); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	var buf []byte
	for b.Loop() {
		buf = v.AppendJSON(buf[:0])
	}
}

func benchmarkDecode[T any, P decodableAs[T]](b *testing.B, text string) {
	b.Helper()
	data := []byte(text)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := Unmarshal(data, P(new(T))); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeMessage(b *testing.B) { benchmarkEncode(b, new(Message), benchMessage) }
func BenchmarkEncodeTask(b *testing.B)    { benchmarkEncode(b, new(Task), benchTask) }
func BenchmarkDecodeMessage(b *testing.B) { benchmarkDecode[Message](b, benchMessage) }
func BenchmarkDecodeTask(b *testing.B)    { benchmarkDecode[Task](b, benchTask) }

func BenchmarkDecodeRaw(b *testing.B) {
	part := Raw(make([]byte, 1<<20), "", "")
	benchmarkDecode[Part](b, string(part.AppendJSON(nil)))
}
