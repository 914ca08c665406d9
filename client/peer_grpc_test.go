package client_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"handoff.example/handoff/a2a"
)

// The third binding of the scripted peer. Its script writes the same JSON, which
// the official messages turn into protobuf.

// onEach runs a test once for each binding.
func onEach(t *testing.T, test func(t *testing.T, binding string)) {
	t.Parallel()
	for _, binding := range append(slices.Clone(bothBindings), a2a.BindingGRPC) {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			test(t, binding)
		})
	}
}

// withH2C returns the protocols of a server that gRPC reaches without TLS.
func withH2C() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// readGRPC reads the request of a call over gRPC.
func (x *exchange) readGRPC(body []byte) error {
	x.op = x.r.URL.Path[strings.LastIndexByte(x.r.URL.Path, '/')+1:]
	if x.r.ProtoMajor != 2 || x.r.Header.Get("Te") != "trailers" || x.r.Header.Get("Content-Type") != "application/grpc" || len(body) < 5 ||
		body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
		return http.ErrNotSupported
	}
	if x.method() == nil {
		return http.ErrNotSupported
	}
	m, err := messageOf(x.method().Input())
	if err == nil {
		err = proto.Unmarshal(body[5:], m)
	}
	if err != nil {
		return err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &x.params)
}

func (x *exchange) method() protoreflect.MethodDescriptor {
	return pb.File_a2av1_proto.Services().ByName("A2AService").Methods().ByName(protoreflect.Name(x.op))
}

func messageOf(d protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}

// message sends a message that is built of JSON.
func (x *exchange) message(text string) {
	m, err := messageOf(x.method().Output())
	if err == nil {
		err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), m)
	}
	if err != nil {
		panic(err)
	}
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	x.write(string(grpcFrame(0, data)))
}

func grpcFrame(flag byte, data []byte) []byte {
	frame := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(data)))
	return append(frame, data...)
}

// status ends the call.
func (x *exchange) status(code int, message string, details ...proto.Message) {
	if x.statusSent {
		return
	}
	x.statusSent = true
	h := x.w.Header()
	prefix := http.TrailerPrefix
	if !x.started { // an answer without messages has its status at the front
		h.Set("Content-Type", "application/grpc")
		prefix = ""
	}
	h.Set(prefix+"Grpc-Status", strconv.Itoa(code))
	if message != "" {
		h.Set(prefix+"Grpc-Message", url.PathEscape(message))
	}
	if len(details) > 0 {
		s := &status.Status{Code: int32(code), Message: message}
		for _, d := range details {
			detail, err := anypb.New(d)
			if err != nil {
				panic(err)
			}
			s.Details = append(s.Details, detail)
		}
		data, err := proto.Marshal(s)
		if err != nil {
			panic(err)
		}
		h.Set(prefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(data))
	}
}

var grpcNumbers = map[string]int{
	"INVALID_ARGUMENT": 3, "NOT_FOUND": 5, "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9,
	"INTERNAL": 13, "UNAVAILABLE": 14, "UNAUTHENTICATED": 16,
}

// failGRPC ends the call with an error.
func (x *exchange) failGRPC(e *a2a.Error) {
	var details []proto.Message
	if reason := e.Code.Reason(); reason != "" {
		details = append(details, &errdetails.ErrorInfo{Reason: reason, Domain: a2a.ErrorDomain, Metadata: e.Metadata})
	}
	if len(e.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range e.Violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		}
		details = append(details, bad)
	}
	if e.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	code := grpcNumbers[e.Code.Status()]
	if e.Code == a2a.CodeMethodNotFound {
		code = 12
	}
	x.status(code, e.Message, details...)
}
