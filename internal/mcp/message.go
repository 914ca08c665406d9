package mcp

import (
	"bytes"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Span is a part of a body, half open. The zero Span is none.
type Span struct{ Start, End int }

// IsZero reports whether there is no such part.
func (s Span) IsZero() bool { return s.End == 0 }

// Message is a message of JSON-RPC that was scanned and not decoded: it knows
// where in its body what is. It must not be modified; the methods that change
// something return another message, whose other bytes are as they were.
type Message struct {
	Body   []byte
	ID     jsontext.Value // a string or an integer, as it is written; nil: a notification
	Method string         // "": a response
	Params Span           // of a request, an object
	Meta   Span           // _meta of the params, or of the result
	// Name is what Mcp-Name carries: params.name, params.uri or params.taskId, as
	// the method has it. It is a JSON string.
	Name Span
	// Args are params.arguments.
	Args   Span
	Result Span // of a response
	Err    Span // of a response
	// ResultType is that of a result, complete where it has none (BAS-13).
	ResultType string

	idAt    Span
	named   string   // what the Name says
	members []member // of params or of the result
	meta    []member // of _meta
	few     [manyMembers + manyMeta]member
}

// So many members need no memory of their own.
const (
	manyMembers = 5
	manyMeta    = 3
)

// member is a member of an object.
type member struct {
	name      string
	from, end int // of the value
}

func (m *member) value() Span { return Span{m.from, m.end} }

// Limits bound a message.
type Limits struct {
	Depth int // of nesting; 0: 100
}

const defaultDepth = 100

// Scan finds the parts of a message. What is not one message of JSON-RPC 2.0 is
// refused with an *Error, and so are names that stand twice in an object, wherever
// that is: readers differ in which one they take (SEC-08).
func Scan(body []byte, limits Limits) (*Message, error) {
	if limits.Depth == 0 {
		limits.Depth = defaultDepth
	}
	if !utf8.Valid(body) {
		return nil, Errorf(CodeParseError, "The message is not UTF-8")
	}
	if depthOf(body) > limits.Depth {
		return nil, Errorf(CodeInvalidRequest, "The message is nested deeper than %d levels", limits.Depth)
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.read(body)
	m := &Message{Body: body}
	if err := s.message(m); err != nil {
		return nil, err
	}
	return m, nil
}

// scanner holds what scans one message after another.
type scanner struct {
	source bytes.Buffer // which the decoder reads without a copy
	dec    jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

func (s *scanner) read(body []byte) {
	s.source = *bytes.NewBuffer(body)
	s.dec.Reset(&s.source)
}

func (s *scanner) release() {
	s.read(nil)
	scanners.Put(s)
}

// depthOf returns how deep arrays and objects are nested, at least for what is
// JSON.
func depthOf(body []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func malformed(err error) *Error {
	return &Error{Code: CodeParseError, Message: "The message is not JSON, or has a name twice", Err: err}
}

func (s *scanner) message(m *Message) error {
	if kind := s.dec.PeekKind(); kind != '{' {
		if kind == '[' {
			return Errorf(CodeInvalidRequest, "Batches are not accepted; send one message")
		}
		if kind == 0 {
			return malformed(nil)
		}
		return Errorf(CodeInvalidRequest, "The message is not an object")
	}
	var version string
	var few [8]member
	root, err := s.object(few[:0])
	if err != nil {
		return malformed(err)
	}
	if s.dec.PeekKind() != 0 || len(bytes.TrimLeft(m.Body[s.dec.InputOffset():], " \t\r\n")) > 0 {
		return Errorf(CodeParseError, "Something follows the message")
	}
	for i := range root {
		value := root[i].value()
		text := m.Body[value.Start:value.End]
		switch root[i].name {
		case "jsonrpc":
			version = stringOf(text)
		case "id":
			if !isID(text) {
				return Errorf(CodeInvalidRequest, "The id is neither a string nor an integer")
			}
			m.ID, m.idAt = text, value
		case "method":
			if m.Method = stringOf(text); m.Method == "" {
				return Errorf(CodeInvalidRequest, "The method is no string, or empty")
			}
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Err = value
		}
	}
	if version != "2.0" {
		return Errorf(CodeInvalidRequest, `The message has no "jsonrpc": "2.0"`)
	}
	return s.parts(m)
}

// parts finds what is in the params or the result.
func (s *scanner) parts(m *Message) error {
	of := m.Params
	switch {
	case m.Method != "" && (!m.Result.IsZero() || !m.Err.IsZero()), !m.Result.IsZero() && !m.Err.IsZero():
		return Errorf(CodeInvalidRequest, "The message is several at once")
	case m.Method == "" && m.Result.IsZero() && m.Err.IsZero():
		return Errorf(CodeInvalidRequest, "The message is neither a request nor a response")
	case m.Method == "":
		of = m.Result
	}
	if of.IsZero() {
		return nil
	}
	if m.Body[of.Start] != '{' {
		what := "params"
		if m.Method == "" {
			what = "result"
		}
		return Errorf(CodeInvalidRequest, "The %s are not an object", what)
	}
	var err error
	if m.members, err = s.within(m.Body, of, m.few[:0:manyMembers]); err != nil {
		return malformed(err)
	}
	name := nameParams[m.Method]
	m.ResultType = ResultComplete
	if m.Method != "" {
		m.ResultType = ""
	}
	for i := range m.members {
		p := &m.members[i]
		value := p.value()
		switch p.name {
		case "_meta":
			if m.Body[value.Start] != '{' {
				return Errorf(CodeInvalidParams, "_meta is not an object").with400()
			}
			m.Meta = value
		case "arguments":
			m.Args = value
		case "resultType":
			if m.Method == "" {
				m.ResultType = stringOf(m.Body[value.Start:value.End])
			}
		}
		if name != "" && p.name == name && m.Body[value.Start] == '"' {
			m.Name, m.named = value, stringOf(m.Body[value.Start:value.End])
		}
	}
	if !m.Meta.IsZero() {
		if m.meta, err = s.within(m.Body, m.Meta, m.few[manyMembers:manyMembers]); err != nil {
			return malformed(err)
		}
	}
	return nil
}

func (e *Error) with400() *Error {
	e.Status = 400
	return e
}

// within appends the members of an object that was found valid.
func (s *scanner) within(body []byte, of Span, list []member) ([]member, error) {
	s.read(body[of.Start:of.End])
	list, err := s.object(list)
	for i := range list {
		list[i].from += of.Start
		list[i].end += of.Start
	}
	return list, err
}

// object reads an object.
func (s *scanner) object(list []member) ([]member, error) {
	if _, err := s.dec.ReadToken(); err != nil {
		return nil, err
	}
	for s.dec.PeekKind() != '}' {
		name, err := s.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		p := member{name: stringOf(name)}
		value, err := s.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		p.end = int(s.dec.InputOffset())
		p.from = p.end - len(value)
		list = append(list, p)
	}
	_, err := s.dec.ReadToken()
	return list, err
}

// common are texts that messages have, by themselves.
var common = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"jsonrpc", "id", "method", "params", "result", "error", "name", "uri", "taskId", "arguments", "_meta", "resultType", "cursor",
		"content", "structuredContent", "isError", "requestState", "inputResponses", "inputRequests", "tools", "ttlMs", "cacheScope", "nextCursor",
		MetaVersion, MetaCapabilities, MetaClient, MetaLogLevel, MetaServer, MetaSubscription, MetaProgress, MetaTraceparent, MetaTracestate, MetaKey,
		"2.0", Modern, ResultComplete, ResultInputRequired, ResultTask,
		MethodCallTool, MethodListTools, MethodGetPrompt, MethodReadResource, MethodGetTask, NotifyProgress, NotifyMessage,
	} {
		names[name] = name
	}
	return names
}()

// stringOf returns a JSON string, or "" for another value. It allocates nothing for a
// common one.
func stringOf(text []byte) string {
	if len(text) < 2 || text[0] != '"' {
		return ""
	}
	if plain := text[1 : len(text)-1]; bytes.IndexByte(plain, '\\') < 0 {
		if one, ok := common[string(plain)]; ok {
			return one
		}
		return string(plain)
	}
	plain, err := jsontext.AppendUnquote(nil, text)
	if err != nil {
		return ""
	}
	return string(plain)
}

// isID reports whether a value may be an id: a string, or an integer (BAS-02).
func isID(text []byte) bool {
	if text[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(text), 10, 64)
	return err == nil
}

// IsNotification reports whether nobody waits for an answer.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message is a result or an error.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Text returns a part of the body.
func (m *Message) Text(s Span) jsontext.Value {
	if s.IsZero() {
		return nil
	}
	return m.Body[s.Start:s.End]
}

// NameValue returns what Mcp-Name carries, or "".
func (m *Message) NameValue() string { return m.named }

// Param returns a member of the params, or of the result of a response; nil: none.
func (m *Message) Param(key string) jsontext.Value { return m.find(m.members, key) }

// ParamString returns a member of the params, or of the result, that is a string.
func (m *Message) ParamString(key string) string { return stringOf(m.Param(key)) }

// MetaValue returns a member of _meta; nil: none.
func (m *Message) MetaValue(key string) jsontext.Value { return m.find(m.meta, key) }

// MetaString returns a member of _meta that is a string.
func (m *Message) MetaString(key string) string { return stringOf(m.MetaValue(key)) }

func (m *Message) find(list []member, key string) jsontext.Value {
	for i := range list {
		if list[i].name == key {
			return m.Text(list[i].value())
		}
	}
	return nil
}

// Error returns the error that a response is, or nil.
func (m *Message) Error() *Error {
	if m.Err.IsZero() {
		return nil
	}
	return ParseError(m.Text(m.Err))
}

// Capabilities returns what the client declares in _meta (MET-05).
func (m *Message) Capabilities() Capabilities {
	return ParseCapabilities(m.MetaValue(MetaCapabilities))
}

// Decode decodes the params, or the result of a response. Unknown members are
// left out.
func (m *Message) Decode(into any) error {
	of := m.Params
	if m.Method == "" {
		of = m.Result
	}
	text := m.Text(of)
	if text == nil {
		text = jsontext.Value("{}")
	}
	return json.Unmarshal(text, into)
}
