package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// maxDepth is how deep JSON may nest at most.
const maxDepth = a2a.MaxDepth

// limitBody gives the client its time to send a body. It counts for bodies that
// nobody reads too: net/http does, before it sends the answer.
func (x *exchange) limitBody() {
	if x.r.ContentLength != 0 {
		_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(x.h.opts.BodyTimeout))
	}
}

// body reads the request's body into buf. A body that is announced to be too
// large is not read at all; net/http then closes the connection once the answer
// is out.
func (x *exchange) body(buf []byte) ([]byte, error) {
	limit := x.h.opts.BodyBytes
	if x.r.ContentLength > limit {
		return nil, x.tooLarge()
	}
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return buf, nil
	}
	want := x.r.ContentLength
	for {
		if len(buf) == cap(buf) {
			buf = grow(buf, want)
		}
		free := buf[len(buf):cap(buf)]
		if int64(len(buf))+int64(len(free)) > limit {
			free = free[:limit-int64(len(buf))+1]
		}
		n, err := x.r.Body.Read(free)
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, x.tooLarge()
		case err == io.EOF:
			// Without this, the deadline would end the request itself.
			_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
			return buf, nil
		case err != nil:
			return buf, bodyError(err)
		}
	}
}

// grow makes room for more of a body. It doubles, and does not trust an
// announced length beyond what has come.
func grow(buf []byte, want int64) []byte {
	size := 2 * cap(buf)
	const trusted = 1 << 20
	if want > 0 && want <= trusted && int(want) > cap(buf) {
		size = int(want)
	}
	return append(make([]byte, 0, max(size, 4<<10)), buf...)
}

func (x *exchange) tooLarge() error {
	return a2a.Errorf(a2a.CodeTooLarge, "The request body is larger than the limit of %d bytes", x.h.opts.BodyBytes)
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return a2a.Errorf(a2a.CodeInvalidRequest, "The request body did not arrive in time")
	}
	return &a2a.Error{Code: a2a.CodeInvalidRequest, Message: "The request body could not be read", Err: err}
}

// maxElements bounds the objects and arrays of a request outside of the free JSON
// of its parts. Each becomes an object of the protocol, which takes far more
// memory than its two bytes.
const maxElements = 20_000

// protocolLevels is how deep the parts of a message are: in a list of a message
// of a request.
const protocolLevels = 4

// checkShape refuses JSON that nests deeper than the limit, or that has too many
// objects and arrays within the first levels, shallow of them, which are those of
// the protocol's own objects. Only an input with many brackets is looked at
// closely.
func checkShape(data []byte, limit, shallow int) error {
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= limit {
		return nil
	}
	depth, elements, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return a2a.Errorf(a2a.CodeParse, "Invalid JSON payload: more than %d levels of nesting at byte %d", limit, i)
			}
			if depth <= shallow {
				if elements++; elements > maxElements {
					return a2a.Errorf(a2a.CodeInvalidParams, "Invalid parameters: more than %d objects and arrays at byte %d", maxElements, i)
				}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// isJSON reports whether a Content-Type is one of those that the protocol's
// requests come under. None at all is taken as JSON.
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	switch mediaType := bareType(contentType[0]); {
	case strings.EqualFold(mediaType, "application/json"), strings.EqualFold(mediaType, a2a.MediaType), mediaType == "":
		return len(contentType) == 1
	}
	return false
}

// bareType returns a media type without its parameters.
func bareType(value string) string {
	mediaType, _, _ := strings.Cut(value, ";")
	return strings.TrimSpace(mediaType)
}
