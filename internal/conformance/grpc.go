package conformance

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // the types of details
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"handoff.example/handoff/a2a"
)

const mediaGRPC = "application/grpc"

// grpcService is the description of the service (A2A §10.3).
var grpcService = pb.File_a2av1_proto.Services().ByName("A2AService")

// grpcStatuses are the names of the codes of gRPC, by their numbers.
var grpcStatuses = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// grpcBinding is the gRPC binding (A2A §10), over plain HTTP/2 requests.
type grpcBinding struct {
	*link
	base   *url.URL // scheme and host
	tenant string
}

// grpcAddress reads the URL of a gRPC interface, which may be host:port.
// Without a scheme it is secured as the card was.
func grpcAddress(text string, card *url.URL) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return nil, fmt.Errorf("the address %q is neither a URL nor host:port", shorten(text, 100))
		}
		host, _, _ := net.SplitHostPort(text)
		scheme := "https"
		if card != nil && card.Scheme == "http" || card == nil && isPrivate(host) {
			scheme = "http"
		}
		return &url.URL{Scheme: scheme, Host: text}, nil
	}
	u, err := webAddress(text)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// grpcTransport returns a client that speaks HTTP/2 only, in the clear or not.
func (r *run) grpcTransport(way route, secure bool) *http.Client {
	protocols := new(http.Protocols)
	if secure {
		protocols.SetHTTP2(true)
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	t := &http.Transport{Protocols: protocols, MaxResponseHeaderBytes: 64 << 10}
	if r.opts.TLS != nil {
		t.TLSClientConfig = r.opts.TLS.Clone()
	}
	if way.guard != nil {
		t.DialContext = way.guard.DialNamed
	}
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (b *grpcBinding) do(ctx context.Context, c *call) *answer {
	a := &answer{op: c.op, sent: c.op + " " + shorten(string(encode(c.params)), maxQuote)}
	method := grpcService.Methods().ByName(protoreflect.Name(c.op))
	var message []byte
	if method != nil {
		in := newMessage(method.Input())
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encode(withTenant(c.params, b.tenant)), in); err != nil {
			a.err = fmt.Errorf("build message: %w", err)
			return a
		}
		var err error
		if message, err = proto.Marshal(in); err != nil {
			a.err = fmt.Errorf("build message: %w", err)
			return a
		}
	}
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	at := *b.base
	at.Path = "/" + string(grpcService.FullName()) + "/" + c.op
	resp, end := b.begin(ctx, c, &exchange{
		method: http.MethodPost, url: &at, body: append(frame, message...),
		header: http.Header{"Content-Type": {mediaGRPC}, "Te": {"trailers"}},
	}, a)
	defer end()
	if resp == nil {
		return a
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), mediaGRPC) {
		a.read(resp.Body)
		a.malformed = fmt.Sprintf("it is HTTP %d %q and no answer of gRPC", resp.StatusCode, shorten(resp.Header.Get("Content-Type"), 60))
		return a
	}
	b.readMessages(a, resp, method, c)
	if a.err == nil {
		a.status = 0 // it says nothing with gRPC
	}
	return a
}

func newMessage(of protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		return new(pb.Task) // the types of the service are linked in
	}
	return t.New().Interface()
}

// readMessages reads the messages and the status behind them.
func (b *grpcBinding) readMessages(a *answer, resp *http.Response, method protoreflect.MethodDescriptor, c *call) {
	limited := &io.LimitedReader{R: resp.Body, N: maxStream}
	streaming := method != nil && method.IsStreamingServer()
	for {
		data, err := readFrame(limited)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			a.err = fmt.Errorf("read answer: %w", err)
			return
		}
		v, err := decodeMessage(data, method)
		if err != nil {
			a.malformed = err.Error()
			return
		}
		if !streaming {
			a.result = v
			continue
		}
		a.events = append(a.events, v)
		a.streamed = true
		if c.each != nil && !c.each(v) {
			return
		}
		if len(a.events) > maxEvents {
			a.err = errStreamTooLarge
			return
		}
	}
	a.closed = true
	b.readStatus(a, resp)
	if a.fault == nil && streaming {
		a.streamed = true
	}
}

var errFrame = errors.New("the frames are not those of gRPC")

// readFrame reads one message with its length before it.
func readFrame(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errFrame
		}
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, errors.New("a message is compressed, which was not asked for")
	case n > maxAnswer:
		return nil, fmt.Errorf("a message has more than %d bytes", maxAnswer)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, errFrame
	}
	return data, nil
}

// decodeMessage returns a message of the service as JSON.
func decodeMessage(data []byte, method protoreflect.MethodDescriptor) (any, error) {
	if method == nil {
		return object{}, nil
	}
	out := newMessage(method.Output())
	if err := proto.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("it is not a message %s", method.Output().FullName())
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("the message has no JSON: %w", err)
	}
	return parse(text)
}

// readStatus reads the status of a call (A2A §10.6). Without messages it may
// stand in the header.
func (b *grpcBinding) readStatus(a *answer, resp *http.Response) {
	get := func(name string) string {
		if v := resp.Trailer.Get(name); v != "" {
			return v
		}
		return resp.Header.Get(name)
	}
	code, err := strconv.Atoi(get("Grpc-Status"))
	if err != nil || code < 0 {
		a.malformed = "it has no grpc-status"
		return
	}
	if code == 0 {
		return
	}
	message, err := url.PathUnescape(get("Grpc-Message"))
	if err != nil {
		message = get("Grpc-Message")
	}
	a.fault = &fault{code: code, message: message}
	if code < len(grpcStatuses) {
		a.fault.status = grpcStatuses[code]
	}
	if encoded := get("Grpc-Status-Details-Bin"); encoded != "" {
		a.fault.readStatusDetails(encoded)
	}
}

func (f *fault) readStatusDetails(encoded string) {
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	status := new(rpcstatus.Status)
	if err != nil || proto.Unmarshal(data, status) != nil {
		f.hasDetails, f.badDetails = true, "grpc-status-details-bin is not a google.rpc.Status"
		return
	}
	details := []any{}
	for _, d := range status.GetDetails() {
		text, err := protojson.Marshal(d)
		if err != nil {
			details = append(details, object{"@type": d.GetTypeUrl()}) // of a type that is not known here
			continue
		}
		if v, err := parse(text); err == nil {
			details = append(details, v)
		}
	}
	f.readDetails(details)
}

// wrong compares with A2A §5.4 and §10.6.
func (b *grpcBinding) wrong(a *answer, want a2a.Code) (must, should []string) {
	f := a.fault
	name := want.Status()
	if want == a2a.CodeMethodNotFound {
		name = "UNIMPLEMENTED"
	}
	if f.status != name {
		must = append(must, fmt.Sprintf("%s and not %s", f.status, name))
	}
	if f.message == "" {
		must = append(must, "no message")
	}
	if reason := infoOf(want); reason != "" {
		must = append(must, wrongInfo(f, reason)...)
	} else {
		must = append(must, otherError(f, want)...)
	}
	return must, should
}
