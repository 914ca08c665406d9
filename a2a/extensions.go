package a2a

import "strings"

// ParseExtensions reads the URIs of the A2A-Extensions header from all of its
// lines, each of which may be a list with commas. The URIs come in the order of
// the header, each once (A2A §3.2.6).
func ParseExtensions(lines []string) []string {
	var uris []string
	seen := map[string]struct{}{}
	for _, line := range lines {
		for uri := range strings.SplitSeq(line, ",") {
			uri = strings.TrimSpace(uri)
			if uri == "" {
				continue
			}
			if _, known := seen[uri]; known {
				continue
			}
			seen[uri] = struct{}{}
			uris = append(uris, uri)
		}
	}
	return uris
}

// FormatExtensions returns the value of an A2A-Extensions header that lists
// those URIs.
func FormatExtensions(uris []string) string { return strings.Join(uris, ", ") }
