package content

import (
	"errors"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	openDepth  = 2   // levels of a tree that are unfolded
	maxDepth   = 100 // levels that are shown
	maxScalar  = 4000
	openValues = 12 // values of an object or an array that is unfolded
)

// Tree returns a JSON value as a tree that folds. What is no JSON is shown as
// text.
func Tree(value string) template.HTML {
	w := &writer{}
	w.json(value)
	return w.html()
}

func (w *writer) json(value string) {
	counts, ok := count(value)
	if !ok {
		w.text(value)
		return
	}
	t := &tree{w: w, dec: decoder(value), counts: counts}
	w.open("div", "class", "values")
	t.value("", 0)
	w.close("div")
	if t.left {
		w.note("Only the first " + strconv.Itoa(maxTree) + " values are shown here.")
	}
}

func decoder(value string) *jsontext.Decoder {
	return jsontext.NewDecoder(strings.NewReader(value), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// count returns how many values each object and array has, in the order in which
// they begin, and false for what is not one JSON value.
func count(value string) (counts []int, ok bool) {
	dec := decoder(value)
	var open []int // indexes in counts
	for {
		depth := dec.StackDepth()
		token, err := dec.ReadToken()
		if err != nil {
			return counts, errors.Is(err, io.EOF) && depth == 0 && dec.InputOffset() > 0 && ok
		}
		if ok && depth == 0 {
			return nil, false // a second value
		}
		kind := token.Kind()
		if kind == '}' || kind == ']' {
			open = open[:len(open)-1]
			ok = len(open) == 0
			continue
		}
		if depth > 0 {
			// The decoder counts the names of an object as well as its values.
			_, n := dec.StackIndex(depth)
			if object, _ := dec.StackIndex(depth); object == '{' {
				n /= 2
			}
			counts[open[depth-1]] = int(n)
		}
		if kind == '{' || kind == '[' {
			open = append(open, len(counts))
			counts = append(counts, 0)
		}
		ok = len(open) == 0
	}
}

// tree writes values as they are decoded. The input is valid.
type tree struct {
	w      *writer
	dec    *jsontext.Decoder
	counts []int // of the collections that are still to come
	n      int   // values written
	left   bool  // whether some were left out
}

// value writes the next value, with the name that it has in its object.
func (t *tree) value(name string, depth int) {
	kind := t.dec.PeekKind()
	if t.n++; t.n > maxTree || depth > maxDepth {
		t.left = true
		t.skip()
		return
	}
	if kind == '{' || kind == '[' {
		t.collection(name, depth, kind)
		return
	}
	t.w.open("div", "class", "values-line")
	t.name(name)
	t.scalar(kind)
	t.w.close("div")
}

// skip passes over a value and its counts.
func (t *tree) skip() {
	depth := t.dec.StackDepth()
	for {
		token, err := t.dec.ReadToken()
		if err != nil {
			return
		}
		if kind := token.Kind(); kind == '{' || kind == '[' {
			t.counts = t.counts[1:]
		}
		if t.dec.StackDepth() <= depth {
			return
		}
	}
}

func (t *tree) name(name string) {
	if name == "" {
		return
	}
	t.w.open("bdi", "class", "json-key")
	t.w.string(withoutNUL(Visible(clip(name, 200))))
	t.w.close("bdi")
	t.w.string(": ")
}

func (t *tree) scalar(kind jsontext.Kind) {
	token, err := t.dec.ReadToken()
	if err != nil {
		return
	}
	class := "json-word"
	switch kind {
	case '"':
		class = "json-text"
	case '0':
		class = "json-number"
	}
	t.w.open("span", "class", class, "dir", "auto")
	t.w.string(withoutNUL(clip(token.String(), maxScalar)))
	t.w.close("span")
}

// collection writes an object or an array.
func (t *tree) collection(name string, depth int, kind jsontext.Kind) {
	count := t.counts[0]
	t.counts = t.counts[1:]
	word := "values"
	if kind == '{' {
		word = "members"
	}
	if count == 1 {
		word = strings.TrimSuffix(word, "s")
	}
	attributes := []string{"class", "values-node"}
	if depth == 0 || depth < openDepth && count <= openValues {
		attributes = append(attributes, "open", "")
	}
	t.w.open("details", attributes...)
	t.w.open("summary")
	t.name(name)
	t.w.open("span", "class", "values-count")
	t.w.string(strconv.Itoa(count) + " " + word)
	t.w.close("span")
	t.w.close("summary")
	t.w.open("div", "class", "values-inside")
	_, _ = t.dec.ReadToken()
	for i := 0; ; i++ {
		if next := t.dec.PeekKind(); next == '}' || next == ']' || next == 0 {
			break
		}
		key := strconv.Itoa(i)
		if kind == '{' {
			token, err := t.dec.ReadToken()
			if err != nil {
				break
			}
			if key = token.String(); key == "" {
				key = `""`
			}
		}
		t.value(key, depth+1)
	}
	_, _ = t.dec.ReadToken()
	t.w.close("div")
	t.w.close("details")
}
