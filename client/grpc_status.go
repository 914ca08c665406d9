package client

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/protobuf"
)

// Codes of gRPC (google.rpc.Code) that need more than their name.
const (
	grpcDeadlineExceeded   = 4
	grpcFailedPrecondition = 9
	grpcUnimplemented      = 12
	grpcUnauthenticated    = 16
)

// maxDetails bounds the details of an error that are looked at.
const maxDetails = 16

// grpcStatus is how a call over gRPC ended, when that is not OK.
type grpcStatus struct {
	code       int
	message    string
	details    []byte   // a google.rpc.Status, or nil
	challenges []string // WWW-Authenticate
}

// Error returns the code and the message.
func (s *grpcStatus) Error() string { return fmt.Sprintf("gRPC status %d: %s", s.code, s.message) }

// statusOf returns how the answer ended whose body has been read: io.EOF for OK,
// a *grpcStatus, or io.ErrUnexpectedEOF where the agent did not say.
func statusOf(resp *http.Response) error {
	h := resp.Trailer
	if h.Get("Grpc-Status") == "" {
		h = resp.Header // an answer without messages may say it at once
	}
	text := h.Get("Grpc-Status")
	if text == "" {
		return io.ErrUnexpectedEOF
	}
	code, err := strconv.ParseUint(text, 10, 8)
	switch {
	case err != nil:
		return fmt.Errorf("%w: its status is %q", errBadFrame, summary([]byte(text)))
	case code == 0:
		return io.EOF
	}
	s := &grpcStatus{code: int(code), message: h.Get("Grpc-Message")}
	if text, err := url.PathUnescape(s.message); err == nil {
		s.message = strings.ToValidUTF8(text, "\uFFFD")
	}
	if details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(h.Get("Grpc-Status-Details-Bin"), "=")); err == nil {
		s.details = details
	}
	for _, h := range []http.Header{resp.Header, resp.Trailer} {
		s.challenges = append(s.challenges, h.Values("WWW-Authenticate")...)
	}
	return s
}

// protocolError returns the error that the status is on the protocol (A2A §10.6).
// It goes through the JSON that HTTP+JSON has for the same google.rpc.Status, so
// that both are understood alike.
func (s *grpcStatus) protocolError(op string, old bool) *a2a.Error {
	body := append([]byte(`{"error":{"code":`), strconv.Itoa(s.code)...)
	body, _ = jsontext.AppendQuote(append(body, `,"message":`...), s.message)
	body = append(body, `,"details":[`...)
	separator := ""
	for _, detail := range s.known() {
		if text, err := protobuf.JSON(detail); err == nil {
			body = append(append(body, separator...), text...)
			separator = ","
		}
	}
	body = append(body, "]}}"...)
	e := a2a.ParseStatusError(body, 0)
	if old {
		correctOldStatus(e, op, s.code)
	}
	if s.code == grpcUnauthenticated && len(s.challenges) > 0 {
		e.Err = &ChallengeError{Challenges: s.challenges}
	}
	return e
}

// known returns the details of the kinds that the protocol has.
func (s *grpcStatus) known() []proto.Message {
	var m status.Status
	if len(s.details) == 0 || protobuf.Unmarshal(s.details, &m, grpcBounds) != nil {
		return nil
	}
	var known []proto.Message
	for _, detail := range m.GetDetails()[:min(len(m.GetDetails()), maxDetails)] {
		for _, into := range []proto.Message{&errdetails.ErrorInfo{}, &errdetails.BadRequest{}, &errdetails.RetryInfo{}} {
			if detail.MessageIs(into) && protobuf.Unmarshal(detail.GetValue(), into, grpcBounds) == nil {
				known = append(known, into)
			}
		}
	}
	return known
}

// correctOldStatus gives an error of 0.3 its kind, whose official libraries send
// no details.
func correctOldStatus(e *a2a.Error, op string, code int) {
	switch {
	case op == opCancelTask && (e.Code == a2a.CodeUnsupportedOperation && code == grpcFailedPrecondition || code == grpcUnimplemented):
		e.Code = a2a.CodeTaskNotCancelable
	case op == opGetExtendedAgentCard && (e.Code == a2a.CodeTaskNotFound || code == grpcFailedPrecondition && e.Code == a2a.CodeUnsupportedOperation):
		e.Code = a2a.CodeExtendedAgentCardNotConfigured
	case code == grpcUnimplemented && (op == opListTasks || op == opSubscribeToTask):
		e.Code = a2a.CodeUnsupportedOperation
	}
}
