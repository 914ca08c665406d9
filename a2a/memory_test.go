package a2a

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is decoded with a memory is what is decoded without, whatever was there
// before.
func TestMemory(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"1"},{"data":{"x":1}}],"name":"n"},"append":true,"metadata":{"k":1}}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"2"}]},"lastChunk":true}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","parts":[]}}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","parts":null}}}`,
		`{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b"}}}`,
		`{"artifactUpdate":{"taskId":"u"}}`,
		`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING","message":{"messageId":"m","parts":[{"text":"x"}]}}}}`,
		`{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_WORKING"}}}`,
		`{"task":{"id":"t","artifacts":[{"artifactId":"a","parts":[{"text":"1"}]},{"artifactId":"b","parts":[{"text":"2"},{"text":"3"}]}]}}`,
		`{"message":{"messageId":"` + strings.Repeat("m", 1000) + `"}}`,
		`{"artifactUpdate":{"taskId":"` + strings.Repeat("t", 1000) + `","artifact":{"artifactId":"a","parts":[{"text":"4"},{"text":"5"},{"text":"6"}]}}}`,
		`{}`,
	}
	for _, reuse := range []bool{false, true} {
		for first := range events {
			memory := Memory{Reuse: reuse}
			var got StreamResponse
			for i := range events {
				text := []byte(events[(first+i*5)%len(events)])
				var want StreamResponse
				if err := Unmarshal(text, &want); err != nil {
					t.Fatal(err)
				}
				if !reuse {
					got = StreamResponse{}
				}
				if err := memory.Unmarshal(text, &got); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("reuse %v, %s: %s", reuse, text, d)
				}
			}
			for _, text := range memory.recent {
				if len(text) > maxRemembered {
					t.Errorf("a text of %d bytes is kept", len(text))
				}
			}
		}
	}
	memory := Memory{Reuse: true}
	if err := memory.Unmarshal([]byte(`{"task":1}`), new(StreamResponse)); err == nil {
		t.Error("a number is a task")
	}
}
