package a2a

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	accepted := []struct {
		in   string
		want Version
		text string
	}{
		{"1.0", Version10, "1.0"},
		{"1.0.7", Version10, "1.0"},
		{" 1.0 ", Version10, "1.0"},
		{"", Version03, "0.3"},
		{"  ", Version03, "0.3"},
		{"0.3", Version03, "0.3"},
		{"0.3.0", Version03, "0.3"},
		{"12.34", 12<<16 | 34, "12.34"},
	}
	for _, tt := range accepted {
		got, err := ParseVersion(tt.in)
		if err != nil || got != tt.want || got.String() != tt.text {
			t.Errorf("ParseVersion(%q) = %v, %v; want %v", tt.in, got, err, tt.text)
		}
	}
	for _, in := range []string{"1", "1.", ".0", "v1.0", "1.x", "1.0.", "1.0.x", "1.0.0.0", "-1.0", "+1.0", "1.10000", "01.0", "1.00", "1.0.01", "99999.0", "1. 0", "١.٠"} {
		if got, err := ParseVersion(in); CodeOf(err) != CodeVersionNotSupported || err == nil {
			t.Errorf("ParseVersion(%q) = %v, %v; want an error", in, got, err)
		}
	}
	if !(Version03 < Version10) || Version10.Major() != 1 || Version10.Minor() != 0 || Version03.Minor() != 3 {
		t.Error("versions do not compare by their numbers")
	}
	_, err := ParseVersion(strings.Repeat("9", 1<<20))
	if err == nil || len(err.Error()) > 256 {
		t.Error("the error repeats a hostile header in full")
	}
}

func TestParseExtensions(t *testing.T) {
	t.Parallel()
	tests := []struct{ lines, want []string }{
		{nil, nil},
		{[]string{"", " , ,"}, nil},
		{[]string{"https://e/1"}, []string{"https://e/1"}},
		{[]string{"https://e/1,https://e/2", " https://e/3 ,\thttps://e/1"}, []string{"https://e/1", "https://e/2", "https://e/3"}},
		{[]string{"urn:b,urn:a,urn:b"}, []string{"urn:b", "urn:a"}},
	}
	for _, tt := range tests {
		got := ParseExtensions(tt.lines)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseExtensions(%q) (-want +got):\n%s", tt.lines, diff)
		}
		if diff := cmp.Diff(got, ParseExtensions([]string{FormatExtensions(got)})); diff != "" {
			t.Errorf("FormatExtensions(%q) (-want +got):\n%s", got, diff)
		}
	}
}
