package card

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

// Bounds of a card that is signed or verified.
const (
	MaxSize  = 1 << 20 // bytes
	maxDepth = 100     // arrays and objects in each other
)

// CanonicalJSON returns the bytes of a card's JSON that a signature is made
// over: without its signatures and without the fields that have their default
// value and no presence (A2A §8.4.1), in the form of RFC 8785. Fields that the
// protocol does not know are a part of it. JSON that names a key twice, has an
// unpaired surrogate or a number beyond the range of a double is refused.
func CanonicalJSON(card []byte) ([]byte, error) {
	root, err := parseCard(card)
	if err != nil {
		return nil, err
	}
	return root.whole(cardMessage).canonical()
}

// node is a value of JSON.
type node struct {
	kind     jsontext.Kind
	raw      jsontext.Value // of a value that is neither an object nor an array
	members  []nodeMember   // of an object, in their order
	elements []*node        // of an array
}

type nodeMember struct {
	name  string
	value *node
}

// parseCard reads a card's JSON strictly.
func parseCard(data []byte) (*node, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("the card has more than %d bytes", MaxSize)
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(data))
	root, err := readNode(decoder)
	if err != nil {
		return nil, fmt.Errorf("read card: %w", err)
	}
	if root.kind != '{' {
		return nil, errors.New("the card is no JSON object")
	}
	if _, err := decoder.ReadToken(); err != io.EOF {
		return nil, errors.New("read card: something follows the JSON object")
	}
	return root, nil
}

func readNode(d *jsontext.Decoder) (*node, error) {
	n := &node{kind: d.PeekKind()}
	if n.kind != '{' && n.kind != '[' {
		value, err := d.ReadValue()
		n.raw = value.Clone()
		return n, err
	}
	if d.StackDepth() >= maxDepth {
		return nil, fmt.Errorf("values nest more than %d deep", maxDepth)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for {
		switch d.PeekKind() {
		case '}', ']':
			_, err := d.ReadToken()
			return n, err
		}
		var name string
		if n.kind == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name = token.String()
		}
		value, err := readNode(d)
		if err != nil {
			return nil, err
		}
		if n.kind == '{' {
			n.members = append(n.members, nodeMember{name, value})
		} else {
			n.elements = append(n.elements, value)
		}
	}
}

