package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"handoff.example/handoff/a2a"
)

// overGRPC is the third binding. Its client is the one of google.golang.org/grpc
// with the official messages; the tests see the same JSON as of the others.
const overGRPC binding = "grpc"

// onEach runs a test over every binding.
func onEach(t *testing.T, test func(t *testing.T, b binding)) {
	t.Helper()
	t.Parallel()
	for _, b := range []binding{rpc, rest, overGRPC} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// service is the official description of the service.
var service = pb.File_a2av1_proto.Services().ByName("A2AService")

// grpcConn returns the connection of a node's gRPC client.
func (n *node) grpcConn() *grpc.ClientConn {
	n.t.Helper()
	n.dialing.Do(func() {
		quick := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}})
		conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(n.base, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), quick,
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(256<<20)))
		if err != nil {
			n.t.Fatal(err)
		}
		n.conn = conn
	})
	return n.conn
}

// message returns a message of protobuf that is built of JSON.
func (n *node) message(of protoreflect.MessageDescriptor, params any) proto.Message {
	n.t.Helper()
	body, ok := params.(json.RawMessage)
	if !ok {
		var err error
		if body, err = json.Marshal(params); err != nil {
			n.t.Fatal(err)
		}
	}
	m := newMessage(of)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, m); err != nil {
		n.t.Fatalf("%v in %s", err, body)
	}
	return m
}

func newMessage(of protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err)
	}
	return t.New().Interface()
}

// grpcRequest returns what an operation is called with: the method, its message,
// and the context with the metadata that stands for the headers of the others.
func (n *node) grpcRequest(op string, params any, edit []func(*http.Request)) (protoreflect.MethodDescriptor, proto.Message, context.Context) {
	n.t.Helper()
	method := service.Methods().ByName(protoreflect.Name(op))
	m := n.message(method.Input(), params)
	r, err := http.NewRequest(http.MethodPost, n.url+"rpc", nil)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	for _, e := range edit {
		e(r)
	}
	md := metadata.MD{}
	for name, values := range r.Header {
		md[strings.ToLower(name)] = values
	}
	field := m.ProtoReflect().Descriptor().Fields().ByName("tenant")
	tenant := m.ProtoReflect().Get(field).String()
	if _, inPath, ok := strings.Cut(r.URL.Path, "/rpc/"); ok {
		tenant = inPath
	}
	if tenant != "" {
		m.ProtoReflect().Set(field, protoreflect.ValueOfString("quote/"+tenant))
	}
	return method, m, metadata.NewOutgoingContext(n.t.Context(), md)
}

func path(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// callGRPC carries out an operation over gRPC.
func (n *node) callGRPC(op string, params any, edit []func(*http.Request)) *answer {
	n.t.Helper()
	method, m, ctx := n.grpcRequest(op, params, edit)
	if method.IsStreamingServer() {
		s, refused := n.openGRPC(op, params, edit)
		if refused != nil {
			return refused
		}
		s.close()
		return &answer{Status: http.StatusOK}
	}
	reply := newMessage(method.Output())
	var header metadata.MD
	err := n.grpcConn().Invoke(ctx, path(method), m, reply, grpc.Header(&header))
	return grpcAnswer(n.t, header, reply, err)
}

func grpcAnswer(t testing.TB, md metadata.MD, reply proto.Message, err error) *answer {
	t.Helper()
	a := &answer{Status: http.StatusOK, Header: http.Header{}}
	for name, values := range md {
		for _, v := range values {
			a.Header.Add(name, v)
		}
	}
	if err == nil {
		if a.Body, err = protojson.Marshal(reply); err != nil {
			t.Fatal(err)
		}
		a.Result = a.Body
		return a
	}
	a.grpc = status.Convert(err)
	a.Error = errorOf(a.grpc)
	a.Number = a.Error.Code.JSONRPC()
	a.Body, _ = protojson.Marshal(a.grpc.Proto())
	return a
}

// errorOf reads an error of the protocol out of a status, as clients do.
func errorOf(s *status.Status) *a2a.Error {
	e := &a2a.Error{Code: a2a.CodeInternal, Message: s.Message()}
	switch s.Code() {
	case codes.InvalidArgument:
		e.Code = a2a.CodeParse
	case codes.ResourceExhausted:
		e.Code = a2a.CodeTooLarge
	case codes.Unimplemented:
		e.Code = a2a.CodeMethodNotFound
	}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if code, ok := a2a.CodeOfReason(d.GetReason()); ok && d.GetDomain() == a2a.ErrorDomain {
				e.Code = code
			}
			e.Metadata = d.GetMetadata()
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				e.Violations = append(e.Violations, a2a.Violation{Field: v.GetField(), Description: v.GetDescription()})
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	return e
}

// openGRPC opens a stream over gRPC, and returns it once it has its first event.
func (n *node) openGRPC(op string, params any, edit []func(*http.Request)) (s *sse, refused *answer) {
	n.t.Helper()
	method, m, ctx := n.grpcRequest(op, params, edit)
	ctx, cancel := context.WithCancel(ctx)
	s = &sse{t: n.t, b: overGRPC, cancel: cancel}
	n.t.Cleanup(s.close)
	var err error
	s.messages, err = n.grpcConn().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path(method))
	if err == nil {
		err = s.messages.SendMsg(m)
	}
	if err == nil {
		err = s.messages.CloseSend()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	first := &pb.StreamResponse{}
	switch err := s.messages.RecvMsg(first); {
	case err == io.EOF:
		s.over = io.EOF
	case err != nil:
		cancel()
		md, _ := s.messages.Header()
		return nil, grpcAnswer(n.t, md, nil, err)
	default:
		s.first = first
	}
	return s, nil
}

// nextMessage returns the next event of a stream over gRPC. An error is an event,
// as it is with the others.
func (s *sse) nextMessage() (*event, error) {
	if s.over != nil {
		return nil, s.over
	}
	m := s.first
	if s.first = nil; m == nil {
		m = &pb.StreamResponse{}
		if err := s.messages.RecvMsg(m); err != nil {
			if s.over = io.EOF; errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return &event{Error: errorOf(status.Convert(err))}, nil
		}
	}
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	e := &event{Data: data, Raw: data}
	return e, a2a.Unmarshal(data, &e.StreamResponse)
}

// isStatus checks an error over gRPC.
func (a *answer) isStatus(t testing.TB, code a2a.Code) {
	t.Helper()
	want := map[string]codes.Code{
		"INVALID_ARGUMENT": codes.InvalidArgument, "NOT_FOUND": codes.NotFound, "PERMISSION_DENIED": codes.PermissionDenied,
		"RESOURCE_EXHAUSTED": codes.ResourceExhausted, "FAILED_PRECONDITION": codes.FailedPrecondition, "INTERNAL": codes.Internal,
		"UNAVAILABLE": codes.Unavailable, "UNAUTHENTICATED": codes.Unauthenticated,
	}[code.Status()]
	if a.grpc == nil || a.grpc.Code() != want || code.Reason() != "" && a.Error.Code != code {
		t.Fatalf("got %s, want %v", a.Body, code)
	}
}
