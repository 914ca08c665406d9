package bus

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestMessagesHoldAllHintsAndKeepTheirLimit(t *testing.T) {
	t.Parallel()
	odd := map[string]int64{
		"018f2a6e-7c1a-7abc-8def-0123456789ab": math.MaxInt64,
		"018F2A6E-7C1A-7ABC-8DEF-0123456789AB": 2, // is not the one above
		"018f2a6e-7c1a-7abc-8def-0123456789a-": 3,
		"018f2a6e07c1a-7abc-8def-0123456789ab": 4,
		"t":                                    0,
		"Aufgabe, größer":                      5,
		strings.Repeat("x", 256):               6,
		strings.Repeat("y", 128):               7,
	}

	many := map[string]int64{}
	for i := range 5000 {
		many[uuid.NewString()] = int64(i)
	}
	const smallest = headerSize + maxHint
	for name, c := range map[string]struct {
		hints map[string]int64
		lost  bool
		limit int
		want  int // messages, at most
	}{
		"nothing":        {limit: smallest, want: 0},
		"only lost":      {lost: true, limit: smallest, want: 1},
		"odd":            {hints: odd, lost: true, limit: smallest, want: 5},
		"many":           {hints: many, limit: 5999, want: 17},
		"many in one":    {hints: many, limit: maxMessage * 2, want: 1},
		"many and small": {hints: many, limit: smallest, want: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e encoder
			from := newSender()
			e.encode(newSender(), odd, false, smallest) // leaves the buffer dirty
			messages := e.encode(from, c.hints, c.lost, c.limit)
			if len(messages) > c.want {
				t.Errorf("%d messages, want at most %d", len(messages), c.want)
			}
			got, lost := map[string]int64{}, false
			for _, b := range messages {
				if len(b) > c.limit {
					t.Errorf("message of %d bytes, the limit is %d", len(b), c.limit)
				}
				if len(b) > maxMessage {
					continue
				}
				m, err := decode(b)
				if err != nil {
					t.Fatal(err)
				}
				if m.from != from {
					t.Errorf("from %x, want %x", m.from, from)
				}
				lost = lost || m.lost
				for _, h := range m.hints {
					got[h.Task] = h.Seq
				}
			}
			if c.limit > maxMessage {
				return
			}
			if lost != c.lost {
				t.Errorf("lost %t, want %t", lost, c.lost)
			}
			want := c.hints
			if want == nil {
				want = map[string]int64{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAHintOfAUUIDIsSmall(t *testing.T) {
	t.Parallel()
	b := appendHint(nil, uuid.NewString(), 100)
	if len(b) != 18 {
		t.Errorf("%d bytes", len(b))
	}
}

// message writes a message by hand.
func raw(parts ...any) []byte {
	var b bytes.Buffer
	b.Write([]byte{version, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b.WriteString(p)
		case int:
			b.WriteByte(byte(p))
		}
	}
	return b.Bytes()
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":                {nil, errSize},
		"half a header":        {raw()[:headerSize-1], errSize},
		"too long":             {append(raw(), make([]byte, maxMessage)...), errSize},
		"other version":        {append([]byte{2}, raw()[1:]...), errVersion},
		"no id":                {raw(5), errHint},
		"half an id":           {raw(5, "abcd"), errHint},
		"half a UUID":          {raw(0, strings.Repeat("u", 15)), errHint},
		"no seq":               {raw(1, "a"), errHint},
		"half a seq":           {raw(1, "a", 0x80), errHint},
		"seq beyond int64":     {raw(1, "a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errHint},
		"seq beyond uint64":    {raw(1, "a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errHint},
		"length beyond id":     {raw(0x81, 2, strings.Repeat("a", 257), 1), errHint},
		"length beyond uint64": {raw("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errHint},
		"not UTF-8":            {raw(1, 0xff, 1), errHint},
		"NUL":                  {raw(2, "a", 0, 1), errHint},
		"line feed":            {raw(2, "a\n", 1), errHint},
		"DEL":                  {raw(2, "a", 0x7f, 1), errHint},
		"good before bad":      {raw(1, "a", 1, 1), errHint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := decode(c.b)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if m.hints != nil {
				t.Errorf("hints of a malformed message: %v", m.hints)
			}
		})
	}
	m, err := decode(raw(1, "a", 1, 2, "bc", 0x80, 1))
	if diff := cmp.Diff([]Hint{{"a", 1}, {"bc", 128}}, m.hints); err != nil || diff != "" {
		t.Errorf("by hand: %v %s", err, diff)
	}
}

func FuzzDecode(f *testing.F) {
	var e encoder
	hints := map[string]int64{uuid.NewString(): 1 << 40, "task": 0, strings.Repeat("é", 128): 3}
	for _, lost := range []bool{false, true} {
		for _, b := range e.encode(newSender(), hints, lost, maxMessage) {
			f.Add(b)
		}
	}
	f.Add(raw(0x80, 2))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		want := map[string]int64{}
		for _, h := range m.hints {
			if !h.valid() {
				t.Fatalf("hint %+v is not valid", h)
			}
			want[h.Task] = max(want[h.Task], h.Seq)
		}
		// What was read can be written and read again.
		got := map[string]int64{}
		var e encoder
		for _, b := range e.encode(m.from, want, m.lost, headerSize+maxHint) {
			again, err := decode(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range again.hints {
				got[h.Task] = h.Seq
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestLabelsAreSafeAndDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	long := strings.Repeat("a", 41)
	for _, cluster := range []string{
		"018f2a6e-7c1a-7abc-8def-0123456789ab", "a", "A", "a.b", "a*", ">", " ", `";drop`, "ä", long, long + "a",
		"=" + strings.Repeat("0", 32),
	} {
		l := label(cluster)
		if other, ok := seen[l]; ok {
			t.Errorf("%q and %q have the label %q", cluster, other, l)
		}
		seen[l] = cluster
		if len(l) > 40 || strings.ContainsAny(l, ".*> \"';\x00") {
			t.Errorf("label %q of %q", l, cluster)
		}
	}
	if l := label("cluster-1"); l != "cluster-1" {
		t.Errorf("a plain id becomes %q", l)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "p@ss/w ö%rd"
	for _, text := range []string{
		secret, "nats://u:p%40ss%2Fw%20%C3%B6%25rd@h", "x=p%40ss%2Fw+%C3%B6%25rd", fmt.Sprintf("%s and %s", secret, secret),
	} {
		got := hide("before "+text+" after", []string{"", secret})
		if strings.Contains(got, "ss") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
