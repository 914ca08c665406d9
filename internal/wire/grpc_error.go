package wire

import (
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"handoff.example/handoff/a2a"
)

var errNoService = errors.New("there is no such service")

// grpcCodes are the codes of gRPC by their names (A2A §5.4).
var grpcCodes = map[string]connect.Code{
	"INVALID_ARGUMENT":    connect.CodeInvalidArgument,
	"NOT_FOUND":           connect.CodeNotFound,
	"PERMISSION_DENIED":   connect.CodePermissionDenied,
	"RESOURCE_EXHAUSTED":  connect.CodeResourceExhausted,
	"FAILED_PRECONDITION": connect.CodeFailedPrecondition,
	"INTERNAL":            connect.CodeInternal,
	"UNAVAILABLE":         connect.CodeUnavailable,
	"UNAUTHENTICATED":     connect.CodeUnauthenticated,
}

// grpcCode returns the code of an error on gRPC, which has codes of its own for a
// method that does not exist and for a message that is too large.
func grpcCode(code a2a.Code) connect.Code {
	switch code {
	case a2a.CodeMethodNotFound:
		return connect.CodeUnimplemented
	case a2a.CodeTooLarge:
		return connect.CodeResourceExhausted
	}
	return grpcCodes[code.Status()]
}

// connectError returns an error as it goes out over gRPC: a google.rpc.Status
// with the details that the other bindings have (A2A §10.6).
func connectError(e *a2a.Error) *connect.Error {
	// A space at the end of a field is none of HTTP/2 (RFC 9113 §8.2.1).
	out := connect.NewError(grpcCode(e.Code), errors.New(strings.TrimSpace(e.Message)))
	if reason := e.Code.Reason(); reason != "" {
		addDetail(out, &errdetails.ErrorInfo{Reason: reason, Domain: a2a.ErrorDomain, Metadata: e.Metadata})
	}
	if len(e.Violations) > 0 {
		bad := &errdetails.BadRequest{}
		for _, v := range e.Violations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Description})
		}
		addDetail(out, bad)
	}
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		addDetail(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(seconds * time.Second)})
	}
	return out
}

// addDetail adds a detail. One that cannot be encoded, because a client's text in
// it is not UTF-8, is left out.
func addDetail(to *connect.Error, m proto.Message) {
	if detail, err := connect.NewErrorDetail(m); err == nil {
		to.AddDetail(detail)
	}
}
