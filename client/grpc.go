package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/protobuf"
	"handoff.example/handoff/internal/sse"
)

const (
	mediaGRPC = "application/grpc"

	serviceGRPC = "/lf.a2a.v1.A2AService/"
)

// grpcBounds are what an answer may hold.
var grpcBounds = protobuf.Bounds{Depth: a2a.MaxDepth, Objects: a2a.MaxElements}

// grpcBinding is the gRPC binding (A2A §10).
type grpcBinding struct {
	*link
	base   *url.URL
	tenant string
	old    bool // speaks version 0.3
}

var _ binding = (*grpcBinding)(nil)

func newGRPC(l *link, base *url.URL, tenant string, old bool) *grpcBinding {
	l.http.Transport = l.opts.http2.transport()
	return &grpcBinding{link: l, base: base, tenant: tenant, old: old}
}

// message returns the method of a request and its message.
func (b *grpcBinding) message(r *request) (method string, m proto.Message, err error) {
	if b.old {
		return oldMessage(r)
	}
	setTenant(r.params, b.tenant)
	m, err = protobuf.Encode(r.params)
	return serviceGRPC + r.op, m, err
}

func (b *grpcBinding) newCall(ctx context.Context, r *request) (*call, error) {
	method, m, err := b.message(r)
	if err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, frameHead, 512), m)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	binary.BigEndian.PutUint32(body[1:frameHead], uint32(len(body)-frameHead))
	target := *b.base
	target.Path, target.RawPath = strings.TrimRight(target.Path, "/")+method, ""
	header := http.Header{
		"Te":                   {"trailers"},
		"Grpc-Accept-Encoding": {"gzip"},
		"Accept-Encoding":      {"identity"}, // messages are compressed, not the body
	}
	if b.old && len(b.opts.Extensions) > 0 {
		header[keyOldExtensions] = []string{a2a.FormatExtensions(b.opts.Extensions)}
	}
	if deadline, ok := ctx.Deadline(); ok {
		header["Grpc-Timeout"] = []string{grpcTimeout(time.Until(deadline))}
	}
	return &call{op: r.op, method: http.MethodPost, url: &target, body: body, mediaType: mediaGRPC, header: header}, nil
}

// grpcTimeout returns a time in the form of gRPC, which has eight digits.
func grpcTimeout(d time.Duration) string {
	const most = 99_999_999
	if ms := max(d.Milliseconds(), 1); ms <= most {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(int64(d/time.Second), most), 10) + "S"
}

func (b *grpcBinding) unary(ctx context.Context, r *request, out a2a.Decodable) error {
	c, err := b.newCall(ctx, r)
	if err != nil {
		return err
	}
	err = b.exchange(ctx, c, r, out)
	if b.renewed(ctx, c, err) {
		err = b.exchange(ctx, c, r, out)
	}
	return err
}

// exchange sends the request and reads its one answer.
func (b *grpcBinding) exchange(ctx context.Context, c *call, r *request, out a2a.Decodable) error {
	resp, err := b.open(ctx, c)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reader := newGRPCReader(resp.Body, resp, b.opts.MaxResponse)
	frame, err := reader.Next()
	if err != nil {
		return b.failed(ctx, c, r, resp, b.opts.MaxResponse, err)
	}
	if out != nil {
		if err := b.decode(frame.Data, r, out); err != nil {
			return b.badAnswer(c, resp, &DecodeError{fmt.Errorf("decode answer: %w", err)})
		}
	}
	switch _, err := reader.Next(); {
	case err == nil:
		return b.badAnswer(c, resp, errors.New("the answer has more than one message"))
	case err != io.EOF:
		return b.failed(ctx, c, r, resp, b.opts.MaxResponse, err)
	}
	return nil
}

// open sends the request and returns the answer, which is one of gRPC.
func (b *grpcBinding) open(ctx context.Context, c *call) (*http.Response, error) {
	resp, err := b.do(ctx, c)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, b.statusError(ctx, c, resp)
	}
	if kind := answerType(resp); kind != mediaGRPC && kind != mediaGRPC+"+proto" {
		body, err := b.readBody(ctx, c, resp, maxErrorBody)
		if err != nil && !errors.Is(err, ErrTooLarge) {
			return nil, err
		}
		return nil, b.badAnswer(c, resp, describe(resp, body, errors.New("it is not gRPC")))
	}
	return resp, nil
}

