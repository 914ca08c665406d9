package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store/record"
)

func TestDigestOfNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		digest map[string]string
		kept   string
		read   map[string]string
	}{
		{nil, "{}", nil},
		{map[string]string{}, "{}", nil},
		{map[string]string{"b": "2", "a": "1"}, `{"a":"1","b":"2"}`, map[string]string{"a": "1", "b": "2"}},
		{map[string]string{"\x00\"": "<é>"}, `{"\u0000\"":"<é>"}`, map[string]string{"\x00\"": "<é>"}},
		{map[string]string{"a": "\xff"}, "{\"a\":\"\ufffd\"}", map[string]string{"a": "\ufffd"}},
	} {
		kept := record.AppendDigest(nil, tt.digest)
		if string(kept) != tt.kept {
			t.Errorf("%q is kept as %s, want %s", tt.digest, kept, tt.kept)
		}
		read, err := record.ParseDigest(kept)
		if diff := cmp.Diff(tt.read, read); diff != "" || err != nil {
			t.Errorf("%s, %v (-want +got):\n%s", kept, err, diff)
		}
	}
	for _, bad := range []string{"", "[]", `{"a":1}`, "{"} {
		if digest, err := record.ParseDigest([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, digest)
		}
	}
}
