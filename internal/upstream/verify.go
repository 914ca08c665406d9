package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// verified hands on a response while it comes, and holds it against its request:
// that it is one object with the id of the request, and that its result is of a
// kind that may be. What does not agree fails the last Read, so that the client
// sees an answer that breaks off rather than one that is wrong.
type verified struct {
	body    io.Reader
	id      jsontext.Value
	check   func(resultType string, result bool) error
	fail    func(error) error // what an error of the body means
	bad     func(error) *Error
	done    error // of all Reads from now on
	tracker tracker
}

func (v *verified) Read(p []byte) (int, error) {
	if v.done != nil {
		return 0, v.done
	}
	n, err := v.body.Read(p)
	wrong := v.tracker.feed(p[:n])
	if err == io.EOF && wrong == nil {
		wrong = v.tracker.finish(v.id, v.check)
	}
	switch {
	case wrong != nil:
		v.done = v.bad(wrong)
		return 0, v.done
	case err == io.EOF:
		v.done = io.EOF
	case err != nil:
		v.done = v.fail(err)
	}
	return n, v.done
}

// maxTracked bounds the names and values that are looked at.
const maxTracked = 1 << 10

// tracker follows the outer two levels of a JSON object without building
// anything: the members of the object, and those of its result.
type tracker struct {
	depth    int
	inString bool
	escaped  bool
	began    bool
	ended    bool
	value    bool // after the colon of the innermost object that counts

	text   []byte // the string or number that is being read, at a level that counts
	root   string // the member of the object that is being read
	member string // the member of the result that is being read

	id      []byte
	kind    []byte
	results int // how many members are called result
	errs    int
	ids     int
	kinds   int
}

var errShape = errors.New("the answer is not one object")

// feed reads on.
func (t *tracker) feed(p []byte) error {
	quote, slash := -1, -1 // the next of each, where they were looked for
	for i := 0; i < len(p); i++ {
		if t.inString {
			// What is deep inside is skipped up to its next quote.
			if !t.counts() && !t.escaped {
				quote, slash = next(p, '"', i, quote), next(p, '\\', i, slash)
				if i = min(quote, slash); i == len(p) {
					return nil
				}
			}
			if err := t.inText(p[i]); err != nil {
				return err
			}
			continue
		}
		if err := t.outside(p[i]); err != nil {
			return err
		}
	}
	return nil
}

// next returns where a byte comes next from a place on, len(p) if it does not. Known
// is where it came last time.
func next(p []byte, b byte, from, known int) int {
	if known >= from {
		return known
	}
	if j := bytes.IndexByte(p[from:], b); j >= 0 {
		return from + j
	}
	return len(p)
}

// counts reports whether what is read now is of interest.
func (t *tracker) counts() bool {
	return t.depth == 1 || t.depth == 2 && t.root == "result"
}

func (t *tracker) inText(c byte) error {
	if t.counts() {
		if len(t.text) >= maxTracked {
			// Such a long text is neither a name nor an id that we have sent.
			t.text = t.text[:maxTracked]
		} else {
			t.text = append(t.text, c)
		}
	}
	switch {
	case t.escaped:
		t.escaped = false
	case c == '\\':
		t.escaped = true
	case c == '"':
		t.inString = false
	}
	return nil
}

func (t *tracker) outside(c byte) error {
	switch c {
	case ' ', '\t', '\r', '\n':
		return nil
	}
	if t.ended || !t.began && c != '{' {
		return errShape
	}
	switch c {
	case '{', '[':
		t.began = true
		t.depth++
		t.value, t.text = false, t.text[:0]
		if t.depth == 2 {
			t.member = ""
		}
	case '}', ']':
		t.close()
		t.depth--
		if t.depth < 0 {
			return errShape
		}
		t.ended = t.depth == 0
	case ':':
		t.colon()
	case ',':
		t.close()
	case '"':
		t.inString = true
		if t.counts() {
			t.text = append(t.text[:0], c)
		}
	default:
		if t.counts() && len(t.text) < maxTracked {
			t.text = append(t.text, c)
		}
	}
	return nil
}

// colon takes what was read for a name.
func (t *tracker) colon() {
	if !t.counts() {
		return
	}
	name, err := jsontext.AppendUnquote(nil, t.text)
	if err != nil {
		name = nil
	}
	t.text, t.value = t.text[:0], true
	switch t.depth {
	case 1:
		t.root = string(name)
		switch t.root {
		case "result":
			t.results++
		case "error":
			t.errs++
		case "id":
			t.ids++
		}
	case 2:
		t.member = string(name)
		if t.member == "resultType" {
			t.kinds++
		}
	}
}

// close ends a value.
func (t *tracker) close() {
	if t.counts() && t.value {
		switch {
		case t.depth == 1 && t.root == "id":
			t.id = append(t.id[:0], t.text...)
		case t.depth == 2 && t.member == "resultType":
			t.kind = append(t.kind[:0], t.text...)
		}
	}
	if t.counts() {
		t.value, t.text = false, t.text[:0]
	}
}

// finish judges what was read.
func (t *tracker) finish(id jsontext.Value, check func(string, bool) error) error {
	switch {
	case !t.ended:
		return io.ErrUnexpectedEOF
	case t.ids != 1 || !bytes.Equal(t.id, id):
		return fmt.Errorf("the answer is to the request %s and not to %s", clip(string(t.id), 100), id)
	case t.results+t.errs != 1 || t.kinds > 1:
		return errors.New("the answer is not one result or one error")
	}
	kind := mcp.ResultComplete
	if t.kinds == 1 {
		text, err := jsontext.AppendUnquote(nil, t.kind)
		if err != nil {
			text = t.kind
		}
		kind = string(text)
	}
	return check(kind, t.results == 1)
}
