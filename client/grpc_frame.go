package client

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"handoff.example/handoff/internal/sse"
)

const frameHead = 5 // bytes before a message of gRPC: a flag and its length

// errBadFrame is what every error about the form of gRPC's frames is.
var errBadFrame = errors.New("the answer is not well-formed gRPC")

// grpcReader reads the messages of an answer over gRPC, each of which is an event
// of a stream. Events have no ids.
type grpcReader struct {
	src  *bufio.Reader
	resp *http.Response // its trailers tell how the call ended
	max  int            // bytes of one message, after decompression

	head    [frameHead]byte
	message bytes.Buffer
	plain   bytes.Buffer // a message that was compressed
	zip     *gzip.Reader
	ahead   bool // the message was read already
}

var _ frameReader = (*grpcReader)(nil)

const (
	firstRead  = 2 << 10 // bytes asked of the connection at once
	keepBuffer = 1 << 20 // larger buffers are given back after their message
)

func newGRPCReader(src io.Reader, resp *http.Response, limit int) *grpcReader {
	return &grpcReader{src: bufio.NewReaderSize(src, firstRead), resp: resp, max: limit}
}

func (r *grpcReader) LastEventID() string  { return "" }
func (r *grpcReader) Retry() time.Duration { return 0 }
func (r *grpcReader) Limit() int           { return r.max }

// peek reads the next message, which next returns then.
func (r *grpcReader) peek() error {
	_, err := r.Next()
	r.ahead = err == nil
	return err
}

// next returns the next message. At the end of an answer that says so it returns
// io.EOF, and for one that is an error a *grpcStatus.
func (r *grpcReader) Next() (sse.Event, error) {
	if r.ahead {
		r.ahead = false
		return sse.Event{Data: r.current()}, nil
	}
	reuse(&r.message)
	reuse(&r.plain)
	switch _, err := io.ReadFull(r.src, r.head[:]); {
	case err == io.EOF:
		return sse.Event{}, statusOf(r.resp)
	case err != nil:
		return sse.Event{}, err
	}
	length := binary.BigEndian.Uint32(r.head[1:])
	if uint64(length) > uint64(r.max) {
		return sse.Event{}, sse.ErrTooLarge
	}
	// What the length promises is not believed before it has come.
	if n, err := r.message.ReadFrom(io.LimitReader(r.src, int64(length))); err != nil {
		return sse.Event{}, err
	} else if n < int64(length) {
		return sse.Event{}, io.ErrUnexpectedEOF
	}
	switch r.head[0] {
	case 0:
	case 1:
		if err := r.decompress(); err != nil {
			return sse.Event{}, err
		}
	default:
		return sse.Event{}, fmt.Errorf("%w: a message has the flags %#x", errBadFrame, r.head[0])
	}
	return sse.Event{Data: r.current()}, nil
}

func (r *grpcReader) current() []byte {
	if r.plain.Len() > 0 {
		return r.plain.Bytes()
	}
	return r.message.Bytes()
}

// decompress replaces the message by what it holds.
func (r *grpcReader) decompress() error {
	if coding := r.resp.Header.Get("Grpc-Encoding"); coding != "gzip" {
		return fmt.Errorf("%w: a message has the coding %q", errBadFrame, summary([]byte(coding)))
	}
	var err error
	if r.zip == nil {
		r.zip, err = gzip.NewReader(&r.message)
	} else {
		err = r.zip.Reset(&r.message)
	}
	if err == nil {
		_, err = r.plain.ReadFrom(io.LimitReader(r.zip, int64(r.max)+1))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: decompress message: %w", errBadFrame, err)
	case r.plain.Len() > r.max:
		return sse.ErrTooLarge
	}
	r.message.Reset()
	return nil
}

// reuse empties a buffer, and gives back a large one.
func reuse(b *bytes.Buffer) {
	if b.Cap() > keepBuffer {
		*b = bytes.Buffer{}
	}
	b.Reset()
}
