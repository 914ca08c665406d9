package wire

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
)

// gRPC (A2A §10), on the port of HTTP. The same handlers answer gRPC, gRPC-Web
// and the Connect protocol, told apart by the Content-Type.

// Names of the services. They stand at the root, since gRPC has no paths; the
// tenant of a request leads to its agent.
const (
	serviceA2A              = "lf.a2a.v1.A2AService"
	serviceOld              = "a2a.v1.A2AService" // of version 0.3
	serviceHealth           = grpchealth.HealthV1ServiceName
	serviceReflection       = "grpc.reflection.v1.ServerReflection"
	serviceReflectionBefore = "grpc.reflection.v1alpha.ServerReflection"
)

// grpcServices are the paths below which gRPC is served, beside that of version
// 0.3, which is there when an agent speaks it.
var grpcServices = [...]string{"/" + serviceA2A, "/" + serviceHealth, "/" + serviceReflection, "/" + serviceReflectionBefore}

// grpcServer answers what comes over gRPC.
type grpcServer struct {
	operations map[string]grpcOperation // by service and name
	others     map[string]http.Handler  // health and reflection, by service
	refusals   *connect.ErrorWriter
	depth      int // of free JSON
}

type grpcOperation struct {
	op      operation
	handler http.Handler
}

// compressAbove is the size of the messages that are compressed for clients that
// ask for it.
const compressAbove = 4 << 10

func newGRPCServer(h *Handler) *grpcServer {
	options := connect.WithHandlerOptions(
		connect.WithReadMaxBytes(int(h.opts.BodyBytes)),
		connect.WithCompressMinBytes(compressAbove),
	)
	s := &grpcServer{
		operations: map[string]grpcOperation{},
		others:     map[string]http.Handler{},
		refusals:   connect.NewErrorWriter(options),
		depth:      h.opts.Depth,
	}
	own := connect.WithHandlerOptions(options, connect.WithCodec(&binaryCodec{h.opts.Depth}),
		connect.WithCodec(&textCodec{"json", h.opts.Depth}), connect.WithCodec(&textCodec{"json; charset=utf-8", h.opts.Depth}))
	addOldOperations(s, own)
	unary[pb.SendMessageRequest](s, opSendMessage, own)
	streaming[pb.SendMessageRequest](s, opSendStreamingMessage, own)
	unary[pb.GetTaskRequest](s, opGetTask, own)
	unary[pb.ListTasksRequest](s, opListTasks, own)
	unary[pb.CancelTaskRequest](s, opCancelTask, own)
	streaming[pb.SubscribeToTaskRequest](s, opSubscribeToTask, own)
	unary[pb.TaskPushNotificationConfig](s, opCreatePushConfig, own)
	unary[pb.GetTaskPushNotificationConfigRequest](s, opGetPushConfig, own)
	unary[pb.ListTaskPushNotificationConfigsRequest](s, opListPushConfigs, own)
	unary[pb.DeleteTaskPushNotificationConfigRequest](s, opDeletePushConfig, own)
	unary[pb.GetExtendedAgentCardRequest](s, opGetExtendedCard, own)

	_, s.others[serviceHealth] = grpchealth.NewHandler(health{h.opts.Engine, h.opts.Agents}, options)
	reflector := grpcreflect.NewReflector(grpcreflect.NamerFunc(func() []string {
		if h.opts.Agents().servesOldGRPC() {
			return []string{serviceA2A, serviceOld, serviceHealth}
		}
		return []string{serviceA2A, serviceHealth}
	}))
	_, s.others[serviceReflection] = grpcreflect.NewHandlerV1(reflector, options)
	_, s.others[serviceReflectionBefore] = grpcreflect.NewHandlerV1Alpha(reflector, options)
	return s
}

// request is a message that asks for an operation.
type request[T any] interface {
	*T
	proto.Message
}

// unary adds an operation of 1.0 with one answer.
func unary[T any, P request[T]](s *grpcServer, op operation, options connect.HandlerOption) {
	unaryAt[T, P](s, serviceA2A+"/"+op.String(), op, nil, options)
}

// streaming adds an operation of 1.0 with a stream of answers.
func streaming[T any, P request[T]](s *grpcServer, op operation, options connect.HandlerOption) {
	streamingAt[T, P](s, serviceA2A+"/"+op.String(), op, nil, options)
}

// unaryAt adds an operation under the name of its service and its method, whose
// answer is written by encoding; nil is that of 1.0.
func unaryAt[T any, P request[T]](s *grpcServer, name string, op operation, encoding grpcEncoding, options connect.HandlerOption) {
	s.operations[name] = grpcOperation{op, connect.NewUnaryHandler("/"+name,
		func(ctx context.Context, r *connect.Request[protoRequest[T, P]]) (*connect.Response[protoReply], error) {
			c := &grpcCall{encoding: encoding}
			exchangeOf(ctx).callGRPC(ctx, c, r.Msg.get(), r.Msg.err, s.depth)
			if c.err != nil {
				return nil, c.err
			}
			return connect.NewResponse(&protoReply{c.answered}), nil
		}, options)}
}

