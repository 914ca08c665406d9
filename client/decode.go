package client

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// decode reads an object that a peer answered. Its errors are never an
// *a2a.Error, because those are what a peer says.
//
// A task state that the client does not know is read as unspecified, which is
// neither terminal nor interrupted: a peer may speak a later 1.x.
func decode(data []byte, out a2a.Decodable) error { return decodeWith(nil, data, out) }

// decodeWith is decode with a memory.
func decodeWith(memory *a2a.Memory, data []byte, out a2a.Decodable) error {
	for range maxUnknownStates {
		err := memory.Unmarshal(data, out)
		if err == nil {
			return nil
		}
		e, ok := errors.AsType[*a2a.Error](err)
		if !ok || len(e.Violations) != 1 || !strings.HasSuffix(e.Violations[0].Field, "status.state") && e.Violations[0].Field != "state" {
			return errors.New(err.Error())
		}
		fixed, ok := forgetText(data, e.Violations[0].Field)
		if !ok {
			return errors.New(err.Error())
		}
		data = fixed
	}
	return errors.New("the answer has too many unknown task states")
}

// maxUnknownStates bounds the work on an answer that is full of them.
const maxUnknownStates = 101 // a page of tasks, and one more to succeed

// forgetText returns the JSON with null in place of the string at that path,
// such as tasks[0].status.state.
func forgetText(data []byte, path string) ([]byte, bool) {
	pointer := jsontext.Pointer("/" + strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(path))
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return nil, false
		}
		kind, length := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && length%2 == 1
		if isName && dec.StackPointer() == pointer {
			break
		}
	}
	if dec.PeekKind() != '"' {
		return nil, false
	}
	value, err := dec.ReadValue()
	if err != nil {
		return nil, false
	}
	end := int(dec.InputOffset())
	fixed := append([]byte(nil), data[:end-len(value)]...)
	fixed = append(fixed, "null"...)
	return append(fixed, data[end:]...), true
}

// describe says what is wrong with an answer: what it is instead of JSON, or
// err.
func describe(resp *http.Response, body []byte, err error) error {
	kind := answerType(resp)
	if isJSON(kind) || kind == "" && len(body) > 0 && body[0] == '{' {
		return &DecodeError{fmt.Errorf("decode answer: %w", err)}
	}
	if kind == "" {
		kind = "something without a media type"
	}
	text := fmt.Sprintf("the agent answered %s and not JSON", kind)
	if s := summary(body); s != "" {
		text += ": " + strconv.Quote(s)
	}
	return errors.New(text)
}

// holdsEvent reports whether an event is of a kind that the client knows.
func holdsEvent(e *a2a.StreamResponse) bool {
	return e.Task != nil || e.Message != nil || e.StatusUpdate != nil || e.ArtifactUpdate != nil
}
