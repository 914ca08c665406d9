package client

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// envelope is the outermost object of an answer: a JSON-RPC response, or an
// error of HTTP+JSON. Its values share memory with the answer; a nil value is a
// member that is not there.
type envelope struct {
	isJSONRPC bool // has the member jsonrpc
	empty     bool // has no member at all
	id        jsontext.Value
	result    jsontext.Value
	err       jsontext.Value
}

// envelopeParser is a decoder with the buffer that it reads from.
type envelopeParser struct {
	dec jsontext.Decoder
	buf bytes.Buffer
}

var envelopeParsers = sync.Pool{New: func() any { return new(envelopeParser) }}

// parseEnvelope finds the members of the envelope. What they hold is checked
// when it is decoded.
func parseEnvelope(data []byte) (envelope, error) {
	p := envelopeParsers.Get().(*envelopeParser)
	defer p.release()
	p.reset(data)
	return p.parse(data)
}

func (p *envelopeParser) reset(data []byte) {
	p.buf = *bytes.NewBuffer(data)
	p.dec.Reset(&p.buf, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func (p *envelopeParser) release() {
	p.reset(nil)
	envelopeParsers.Put(p)
}

func (p *envelopeParser) parse(data []byte) (envelope, error) {
	env := envelope{empty: true}
	if p.dec.PeekKind() != '{' {
		return env, errors.New("the answer is not a JSON object")
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return env, err
	}
	for p.dec.PeekKind() == '"' {
		env.empty = false
		name, err := p.dec.ReadValue()
		if err != nil {
			return env, err
		}
		member := env.member(name)
		value, err := p.dec.ReadValue()
		if err != nil {
			return env, err
		}
		if member == nil {
			continue
		}
		if *member != nil {
			return env, errors.New("the answer has a member twice")
		}
		end := int(p.dec.InputOffset())
		*member = data[end-len(value) : end]
	}
	if _, err := p.dec.ReadToken(); err != nil { // the closing brace
		return env, err
	}
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return env, errors.New("something follows the JSON object of the answer")
	}
	return env, nil
}

// member returns where the value of that member goes, or nil.
func (e *envelope) member(quoted []byte) *jsontext.Value {
	switch string(quoted) {
	case `"jsonrpc"`:
		e.isJSONRPC = true
	case `"id"`:
		return &e.id
	case `"result"`:
		return &e.result
	case `"error"`:
		return &e.err
	}
	return nil
}
