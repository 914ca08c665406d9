package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// events reads the data of server-sent events.
type events struct {
	reader *bufio.Reader
	data   []byte
}

func newEvents(body io.Reader) *events { return &events{reader: bufio.NewReaderSize(body, 64<<10)} }

// next returns the data of the next event that has any. It is valid until the
// next call. The end of the stream is io.ErrUnexpectedEOF.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	for {
		line, err := e.line()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(line) == 0 && len(e.data) > 0:
			return e.data, nil
		case bytes.HasPrefix(line, []byte("data:")):
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, bytes.TrimPrefix(line[len("data:"):], []byte(" "))...)
		}
		if len(e.data) > maxAnswer {
			return nil, errors.New("it is too large")
		}
	}
}

func (e *events) line() ([]byte, error) {
	var line []byte
	for {
		part, err := e.reader.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxAnswer {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}
