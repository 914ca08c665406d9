package wire

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/protobuf"
)

// protoRequest is a message that asks for an operation. What is wrong with it is
// kept, since the protocol has its own way to say so.
type protoRequest[T any, P request[T]] struct {
	message P
	err     error
}

// get returns the message. One without bytes is never decoded.
func (r *protoRequest[T, P]) get() proto.Message {
	if r.message == nil {
		r.message = new(T)
	}
	return r.message
}

// received is a protoRequest of any type.
type received interface {
	decode(read func(proto.Message) error)
}

func (r *protoRequest[T, P]) decode(read func(proto.Message) error) {
	r.message = new(T)
	r.err = read(r.message)
}

// protoReply is a message that answers.
type protoReply struct{ message proto.Message }

func replied(v any) (proto.Message, error) {
	switch v := v.(type) {
	case *protoReply:
		return v.message, nil
	case proto.Message:
		return v, nil
	}
	return nil, fmt.Errorf("encode message: unexpected type %T", v)
}

// binaryCodec is protobuf's binary form.
type binaryCodec struct{ depth int }

var _ connect.Codec = (*binaryCodec)(nil)

// Name returns the name that content types have for it.
func (c *binaryCodec) Name() string { return "proto" }

// Marshal encodes a message.
func (c *binaryCodec) Marshal(v any) ([]byte, error) { return c.MarshalAppend(nil, v) }

// MarshalAppend appends an encoded message.
func (c *binaryCodec) MarshalAppend(dst []byte, v any) ([]byte, error) {
	m, err := replied(v)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal decodes a message within bounds.
func (c *binaryCodec) Unmarshal(data []byte, v any) error {
	r, ok := v.(received)
	if !ok {
		return fmt.Errorf("decode message: unexpected type %T", v)
	}
	r.decode(func(m proto.Message) error {
		return protobuf.Unmarshal(data, m, protobuf.Bounds{Depth: c.depth, Objects: maxElements})
	})
	return nil
}

// textCodec is protobuf's JSON form, which clients of the Connect protocol may
// speak.
type textCodec struct {
	name  string
	depth int
}

var _ connect.Codec = (*textCodec)(nil)

// Name returns the name that content types have for it.
func (c *textCodec) Name() string { return c.name }

// Marshal encodes a message.
func (c *textCodec) Marshal(v any) ([]byte, error) {
	m, err := replied(v)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

// Unmarshal decodes a message within bounds.
func (c *textCodec) Unmarshal(data []byte, v any) error {
	r, ok := v.(received)
	if !ok {
		return fmt.Errorf("decode message: unexpected type %T", v)
	}
	r.decode(func(m proto.Message) error {
		if err := checkShape(data, c.depth, protocolLevels); err != nil {
			return err
		}
		if err := protobuf.CheckValues(data); err != nil {
			return err
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
			return &a2a.Error{Code: a2a.CodeParse, Message: "Invalid JSON payload: it is not a message of this operation", Err: err}
		}
		return nil
	})
	return nil
}
