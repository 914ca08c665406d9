package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A message is a header and hints:
//
//	version  1 byte
//	flags    1 byte
//	sender   8 bytes, chosen at random when the node starts
//	hints    each:
//	  length  uvarint: bytes of the id, 0 for a UUID
//	  id      those bytes, or the 16 of the UUID
//	  seq     uvarint
const (
	version    = 1
	headerSize = 2 + len(sender{})

	// flagLost says that the sender had to drop hints: whoever hears it polls.
	flagLost = 1

	maxID      = 256      // bytes of an id
	maxMessage = 64 << 10 // bytes of a message that is read
	maxHint    = 2 + maxID + binary.MaxVarintLen64
	uuidSize   = 16
	uuidLength = 36 // bytes of the usual form of a UUID
)

// sender tells the messages of one node from those of others.
type sender [8]byte

func newSender() (s sender) {
	rand.Read(s[:]) // never fails
	return s
}

// encoder writes messages into a buffer that it keeps.
type encoder struct {
	buffer   []byte
	ends     []int
	messages [][]byte
}

// encode returns messages of at most limit bytes with all hints; none when there
// is nothing to say. They are valid until the next call.
func (e *encoder) encode(from sender, hints map[string]int64, lost bool, limit int) [][]byte {
	e.buffer, e.ends, e.messages = e.buffer[:0], e.ends[:0], e.messages[:0]
	if len(hints) == 0 && !lost {
		return nil
	}
	var flags byte
	if lost {
		flags |= flagLost
	}
	start := 0
	e.header(from, flags)
	for task, seq := range hints {
		before := len(e.buffer)
		e.buffer = appendHint(e.buffer, task, seq)
		if len(e.buffer)-start > limit {
			// It begins the next message.
			e.buffer = e.buffer[:before]
			e.ends = append(e.ends, before)
			start = before
			e.header(from, 0)
			e.buffer = appendHint(e.buffer, task, seq)
		}
	}
	start = 0
	for _, end := range append(e.ends, len(e.buffer)) {
		e.messages = append(e.messages, e.buffer[start:end:end])
		start = end
	}
	return e.messages
}

func (e *encoder) header(from sender, flags byte) {
	e.buffer = append(e.buffer, version, flags)
	e.buffer = append(e.buffer, from[:]...)
}

func appendHint(b []byte, task string, seq int64) []byte {
	if id, ok := parseUUID(task); ok {
		b = append(b, 0)
		b = append(b, id[:]...)
	} else {
		b = binary.AppendUvarint(b, uint64(len(task)))
		b = append(b, task...)
	}
	return binary.AppendUvarint(b, uint64(seq))
}

// message is one that was read.
type message struct {
	from  sender
	lost  bool
	hints []Hint
}

var (
	errSize    = errors.New("message is too long or too short")
	errVersion = errors.New("message has an unknown version")
	errHint    = errors.New("message has a hint that cannot be read")
)

// decode reads a message that anybody may have written.
func decode(b []byte) (m message, err error) {
	if len(b) < headerSize || len(b) > maxMessage {
		return message{}, errSize
	}
	if b[0] != version {
		return message{}, fmt.Errorf("%w: %d", errVersion, b[0])
	}
	m.lost = b[1]&flagLost != 0
	copy(m.from[:], b[2:])
	for b = b[headerSize:]; len(b) > 0; {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > maxID {
			return message{}, errHint
		}
		b = b[n:]
		var h Hint
		size := int(length)
		if size == 0 {
			size = uuidSize
		}
		if len(b) < size {
			return message{}, errHint
		}
		if length == 0 {
			h.Task = formatUUID([uuidSize]byte(b[:size]))
		} else {
			h.Task = string(b[:size])
		}
		b = b[size:]
		seq, n := binary.Uvarint(b)
		if n <= 0 || seq > math.MaxInt64 {
			return message{}, errHint
		}
		b = b[n:]
		h.Seq = int64(seq)
		if !h.valid() {
			return message{}, errHint
		}
		m.hints = append(m.hints, h)
	}
	return m, nil
}

// valid reports whether a hint is one that can be sent.
func (h Hint) valid() bool {
	if h.Seq < 0 || h.Task == "" || len(h.Task) > maxID {
		return false
	}
	for i := range len(h.Task) {
		if c := h.Task[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(h.Task)
}

// parseUUID reads a UUID in its usual form, in lower case, so that formatUUID
// writes the same text.
func parseUUID(text string) (id [uuidSize]byte, ok bool) {
	if len(text) != uuidLength {
		return id, false
	}
	n := 0
	for i := 0; i < uuidLength; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return id, false
			}
			i++
			continue
		}
		high, ok1 := digit(text[i])
		low, ok2 := digit(text[i+1])
		if !ok1 || !ok2 {
			return id, false
		}
		id[n] = high<<4 | low
		n++
		i += 2
	}
	return id, true
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

func formatUUID(id [uuidSize]byte) string {
	var b [uuidLength]byte
	hex.Encode(b[0:], id[0:4])
	hex.Encode(b[9:], id[4:6])
	hex.Encode(b[14:], id[6:8])
	hex.Encode(b[19:], id[8:10])
	hex.Encode(b[24:], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// label returns what stands for a cluster in the name of a subject or a channel:
// the id itself where it may, so that operators recognise it.
func label(cluster string) string {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if len(cluster) <= 40 && strings.Trim(cluster, allowed) == "" && cluster != "" {
		return cluster
	}
	sum := sha256.Sum256([]byte(cluster))
	return "=" + hex.EncodeToString(sum[:16])
}
