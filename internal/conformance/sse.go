package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

var errStreamTooLarge = fmt.Errorf("the stream has more than %d bytes or %d events", maxStream, maxEvents)

// readEvents reads the events of a stream (A2A §9.4.2, §11.7) until it ends or
// each says so. It reports whether the agent ended it.
func readEvents(body io.Reader, each func(data []byte) bool) (closed bool, err error) {
	limited := &io.LimitedReader{R: body, N: maxStream}
	lines := bufio.NewReader(limited)
	var data bytes.Buffer
	hasData, events := false, 0
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			if limited.N <= 0 {
				return false, errStreamTooLarge
			}
			return true, nil
		case err != nil:
			return false, err
		}
		if len(line) > 0 {
			name, value, _ := bytes.Cut(line, []byte(":"))
			if string(name) != "data" {
				continue
			}
			if hasData {
				data.WriteByte('\n')
			}
			data.Write(bytes.TrimPrefix(value, []byte(" ")))
			hasData = true
			continue
		}
		if !hasData {
			continue
		}
		if events++; events > maxEvents {
			return false, errStreamTooLarge
		}
		if !each(data.Bytes()) {
			return false, nil
		}
		data.Reset()
		hasData = false
	}
}

// readLine reads a line that ends in CR, LF or both. A rest without an end is no
// line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		b, err := r.ReadByte()
		switch {
		case err != nil:
			return nil, err
		case b == '\n':
			return line, nil
		case b == '\r':
			// What follows may not be there yet, so that it is looked at only
			// where it is.
			if r.Buffered() > 0 {
				if next, err := r.Peek(1); err == nil && next[0] == '\n' {
					_, _ = r.Discard(1)
				}
			}
			return line, nil
		}
		line = append(line, b)
	}
}
