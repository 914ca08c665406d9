package a2a

import (
	"strconv"
	"strings"
)

// Version is a version of the protocol. Patch versions do not exist for it
// (A2A §3.6). Versions compare by their numbers: Version03 < Version10.
type Version uint32 // major<<16 | minor

// The versions that peers speak.
const (
	Version03 Version = 3 // 0<<16 + 3
	Version10 Version = 1 << 16
)

// maxVersionNumber bounds each number of a version.
const maxVersionNumber = 9999

// ParseVersion reads Major.Minor and ignores a patch number. Empty means 0.3
// (A2A §3.6.2). The error has CodeVersionNotSupported.
func ParseVersion(text string) (Version, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Version03, nil
	}
	majorText, rest, _ := strings.Cut(text, ".")
	minorText, patchText, hasPatch := strings.Cut(rest, ".")
	major, ok1 := versionNumber(majorText)
	minor, ok2 := versionNumber(minorText)
	ok3 := true
	if hasPatch {
		_, ok3 = versionNumber(patchText)
	}
	if !ok1 || !ok2 || !ok3 {
		return 0, Errorf(CodeVersionNotSupported, "The protocol version %q is not of the form Major.Minor, such as 1.0",
			truncate(text, maxPathName))
	}
	return Version(major<<16 | minor), nil
}

// versionNumber reads a number in its only spelling, without leading zeros.
func versionNumber(text string) (uint32, bool) {
	if len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint32(n), err == nil && n <= maxVersionNumber
}

// Major returns the number before the dot.
func (v Version) Major() int { return int(v >> 16) }

// Minor returns the number after the dot.
func (v Version) Minor() int { return int(v & 0xffff) }

// String returns Major.Minor, as it goes over the wire.
func (v Version) String() string {
	return strconv.Itoa(v.Major()) + "." + strconv.Itoa(v.Minor())
}
