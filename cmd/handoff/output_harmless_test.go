package main

import "testing"

func TestHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"a":"plain ü 漢"}`:           `{"a":"plain ü 漢"}`,
		"{\"a\":\"\u009b31m\"}":       `{"a":"\u009b31m"}`,
		"{\"a\":\"\u202etxt\u2066\"}": `{"a":"\u202etxt\u2066"}`,
	} {
		if got := string(harmless([]byte(text))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
