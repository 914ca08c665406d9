package record

import (
	"encoding/binary"
	"errors"

	"handoff.example/handoff/internal/store"
)

// The events of a change lie in one row, each as a byte with its kind, the
// length of its body as a varint, and the body.

const (
	kindMask = 0x0f
	saysFlag = 0x80
)

// ErrDamaged says that a row of events cannot be read.
var ErrDamaged = errors.New("row of events is damaged")

// Size returns how many bytes the events take, at most.
func Size(events []store.Event) int {
	n := 0
	for i := range events {
		n += 1 + binary.MaxVarintLen64 + len(events[i].Body)
	}
	return n
}

// Append appends the events as they lie in one row.
func Append(dst []byte, events []store.Event) []byte {
	for i := range events {
		e := &events[i]
		head := byte(e.Kind) & kindMask
		if e.Says {
			head |= saysFlag
		}
		dst = append(dst, head)
		dst = binary.AppendUvarint(dst, uint64(len(e.Body)))
		dst = append(dst, e.Body...)
	}
	return dst
}

// Parse returns the events of a row whose last one has that sequence
// number. Their bodies share the memory of frame.
func Parse(frame []byte, last int64) ([]store.Event, error) {
	n := 0
	for rest := frame; len(rest) > 0; n++ {
		_, _, after, ok := cutEvent(rest)
		if !ok {
			return nil, ErrDamaged
		}
		rest = after
	}
	events := make([]store.Event, n)
	for i := range events {
		head, body, rest, _ := cutEvent(frame)
		frame = rest
		events[i] = store.Event{
			Seq:  last - int64(n-1-i),
			Kind: store.EventKind(head & kindMask),
			Body: body,
			Says: head&saysFlag != 0,
		}
	}
	return events, nil
}

func cutEvent(frame []byte) (head byte, body, rest []byte, ok bool) {
	size, n := binary.Uvarint(frame[1:])
	if n <= 0 || size > uint64(len(frame)-1-n) {
		return 0, nil, nil, false
	}
	end := 1 + n + int(size)
	return frame[0], frame[1+n : end : end], frame[end:], true
}
