package wire

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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

// body reads the request's body into buf. Of a body that is too large the rest
// is dropped, within bounds.
func (x *exchange) body(buf []byte) ([]byte, error) {
	limit := x.h.opts.BodyBytes
	if x.r.ContentLength > limit {
		x.drop(0)
		return buf, x.tooLarge()
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
			x.drop(int64(len(buf)))
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

// Bounds of what is read only to be dropped.
const (
	maxDropped = 64 << 20
	lingerTime = 5 * time.Second // after an answer that closes the connection
)

// drop reads the rest of a body that is too large, of which that many bytes have
// been read: a client that is still writing does not read the answer, and the
// connection can be used again. A body of more than four times the limit is left
// to linger. A client that waits to be told to go on has not begun to write, and
// a stream of HTTP/2 is reset when the answer is out.
func (x *exchange) drop(read int64) {
	if x.r.ProtoMajor != 1 || read == 0 && x.r.Header["Expect"] != nil {
		return
	}
	limit := x.h.opts.BodyBytes
	most := limit + min(3*limit, maxDropped)
	if x.r.ContentLength <= most {
		switch _, err := io.CopyN(io.Discard, x.r.Body, most-read+1); err {
		case io.EOF:
			_ = http.NewResponseController(x.w).SetReadDeadline(time.Time{})
			return
		case nil:
		default:
			return // net/http closes the connection
		}
	}
	x.lingers = true
}

// linger goes on to drop what the client writes once the answer is out, so that
// the end of the connection does not take the answer with it. net/http leaves
// the body alone where an answer may come before its end.
func (x *exchange) linger() {
	control := http.NewResponseController(x.w)
	_ = control.SetReadDeadline(time.Now().Add(min(lingerTime, x.h.opts.BodyTimeout)))
	if control.Flush() == nil {
		_, _ = io.CopyN(io.Discard, x.r.Body, maxDropped)
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

// errLate is answered with HTTP 408 on both bindings, which no error of the
// protocol stands for.
var errLate = a2a.Errorf(a2a.CodeInvalidRequest, "The request body did not arrive in time")

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errLate
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
					return a2a.Invalid(listAt(data[:i]), "is too much: more than %d objects and arrays at byte %d", maxElements, i)
				}
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// listAt names the list or the object of the parameters in which the beginning of
// a request ends, as errors name fields; "" when that is none, or no JSON.
func listAt(data []byte) string {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	var err error
	for err == nil {
		_, err = d.ReadToken()
	}
	pointer := strings.TrimPrefix(string(d.StackPointer()), "/params")
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(pointer) > 256 {
		return ""
	}
	if kind, _ := d.StackIndex(d.StackDepth()); kind == '[' {
		pointer = pointer[:max(0, strings.LastIndexByte(pointer, '/'))] // the element
	}
	var field strings.Builder
	for _, name := range strings.Split(pointer, "/")[1:] {
		switch index, err := strconv.ParseUint(name, 10, 31); {
		case err == nil:
			field.WriteString("[" + strconv.FormatUint(index, 10) + "]")
			continue
		case field.Len() > 0:
			field.WriteByte('.')
		}
		field.WriteString(name)
	}
	return field.String()
}

// isJSON reports whether a Content-Type is one of those that the protocol's
// requests come under, in UTF-8. None at all is taken as JSON.
func isJSON(contentType []string) bool {
	if len(contentType) == 0 {
		return true
	}
	if len(contentType) > 1 {
		return false
	}
	switch contentType[0] {
	case typeJSON[0], typeA2A[0], "":
		return true
	}
	mediaType, parameters, err := mime.ParseMediaType(contentType[0])
	if err != nil || mediaType != typeJSON[0] && mediaType != typeA2A[0] {
		return false
	}
	charset, ok := parameters["charset"]
	return !ok || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")
}

// encoded refuses a body that is compressed, and reports whether it did: nothing
// here takes it apart, so that a small body cannot become a large one.
func (x *exchange) encoded() bool {
	if x.r.ContentLength == 0 {
		return false
	}
	coding := strings.Join(x.r.Header["Content-Encoding"], ", ")
	if coding == "" || strings.EqualFold(strings.TrimSpace(coding), "identity") {
		return false
	}
	// What is taken instead is said as RFC 9110 §12.5.3 has it for this status.
	x.w.Header()["Accept-Encoding"] = []string{"identity"}
	x.refuseAs(a2a.Errorf(a2a.CodeContentTypeNotSupported, "The Content-Encoding %q is not supported; send the body as it is", clip(coding, 64)), http.StatusUnsupportedMediaType)
	return true
}

// bareType returns a media type without its parameters.
func bareType(value string) string {
	mediaType, _, _ := strings.Cut(value, ";")
	return strings.TrimSpace(mediaType)
}
