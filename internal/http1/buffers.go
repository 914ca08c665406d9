package http1

import (
	"net"
	"sync"
)

const (
	// room is how much of an answer is kept back until it is flushed or over.
	room = 4 << 10
	// maxKept is how large a buffer may have become to be used again.
	maxKept = 64 << 10
)

// buffers are what a connection needs while it serves a request.
type buffers struct {
	head  []byte // of the request
	out   []byte // of the answer, and not sent yet
	held  []byte // of its content, and not framed yet
	names []string
	parts net.Buffers
}

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

func takeBuffers() *buffers { return bufferPool.Get().(*buffers) }

// giveBack lets other connections have the buffers.
func (b *buffers) giveBack() {
	for _, one := range []*[]byte{&b.head, &b.out, &b.held} {
		*one = (*one)[:0]
		if cap(*one) > maxKept {
			*one = nil
		}
	}
	bufferPool.Put(b)
}
