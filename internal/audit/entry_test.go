package audit

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// An entry without content is written as the library would, each field with any text.
func TestAppendEntry(t *testing.T) {
	t.Parallel()
	texts := []string{"", "erp", `a "quoted" \ one`, "<&>\u2028\x00\n", "not UTF-8: \xff\xc3", "Größe 漢字"}
	entries := []Entry{{}}
	for i := range reflect.TypeFor[Entry]().NumField() {
		for _, text := range texts {
			e := Entry{At: time.Date(2026, 11, 30, 10, 0, 0, int(time.Millisecond)*120, time.UTC), Role: "caller"}
			if field := reflect.ValueOf(&e).Elem().Field(i); field.Kind() == reflect.String {
				field.SetString(text)
				entries = append(entries, e)
			}
		}
	}
	if len(entries) < 16*len(texts) {
		t.Fatalf("there are %d entries", len(entries))
	}
	for i := range entries {
		want, err := json.Marshal(&entries[i], jsontext.AllowInvalidUTF8(true))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(appendEntry(nil, &entries[i]))); diff != "" {
			t.Errorf("%+v: %s", entries[i], diff)
		}
	}
}
