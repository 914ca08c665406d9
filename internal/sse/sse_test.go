package sse

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// parsed is what a stream says: the data of its events and the id after each.
type parsed struct {
	Data []string
	IDs  []string
}

func parseAll(r io.Reader, limit int) (parsed, error) {
	var p parsed
	s := New(r, limit)
	for {
		e, err := s.Next()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p.Data = append(p.Data, string(e.Data))
		p.IDs = append(p.IDs, s.LastEventID())
	}
}

var lineEnd = regexp.MustCompile("\r\n|\r|\n")

// naive parses a whole stream the way the standard words it.
func naive(stream string) parsed {
	var p parsed
	stream = strings.TrimPrefix(stream, "\uFEFF")
	var data []string
	var id string
	dispatch := func() {
		if data != nil {
			p.Data = append(p.Data, strings.Join(data, "\n"))
			p.IDs = append(p.IDs, id)
		}
		data = nil
	}
	for _, line := range lineEnd.Split(stream, -1) {
		if line == "" {
			dispatch()
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "id":
			if !strings.Contains(value, "\x00") && len(value) <= maxEventIDSize {
				id = value
			}
		}
	}
	dispatch() // the end of the stream completes an event
	return p
}

func TestSSEReader(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, stream string
		want         []string
	}{
		{"one event", "data: a\n\n", []string{"a"}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"carriage return and line feed", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"mixed line ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"a", "b", "c"}},
		{"several data lines", "data: a\ndata:b\ndata:  c\n\n", []string{"a\nb\n c"}},
		{"data without a colon", "data\ndata\n\n", []string{"\n"}},
		{"empty data", "data:\n\n", []string{""}},
		{"comments", ": hi\n\n:\n\ndata: a\n:x\ndata: b\n\n", []string{"a\nb"}},
		{"other fields", "retry: 5\n\nevent: x\nfoo: bar\ndata: a\n\n", []string{"a"}},
		{"field with data as its beginning", "dataset: x\n\ndata: a\n\n", []string{"a"}},
		{"no last blank line", "data: a\n", []string{"a"}},
		{"no last line end", "data: a", []string{"a"}},
		{"byte order mark", "\uFEFFdata: a\n\n", []string{"a"}},
		{"byte order mark later", "data: a\n\n\uFEFFdata: b\n\n", []string{"a"}},
		{"runes", "data: ä€😀\n\n", []string{"ä€😀"}},
		{"nothing", "", nil},
		{"only a comment", ":", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			readers := map[string]io.Reader{
				"whole":        strings.NewReader(tt.stream),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.stream)),
				"data and EOF": iotest.DataErrReader(strings.NewReader(tt.stream)),
			}
			for cut, r := range readers {
				got, err := parseAll(r, 1<<20)
				if err != nil {
					t.Fatalf("%s: %v", cut, err)
				}
				if d := cmp.Diff(tt.want, got.Data); d != "" {
					t.Errorf("%s: events (-want +got):\n%s", cut, d)
				}
			}
		})
	}
}

func TestSSEReaderIDs(t *testing.T) {
	t.Parallel()
	got, err := parseAll(strings.NewReader("id: 1\ndata: a\n\ndata: b\n\nid: 3\n\nid: x\x00y\ndata: c\n\nid\ndata: d\n\n"), 100)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"1", "1", "3", ""}, got.IDs); d != "" {
		t.Errorf("ids (-want +got):\n%s", d)
	}
}

// An event is dispatched as soon as its blank line is there: a carriage return
// must not wait for the line feed that may follow it.
func TestSSEReaderDoesNotWaitForLineFeed(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	go w.Write([]byte("data: a\r\n\r"))
	s := New(r, 100)
	if e, err := s.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("got %q, %v", e.Data, err)
	}
	go func() {
		w.Write([]byte("\ndata: b\r\r"))
		w.Close()
	}()
	if e, err := s.Next(); err != nil || string(e.Data) != "b" {
		t.Fatalf("got %q, %v", e.Data, err)
	}
}

func TestSSEReaderRetry(t *testing.T) {
	t.Parallel()
	s := New(strings.NewReader("retry: 1500\nretry: soon\ndata: a\n\n"), 100)
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	if s.retry != 1500*time.Millisecond {
		t.Errorf("retry is %v", s.retry)
	}
}

func TestSSEReaderLimit(t *testing.T) {
	t.Parallel()
	exact := "data: " + strings.Repeat("x", 100) + "\n\n"
	if _, err := parseAll(strings.NewReader(exact), 100); err != nil {
		t.Errorf("an event of exactly the limit: %v", err)
	}
	for name, stream := range map[string]string{
		"one line":    "data: " + strings.Repeat("x", 101),
		"many lines":  strings.Repeat("data: xxxxxxxxx\n", 11),
		"empty lines": strings.Repeat("data\n", 102),
	} {
		if _, err := parseAll(strings.NewReader(stream), 100); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A broken connection does not complete the event that was under way.
func TestSSEReaderBrokenConnection(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	got, err := parseAll(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	if !errors.Is(err, broken) || len(got.Data) != 1 {
		t.Errorf("got %q, %v", got.Data, err)
	}
}

// Memory is bounded by the event, not by comments and unknown fields.
func TestSSEReaderSkipsLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	got, err := parseAll(strings.NewReader(":"+long+"\nfoo:"+long+"\n"+long+"\nid:"+long+"\ndata: a\n\n"), 10)
	if err != nil || len(got.Data) != 1 || got.IDs[0] != "" {
		t.Errorf("got %q %q, %v", got.Data, got.IDs, err)
	}
}

func FuzzSSEReader(f *testing.F) {
	f.Add("data: a\r\n\r\ndata: b\r\rid: 1\n\n: c\n", uint8(3))
	f.Add("\uFEFFdata: a\ndata\n\ndata", uint8(1))
	f.Add("id: \x00\nretry: 5\n\ndata:x\r\n", uint8(2))
	f.Fuzz(func(t *testing.T, stream string, size uint8) {
		want := naive(stream)
		got, err := parseAll(&chunkReader{data: []byte(stream), size: int(size)%7 + 1}, len(stream)+1)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("stream %q (-want +got):\n%s", stream, d)
		}
	})
}

// chunkReader gives its data in pieces.
type chunkReader struct {
	data []byte
	size int
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.size)], r.data)
	r.data = r.data[n:]
	return n, nil
}

// Time per byte must not depend on where line ends are.
func BenchmarkSSEReader(b *testing.B) {
	for name, stream := range map[string]string{
		"Events":          strings.Repeat("id: 17\ndata: "+strings.Repeat("x", 300)+"\n\n", 3000),
		"OneLine":         "data: " + strings.Repeat("x", 1<<20) + "\n\n",
		"EmptyLines":      strings.Repeat("\n", 1<<20),
		"CarriageReturns": strings.Repeat("data:\r\r", 1<<17),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				s := New(bytes.NewReader([]byte(stream)), 2<<20)
				for {
					if _, err := s.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}