// streamingAt is unaryAt for a stream of answers.
func streamingAt[T any, P request[T]](s *grpcServer, name string, op operation, encoding grpcEncoding, options connect.HandlerOption) {
	s.operations[name] = grpcOperation{op, connect.NewServerStreamHandler("/"+name,
		func(ctx context.Context, r *connect.Request[protoRequest[T, P]], stream *connect.ServerStream[protoReply]) error {
			c := &grpcCall{encoding: encoding, events: stream}
			exchangeOf(ctx).callGRPC(ctx, c, r.Msg.get(), r.Msg.err, s.depth)
			return c.err
		}, options)}
}

// exchangeKey is the key of the exchange in the context of its request.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// serveGRPC answers a request below one of the services' paths.
func (x *exchange) serveGRPC(path string) {
	s := x.h.grpc
	service, method, _ := strings.Cut(strings.TrimPrefix(x.r.URL.EscapedPath(), "/"), "/")
	operation := s.operations[service+"/"+method]
	switch {
	case x.r.Method == http.MethodOptions:
		x.options("POST, OPTIONS")
		return
	case x.r.Method != http.MethodPost:
		x.refuseMethod("POST, OPTIONS")
		return
	case !s.refusals.IsSupported(x.r):
		x.refuseAs(a2a.Errorf(a2a.CodeContentTypeNotSupported, "This is an endpoint of gRPC; send application/grpc"), http.StatusUnsupportedMediaType)
		return
	}
	w := &grpcWriter{ResponseWriter: x.w, control: http.NewResponseController(x.w), timeout: x.h.opts.WriteTimeout}
	defer w.release(x.r)
	x.status = http.StatusOK
	w.Header()["Cache-Control"] = noStore
	switch {
	case service != serviceA2A && service != serviceOld:
		x.code = codeOK
		s.others[service].ServeHTTP(w, x.r)
		return
	case path != method || operation.handler == nil:
		x.code = a2a.CodeMethodNotFound.String()
		e := a2a.Errorf(a2a.CodeMethodNotFound, "Method not found: %s", clip(path, 64))
		if path == "" {
			e.Message = "The path names no method of " + service
		}
		_ = s.refusals.Write(w, x.r, connectError(e))
		return
	}
	x.op = operation.op
	refusal := &grpcCall{}
	x.via = refusal
	func() {
		defer x.recoverGRPC()
		x.admitCaller()
	}()
	if refusal.err != nil {
		_ = s.refusals.Write(w, x.r, refusal.err)
		return
	}
	x.out = w
	operation.handler.ServeHTTP(w, x.r.WithContext(context.WithValue(x.ctx, exchangeKey{}, x)))
	if x.code == "" { // the message did not come through
		x.code = a2a.CodeInvalidRequest.String()
	}
}

// callGRPC carries out a call whose message has been received, or could not be
// decoded.
func (x *exchange) callGRPC(ctx context.Context, c *grpcCall, message proto.Message, unreadable error, depth int) {
	x.ctx, x.via, c.op = ctx, c, x.op
	defer x.recoverGRPC()
	// The time that a client has to send a message is over.
	_ = http.NewResponseController(x.w).SetReadDeadline(noDeadline)
	if unreadable != nil {
		x.refuse(unreadable)
		return
	}
	tenant := "" // messages of 0.3 name none
	if m, ok := message.(interface{ GetTenant() string }); ok {
		tenant = m.GetTenant()
	}
	if x.agent, x.tenant = x.agents.named(tenant); x.agent == nil {
		x.refuse(errUnknownAgent)
		return
	}
	x.serviceParameters()
	x.lastEventID = "" // messages of gRPC have no ids to go on after
	if c.encoding != nil {
		x.callOldGRPC(message, depth)
		return
	}
	x.run(x.traced("A2A "+x.op.String()), &protoParameters{message: message, depth: depth})
}

// recoverGRPC turns a panic into an error.
func (x *exchange) recoverGRPC() {
	p := recover()
	if p == nil {
		return
	}
	x.h.log.LogAttrs(x.ctx, slog.LevelError, "A request panicked",
		slog.String("request", x.id), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
	e := &a2a.Error{Code: a2a.CodeInternal, Message: "Internal error; the operator's log has the reason under request " + x.id}
	x.code = e.Code.String()
	x.via.refuse(e, e)
}

// health answers the health checks of gRPC (grpc.health.v1). A node that is
// stopping is not serving.
type health struct {
	engine *engine.Engine
	agents func() *Set
}

// Check returns the health of a service; "" is the node.
func (h health) Check(_ context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && r.Service != serviceA2A && (r.Service != serviceOld || !h.agents().servesOldGRPC()) {
		return nil, connect.NewError(connect.CodeNotFound, errNoService)
	}
	if h.engine.Draining() {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