// member returns the value of a key, or nil.
func (n *node) member(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// text returns the value of a string, or false for any other value.
func (n *node) text() (string, bool) {
	if n == nil || n.kind != '"' {
		return "", false
	}
	text, err := jsontext.AppendUnquote(nil, n.raw)
	return string(text), err == nil
}

// isDefault reports whether a value is what a field without presence has when
// nobody set it.
func (n *node) isDefault() bool {
	switch n.kind {
	case '{', '[':
		return len(n.members) == 0 && len(n.elements) == 0
	case '"':
		return string(n.raw) == `""`
	default:
		return n.kind == 'n' || n.kind == 'f'
	}
}

// whole returns a message as the specification has it signed.
func (n *node) whole(m message) *node {
	if n.kind != '{' {
		return n
	}
	result := &node{kind: '{'}
	for _, member := range n.members {
		f, known := m[member.name]
		switch {
		case !known:
		case member.value.kind == 'n', f.presence == implicit && member.value.isDefault():
			continue // null is a field that is not set
		case isSignatures(m, member.name):
			continue
		default:
			member.value = member.value.within(f, (*node).whole)
		}
		result.members = append(result.members, member)
	}
	return result
}

// isSignatures reports whether a field holds the signatures of the card.
func isSignatures(m message, name string) bool {
	return name == "signatures" && m[name].message != nil
}

// within applies a change to the messages of a field.
func (n *node) within(f field, change func(*node, message) *node) *node {
	switch {
	case f.message == nil:
	case f.kind == nested:
		return change(n, f.message)
	case f.kind == list && n.kind == '[':
		result := &node{kind: '['}
		for _, e := range n.elements {
			result.elements = append(result.elements, change(e, f.message))
		}
		return result
	case f.kind == mapping && n.kind == '{':
		result := &node{kind: '{'}
		for _, m := range n.members {
			result.members = append(result.members, nodeMember{m.name, change(m.value, f.message)})
		}
		return result
	}
	return n
}

// reduced returns the card as the official SDKs sign and verify it: of what
// whole returns, the fields of A2A 1.0 alone, and nothing that is empty.
func (n *node) reduced(m message) *node {
	if result := n.known(m).filled(); result != nil {
		return result
	}
	return &node{kind: '{'}
}

// known returns a message without the fields that the protocol does not know.
func (n *node) known(m message) *node {
	if n.kind != '{' {
		return n
	}
	result := &node{kind: '{'}
	for _, member := range n.members {
		if f, ok := m[member.name]; ok {
			member.value = member.value.within(f, (*node).known)
			result.members = append(result.members, member)
		}
	}
	return result
}

// filled returns a value without all that is empty, or nil when it is empty.
func (n *node) filled() *node {
	switch n.kind {
	case '{':
		result := &node{kind: '{'}
		for _, m := range n.members {
			if value := m.value.filled(); value != nil {
				result.members = append(result.members, nodeMember{m.name, value})
			}
		}
		n = result
	case '[':
		result := &node{kind: '['}
		for _, e := range n.elements {
			if value := e.filled(); value != nil {
				result.elements = append(result.elements, value)
			}
		}
		n = result
	}
	if n.kind != 'f' && n.isDefault() {
		return nil
	}
	return n
}

// missing returns the paths of the required fields that are not there or have
// nothing in them.
func (n *node) missing(m message, path string) []string {
	var paths []string
	for name, f := range m {
		value := n.member(name)
		at := child(path, name)
		switch {
		case value == nil || value.kind != 'f' && value.isDefault():
			if f.presence == required {
				paths = append(paths, at)
			}
		case f.message == nil || isSignatures(m, name):
		case f.kind == nested:
			paths = append(paths, value.missing(f.message, at)...)
		case f.kind == list:
			for i, e := range value.elements {
				paths = append(paths, e.missing(f.message, at+"["+strconv.Itoa(i)+"]")...)
			}
		case f.kind == mapping:
			for _, e := range value.members {
				paths = append(paths, e.value.missing(f.message, child(at, shorten(e.name)))...)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// maxPaths bounds the paths that are told.
const maxPaths = 20

// absent returns the paths of what is in one value and not in the other, which
// has nothing that the first has not.
func (n *node) absent(other *node, path string, paths []string) []string {
	if other == nil || n.kind != other.kind || len(n.elements) != len(other.elements) {
		if len(paths) < maxPaths {
			paths = append(paths, path)
		}
		return paths
	}
	for _, m := range n.members {
		paths = m.value.absent(other.member(m.name), child(path, shorten(m.name)), paths)
	}
	for i, e := range n.elements {
		paths = e.absent(other.elements[i], path+"["+strconv.Itoa(i)+"]", paths)
	}
	return paths
}

// inexact returns the path and text of the first number that changes when it is
// read as a double, which is all that RFC 8785 signs of it.
func (n *node) inexact(path string) (where, number string) {
	if n.kind == '0' && !isExact(string(n.raw)) {
		return path, shorten(string(n.raw))
	}
	for _, m := range n.members {
		if where, number = m.value.inexact(child(path, shorten(m.name))); number != "" {
			return where, number
		}
	}
	for i, e := range n.elements {
		if where, number = e.inexact(path + "[" + strconv.Itoa(i) + "]"); number != "" {
			return where, number
		}
	}
	return "", ""
}

func isExact(number string) bool {
	double, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	canonical, err := jcs.NumberToJSON(double)
	if err != nil {
		return false
	}
	digits, exponent, ok := decimal(number)
	sameDigits, sameExponent, also := decimal(canonical)
	return ok && also && digits == sameDigits && exponent.Cmp(sameExponent) == 0
}

// decimal returns the significant digits of a number of JSON, with its sign,
// and the power of ten of the last of them.
func decimal(number string) (digits string, exponent *big.Int, ok bool) {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	exponent = new(big.Int)
	if len(power) > 20 {
		return "", nil, false
	}
	if power != "" {
		if _, ok := exponent.SetString(strings.TrimPrefix(power, "+"), 10); !ok {
			return "", nil, false
		}
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	all := strings.TrimLeft(whole+fraction, "0")
	digits = strings.TrimRight(all, "0")
	if digits == "" {
		return "", new(big.Int), true // zero has no sign in RFC 8785
	}
	exponent.Add(exponent, big.NewInt(int64(len(all)-len(digits))))
	if negative {
		digits = "-" + digits
	}
	return digits, exponent, true
}

// canonical returns the value in the form of RFC 8785.
func (n *node) canonical() ([]byte, error) {
	canonical, err := jcs.Transform(n.appendJSON(nil))
	if err != nil {
		return nil, fmt.Errorf("canonicalize card: %w", err)
	}
	return canonical, nil
}

func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case '{':
		dst = append(dst, '{')
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, _ = jsontext.AppendQuote(dst, m.name) // it was read as valid UTF-8
			dst = append(dst, ':')
			dst = m.value.appendJSON(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i, e := range n.elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = e.appendJSON(dst)
		}
		return append(dst, ']')
	default:
		return append(dst, n.raw...)
	}
}
