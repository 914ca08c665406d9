package config

import (
	"errors"
	"log/slog"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/internal/netguard"
)

// Duration is a time.Duration that is written as in Go, with d for a day of 24
// hours: 200ms, 1h30m, 30d.
type Duration time.Duration

// Std returns the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the duration as it is written in the file.
func (d Duration) String() string {
	const day = 24 * time.Hour
	std := time.Duration(d)
	if std == 0 {
		return "0s"
	}
	if std%day == 0 {
		return strconv.FormatInt(int64(std/day), 10) + "d"
	}
	text := std.String()
	// 1h0m0s is 1h, and 1m0s is 1m.
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var errDuration = errors.New("is not a duration; write it like 500ms, 90s, 15m, 2h or 30d")

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	var total time.Duration
	if before, after, ok := strings.Cut(s, "d"); ok {
		days, err := strconv.ParseFloat(before, 64)
		if err != nil || strings.ContainsAny(before, "eExXnN_") || math.Abs(days) > 100_000 {
			return errDuration
		}
		total = time.Duration(days * float64(24*time.Hour))
		s = after
		if s == "" {
			*d = Duration(total)
			return nil
		}
		if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
			return errDuration
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil {
		return errDuration
	}
	if total < 0 {
		rest = -rest
	}
	if sum := total + rest; (sum < total) == (rest < 0) {
		*d = Duration(sum)
		return nil
	}
	return errDuration
}

// MarshalText writes the duration as it is written in the file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written with a unit (16MiB, 64KB) or without.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

// String returns the size as it is written in the file.
func (s Size) String() string {
	if s != 0 {
		for _, unit := range sizeUnits {
			if int64(s)%unit.bytes == 0 && unit.bytes > 1 {
				return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
			}
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

var errSize = errors.New("is not a size; write it like 65536, 64KiB, 16MiB or 1GiB")

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, unit := range sizeUnits {
		if before, ok := strings.CutSuffix(number, unit.name); ok {
			number, factor = strings.TrimRight(before, " "), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return errSize
	}
	*s = Size(n * factor)
	return nil
}

// MarshalText writes the size as it is written in the file.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secret is a text that is never shown: a literal, ${ENV}, or file: and the
// path of a file that holds it. The zero Secret is none.
type Secret struct{ text string }

// NewSecret returns a secret of that text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns *** for a secret, and nothing for none.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "***"
}

// GoString returns what String does, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue returns what String does, for log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns what String does, for JSON and for maps.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML returns what String does.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Prefix is a network (10.0.0.0/8) or one address.
type Prefix struct{ netip.Prefix }

// UnmarshalText reads a network in CIDR notation, or an address.
func (p *Prefix) UnmarshalText(text []byte) error {
	prefix, err := netguard.ParsePrefix(string(text))
	if err != nil {
		return err
	}
	p.Prefix = prefix
	return nil
}
