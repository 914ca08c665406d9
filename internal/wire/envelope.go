package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// envelope is a JSON-RPC 2.0 request. Its values are parts of the body.
type envelope struct {
	id     []byte // as it came; nil when there is none
	method []byte
	params []byte // an object, or nil
}

// maxRPCID bounds the id of a request, which every frame of a stream repeats.
const maxRPCID = 1 << 10

// The envelope's errors.
var (
	errBatch      = a2a.Errorf(a2a.CodeInvalidRequest, "Request payload validation error: batches are not supported; send one request at a time")
	errNotRequest = a2a.Errorf(a2a.CodeInvalidRequest, "Request payload validation error: a request is a JSON object")
	errNoVersion  = a2a.Errorf(a2a.CodeInvalidRequest, `Request payload validation error: jsonrpc has to be "2.0"`)
	errBadID      = a2a.Errorf(a2a.CodeInvalidRequest, "Request payload validation error: id has to be a string, a number or null, of at most 1024 bytes")
	errNoMethod   = a2a.Errorf(a2a.CodeInvalidRequest, "Request payload validation error: method has to be a string")
	errBadParams  = a2a.Invalid("params", "has to be an object; parameters by position are not supported")
)

// parseEnvelope reads a request. It looks no further into params than it takes
// to find their end, since their decoder does; whatever else is in the body is
// checked. What was found is returned even with an error, so that the answer
// can carry the id.
func parseEnvelope(body []byte) (envelope, error) {
	var e envelope
	s := scanner{data: body}
	s.space()
	switch s.peek() {
	case '{':
	case '[':
		if _, err := syntax(body); err != nil {
			return e, err
		}
		return e, errBatch
	default:
		if _, err := syntax(body); err != nil {
			return e, err
		}
		return e, errNotRequest
	}
	version, odd, ok := s.members(&e)
	if !ok {
		return envelope{}, syntaxOf(body)
	}
	if odd {
		if _, err := syntax(body); err != nil {
			return envelope{}, err
		}
	}
	return e, e.check(body, version)
}

// check checks what was found: JSON first, since what is not JSON has no id.
func (e *envelope) check(body, version []byte) error {
	id := e.id
	e.id = nil
	for _, value := range [...][]byte{id, e.method, version} {
		if value != nil && !jsontext.Value(value).IsValid() {
			return syntaxOf(body)
		}
	}
	if id != nil {
		if kind := jsontext.Value(id).Kind(); len(id) > maxRPCID || kind != '"' && kind != '0' && kind != 'n' {
			return errBadID
		}
		e.id = id
	}
	switch {
	case version == nil || version[0] != '"' || string(unquote(version)) != "2.0":
		return errNoVersion
	case e.method == nil || e.method[0] != '"':
		return errNoMethod
	case string(e.params) == "null":
		e.params = nil
	case e.params != nil && e.params[0] != '{':
		if !jsontext.Value(e.params).IsValid() {
			e.id = nil
			return syntaxOf(body)
		}
		return errBadParams
	}
	e.method = unquote(e.method)
	return nil
}

// unquote returns the text of a valid JSON string.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // it was checked
	return text
}

// syntaxOf returns the syntax error of a body, and a general one for a body that
// only the scanner dislikes.
func syntaxOf(body []byte) error {
	if _, err := syntax(body); err != nil {
		return err
	}
	return a2a.Errorf(a2a.CodeParse, "Invalid JSON payload")
}

// syntax checks that data is one JSON value with unique names.
func syntax(data []byte) (jsontext.Kind, error) {
	kind := jsontext.Value(data).Kind()
	if kind == '{' {
		var nothing a2a.GetExtendedAgentCardRequest
		err := a2a.Unmarshal(data, &nothing)
		if a2a.CodeOf(err) == a2a.CodeParse {
			return kind, err
		}
		return kind, nil
	}
	if !jsontext.Value(data).IsValid() {
		return kind, a2a.Errorf(a2a.CodeParse, "Invalid JSON payload")
	}
	return kind, nil
}

// scanner finds the members of an object without looking into their values.
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) take(c byte) bool {
	if s.peek() == c {
		s.pos++
		return true
	}
	return false
}

// members goes through the members of the object that begins here. It reports
// odd when a member is there twice or is none of a request's, and not ok when
// this is not an object to the end of the data.
func (s *scanner) members(e *envelope) (version []byte, odd, ok bool) {
	s.take('{')
	for first := true; ; first = false {
		s.space()
		if first && s.take('}') {
			break
		}
		name := s.text()
		s.space()
		if name == nil || !s.take(':') {
			return nil, false, false
		}
		s.space()
		value := s.value()
		if value == nil {
			return nil, false, false
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			unquoted, err := jsontext.AppendUnquote(nil, name)
			if err != nil {
				return nil, false, false
			}
			name = append(append([]byte{'"'}, unquoted...), '"')
		}
		var into *[]byte
		switch string(name) {
		case `"jsonrpc"`:
			into = &version
		case `"id"`:
			into = &e.id
		case `"method"`:
			into = &e.method
		case `"params"`:
			into = &e.params
		}
		if into == nil || *into != nil {
			odd = true
		} else {
			*into = value
		}
		s.space()
		if s.take(',') {
			continue
		}
		if s.take('}') {
			break
		}
		return nil, false, false
	}
	s.space()
	return version, odd, s.pos == len(s.data)
}

// text returns the string that begins here with its quotes, nil when none does.
func (s *scanner) text() []byte {
	if s.peek() != '"' {
		return nil
	}
	start := s.pos
	for i := start + 1; i < len(s.data); i++ {
		n := bytes.IndexByte(s.data[i:], '"')
		if n < 0 {
			return nil
		}
		i += n
		if !escaped(s.data[start:i]) {
			s.pos = i + 1
			return s.data[start:s.pos]
		}
	}
	return nil
}

// escaped reports whether what follows data is escaped by its last backslash.
func escaped(data []byte) bool {
	n := 0
	for n < len(data) && data[len(data)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// value returns the value that begins here, nil when none does. Of an object or
// an array only the brackets and the strings are looked at.
func (s *scanner) value() []byte {
	start := s.pos
	switch c := s.peek(); {
	case c == '"':
		return s.text()
	case c != '{' && c != '[':
		for s.pos < len(s.data) && !delimits(s.data[s.pos]) {
			s.pos++
		}
		if s.pos == start {
			return nil
		}
		return s.data[start:s.pos]
	}
	for depth := 0; s.pos < len(s.data); {
		switch s.data[s.pos] {
		case '"':
			if s.text() == nil {
				return nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.pos++
				return s.data[start:s.pos]
			}
		}
		s.pos++
	}
	return nil
}

// delimits reports whether a number or a literal ends before this byte.
func delimits(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ']', '}', ':', '"', '[', '{':
		return true
	}
	return false
}