// failed returns the error of an answer that could not be read to its end, or
// that is an error.
func (b *grpcBinding) failed(ctx context.Context, c *call, r *request, resp *http.Response, limit int, err error) error {
	if status, ok := errors.AsType[*grpcStatus](err); ok {
		if status.code == grpcDeadlineExceeded {
			return b.fail(c, KindTimeout, true, errors.New("the deadline of the call has passed"))
		}
		c.refused = status.code == grpcUnauthenticated
		e := status.protocolError(r.op, b.old)
		if e.RetryAfter == 0 {
			e.RetryAfter = retryAfter(resp.Header, time.Now())
		}
		return e
	}
	switch {
	case err == io.EOF:
		return b.badAnswer(c, resp, errors.New("the answer has no message"))
	case errors.Is(err, sse.ErrTooLarge):
		return b.badAnswer(c, resp, fmt.Errorf("%w (%d bytes)", ErrTooLarge, limit))
	case errors.Is(err, errBadFrame) || corrupt(err):
		return b.badAnswer(c, resp, err)
	}
	kind, cause := classify(ctx, err)
	return b.fail(c, kind, true, fmt.Errorf("read answer: %w", cause))
}

// renewed reports whether the agent refused the credentials, by a status of gRPC,
// and there are new ones now. A status of HTTP was seen to before.
func (b *grpcBinding) renewed(ctx context.Context, c *call, err error) bool {
	refresher, ok := b.credentials.(Refresher)
	if !ok || !c.refused {
		return false
	}
	c.refused = false
	if e, ok := errors.AsType[*ChallengeError](err); ok {
		return refresher.Refresh(ctx, e.Challenges) == nil
	}
	return refresher.Refresh(ctx, nil) == nil
}

// decode reads a message. Its errors are never an *a2a.Error.
func (b *grpcBinding) decode(data []byte, r *request, out a2a.Decodable) error {
	if b.old {
		return decodeOldMessage(data, r, out)
	}
	var m proto.Message
	switch out.(type) {
	case *a2a.Task:
		m = new(pb.Task)
	case *a2a.SendMessageResponse:
		m = new(pb.SendMessageResponse)
	case *a2a.StreamResponse:
		m = new(pb.StreamResponse)
	case *a2a.ListTasksResponse:
		m = new(pb.ListTasksResponse)
	case *a2a.TaskPushNotificationConfig:
		m = new(pb.TaskPushNotificationConfig)
	case *a2a.ListTaskPushNotificationConfigsResponse:
		m = new(pb.ListTaskPushNotificationConfigsResponse)
	case *a2a.AgentCard:
		return decodeCardMessage(data, new(pb.AgentCard), r)
	default:
		return fmt.Errorf("there is no message for %T", out)
	}
	err := protobuf.Unmarshal(data, m, grpcBounds)
	if err == nil {
		err = protobuf.Decode(m, out, a2a.MaxDepth)
	}
	if err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// decodeCardMessage reads a card as its JSON, which it is verified and read from
// like every other.
func decodeCardMessage(data []byte, m proto.Message, r *request) error {
	if err := protobuf.Unmarshal(data, m, grpcBounds); err != nil {
		return errors.New(err.Error())
	}
	text, err := protobuf.JSON(m)
	if err == nil && r.result != nil {
		*r.result = text
	}
	return err
}

func (b *grpcBinding) stream(ctx context.Context, r *request) (*Stream, error) {
	c, err := b.newCall(ctx, r)
	if err != nil {
		return nil, err
	}
	s, err := b.openStream(ctx, c, r)
	if b.renewed(ctx, c, err) {
		s, err = b.openStream(ctx, c, r)
	}
	return s, err
}

// openStream sends the request and waits for the first event, so that what the
// agent refuses is the error of the call, as over the other bindings.
func (b *grpcBinding) openStream(ctx context.Context, c *call, r *request) (*Stream, error) {
	source := newEventSource(ctx, b.opts.IdleTimeout)
	s, err := b.receive(c, r, source)
	if err != nil {
		source.close()
		return nil, err
	}
	return s, nil
}

func (b *grpcBinding) receive(c *call, r *request, source *eventSource) (*Stream, error) {
	resp, err := b.open(source.ctx, c)
	if err != nil {
		return nil, err
	}
	source.body = resp.Body
	reader := newGRPCReader(source, resp, b.opts.MaxFrame)
	if err := reader.peek(); err != nil && err != io.EOF {
		return nil, b.failed(source.ctx, c, r, resp, b.opts.MaxFrame, err)
	}
	source.reader = reader
	if b.opts.defaultIdle && b.opts.http2.pings {
		source.idle.disable()
	}
	return &Stream{
		source: source,
		decode: func(frame []byte, _ *a2a.Memory, out *a2a.StreamResponse) error { return b.decode(frame, r, out) },
		fail:   func(kind Kind, err error) *TransportError { return b.fail(c, kind, true, err) },
		refused: func(err error) *a2a.Error {
			if status, ok := errors.AsType[*grpcStatus](err); ok {
				return status.protocolError(r.op, b.old)
			}
			return nil
		},
	}, nil
}
