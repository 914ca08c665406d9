package protobuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Messages of version 0.3 are converted by way of their JSON, which package
// a2a/v03 reads and writes.

// FromJSON reads JSON of ours into a message, with numbers as doubles.
func FromJSON(body []byte, m proto.Message) error {
	options := protojson.UnmarshalOptions{DiscardUnknown: true}
	err := options.Unmarshal(body, m)
	if err == nil {
		return nil
	}
	if body, err = withinDoubles(body); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	proto.Reset(m)
	if err := options.Unmarshal(body, m); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return nil
}

// JSON returns the JSON of a message, without the space that protojson puts in
// and that differs from build to build. It fails for what JSON does not have: a
// number that is infinite, or a value of no kind.
func JSON(m proto.Message) (jsontext.Value, error) {
	body, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode message as JSON: %w", err)
	}
	text := jsontext.Value(body)
	if err := text.Compact(); err != nil {
		return nil, fmt.Errorf("encode message as JSON: %w", err)
	}
	return text, nil
}

// withinDoubles returns JSON whose numbers are the nearest doubles. What is
// larger than any is the largest.
func withinDoubles(body []byte) ([]byte, error) {
	var out bytes.Buffer
	d, e := jsontext.NewDecoder(bytes.NewReader(body)), jsontext.NewEncoder(&out)
	for {
		var err error
		if d.PeekKind() == '0' {
			var number jsontext.Value
			if number, err = d.ReadValue(); err == nil {
				err = e.WriteValue(appendNumber(nil, nearest(string(number))))
			}
		} else {
			var token jsontext.Token
			if token, err = d.ReadToken(); err == nil {
				err = e.WriteToken(token)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return out.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}
