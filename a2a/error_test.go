package a2a

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// allCodes lists every code with what it is on each binding: A2A §3.3.2, §5.4,
// §9.5, §11.6.
var allCodes = []struct {
	code    Code
	name    string
	reason  string
	jsonRPC int
	http    int
	status  string
}{
	{CodeTaskNotFound, "TaskNotFoundError", "TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"},
	{CodeTaskNotCancelable, "TaskNotCancelableError", "TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION"},
	{CodePushNotificationNotSupported, "PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, "FAILED_PRECONDITION"},
	{CodeUnsupportedOperation, "UnsupportedOperationError", "UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION"},
	{CodeContentTypeNotSupported, "ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, "INVALID_ARGUMENT"},
	{CodeInvalidAgentResponse, "InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL"},
	{CodeExtendedAgentCardNotConfigured, "ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 400, "FAILED_PRECONDITION"},
	{CodeExtensionSupportRequired, "ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", -32008, 400, "FAILED_PRECONDITION"},
	{CodeVersionNotSupported, "VersionNotSupportedError", "VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION"},
	{CodeParse, "JSONParseError", "", -32700, 400, "INVALID_ARGUMENT"},
	{CodeInvalidRequest, "InvalidRequestError", "", -32600, 400, "INVALID_ARGUMENT"},
	{CodeMethodNotFound, "MethodNotFoundError", "", -32601, 404, "NOT_FOUND"},
	{CodeInvalidParams, "InvalidParamsError", "INVALID_PARAMS", -32602, 400, "INVALID_ARGUMENT"},
	{CodeInternal, "InternalError", "", -32603, 500, "INTERNAL"},
	{CodeUnauthenticated, "UnauthenticatedError", "UNAUTHENTICATED", -31401, 401, "UNAUTHENTICATED"},
	{CodePermissionDenied, "PermissionDeniedError", "PERMISSION_DENIED", -31403, 403, "PERMISSION_DENIED"},
	{CodeResourceExhausted, "ResourceExhaustedError", "RESOURCE_EXHAUSTED", -31429, 429, "RESOURCE_EXHAUSTED"},
	{CodeUnavailable, "UnavailableError", "UNAVAILABLE", -31503, 503, "UNAVAILABLE"},
	{CodeTooLarge, "TooLargeError", "", -32600, 413, "INVALID_ARGUMENT"},
}

func TestCodes(t *testing.T) {
	t.Parallel()
	if len(allCodes) != len(codes) {
		t.Errorf("%d codes are tested of %d", len(allCodes), len(codes))
	}
	seen := map[Code]bool{}
	for _, tt := range allCodes {
		c := tt.code
		if seen[c] {
			t.Errorf("%v is listed twice", c)
		}
		seen[c] = true
		if c.String() != tt.name || c.Reason() != tt.reason || c.JSONRPC() != tt.jsonRPC ||
			c.HTTPStatus() != tt.http || c.Status() != tt.status {
			t.Errorf("%v: got %s, %s, %d, %d, %s; want %+v", c, c, c.Reason(), c.JSONRPC(), c.HTTPStatus(), c.Status(), tt)
		}
		if tt.reason != "" {
			if got, ok := CodeOfReason(tt.reason); !ok || got != c {
				t.Errorf("CodeOfReason(%s) = %v, %v", tt.reason, got, ok)
			}
		}
		if got, ok := CodeOfJSONRPC(tt.jsonRPC); !ok || (got != c && c != CodeTooLarge) {
			t.Errorf("CodeOfJSONRPC(%d) = %v, %v", tt.jsonRPC, got, ok)
		}
	}
	if got := Code(200).String(); got != "InternalError" {
		t.Errorf("an unknown code is %s", got)
	}
	if _, ok := CodeOfReason(""); ok {
		t.Error("the empty reason names a code")
	}
}

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		err     *Error
		details string
		status  string
		jsonRPC string
	}{
		{
			"task not found", TaskNotFound("nope"),
			`[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"nope"}}]`,
			`{"error":{"code":404,"status":"NOT_FOUND","message":"The task does not exist or is not accessible","details":%s}}`,
			`{"code":-32001,"message":"The task does not exist or is not accessible","data":%s}`,
		},
		{
			"fields", InvalidFields([]Violation{{"message.parts", "needs <1>"}, {"", "is bad"}}),
			`[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"INVALID_PARAMS","domain":"a2a-protocol.org"},{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"message.parts","description":"needs <1>"},{"description":"is bad"}]}]`,
			`{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"Invalid parameters: message.parts: needs <1>; is bad","details":%s}}`,
			`{"code":-32602,"message":"Invalid parameters: message.parts: needs <1>; is bad","data":%s}`,
		},
		{
			"all details",
			&Error{
				Code: CodeResourceExhausted, Message: "slow down", RetryAfter: 2001 * time.Millisecond,
				Metadata: map[string]string{"b": "2", "a": "1"}, Violations: []Violation{{"x", "y"}},
			},
			`[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RESOURCE_EXHAUSTED","domain":"a2a-protocol.org","metadata":{"a":"1","b":"2"}},` +
				`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"x","description":"y"}]},` +
				`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]`,
			`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down","details":%s}}`,
			`{"code":-31429,"message":"slow down","data":%s}`,
		},
		{
			"retry only", &Error{Code: CodeInternal, Message: "a\nb", RetryAfter: 3 * time.Second},
			`[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]`,
			`{"error":{"code":500,"status":"INTERNAL","message":"a\nb","details":%s}}`,
			`{"code":-32603,"message":"a\nb","data":%s}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.details, string(tt.err.AppendDetails(nil))); diff != "" {
				t.Errorf("AppendDetails (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fmt.Sprintf(tt.status, tt.details), string(tt.err.AppendStatus(nil))); diff != "" {
				t.Errorf("AppendStatus (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fmt.Sprintf(tt.jsonRPC, tt.details), string(tt.err.AppendJSONRPC(nil))); diff != "" {
				t.Errorf("AppendJSONRPC (-want +got):\n%s", diff)
			}
		})
	}

	bare := &Error{Code: CodeParse, Message: "no", Metadata: map[string]string{"a": "b"}}
	if got, want := string(bare.AppendDetails(nil)), `[]`; got != want {
		t.Errorf("AppendDetails of an error without details gave %s", got)
	}
	if got, want := string(bare.AppendJSONRPC([]byte("x"))), `x{"code":-32700,"message":"no"}`; got != want {
		t.Errorf("AppendJSONRPC gave %s, want %s", got, want)
	}
	if got, want := string(bare.AppendStatus(nil)), `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"no"}}`; got != want {
		t.Errorf("AppendStatus gave %s, want %s", got, want)
	}
}

// TestErrorRoundTrip checks that a client learns what the server said.
func TestErrorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tt := range allCodes {
		e := &Error{
			Code: tt.code, Message: "m", RetryAfter: 5 * time.Second,
			Violations: []Violation{{"a.b", "c"}},
		}
		if tt.reason != "" {
			e.Metadata = map[string]string{"k": "v"}
		}
		wantRPC, wantHTTP := tt.code, tt.code
		switch tt.code { // those that share their number or status, and have no reason
		case CodeTooLarge:
			wantRPC = CodeInvalidRequest
		case CodeParse, CodeInvalidRequest:
			wantHTTP = CodeInvalidParams
		case CodeMethodNotFound:
			wantHTTP = CodeTaskNotFound
		}
		want := *e
		want.Code = wantRPC
		if diff := cmp.Diff(&want, ParseJSONRPCError(e.AppendJSONRPC(nil)), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%v over JSON-RPC (-want +got):\n%s", tt.code, diff)
		}
		want.Code = wantHTTP
		if diff := cmp.Diff(&want, ParseStatusError(e.AppendStatus(nil), tt.http), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%v over HTTP (-want +got):\n%s", tt.code, diff)
		}
	}
}

func TestParseStatusError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		body    string
		http    int
		code    Code
		message string
	}{
		{"page of a proxy", `<html>`, 502, CodeUnavailable, "The agent answered with HTTP status 502"},
		{"empty", ``, 404, CodeMethodNotFound, "The agent answered with HTTP status 404"},
		{"empty object", `{}`, 500, CodeInternal, "The agent answered with HTTP status 500"},
		{"list", `[]`, 418, CodeInvalidRequest, "The agent answered with HTTP status 418"},
		{"bare status with a number of gRPC", `{"code":5,"message":"gone","details":[]}`, 404, CodeTaskNotFound, "gone"},
		{"gRPC number under another HTTP status", `{"code":9,"message":"over"}`, 400, CodeUnsupportedOperation, "over"},
		{"reason wins over the status", `{"error":{"code":500,"status":"INTERNAL","message":"m","details":[null,"x",{"@type":"y"},{"reason":"TASK_NOT_CANCELABLE"}]}}`, 500, CodeTaskNotCancelable, "m"},
		{"unknown reason", `{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"m","details":[{"reason":"NEW"}]}}`, 400, CodeUnsupportedOperation, "m"},
		{"no HTTP status", `{"error":{"code":403,"message":"m"}}`, 0, CodePermissionDenied, "m"},
		{"too large", `{"error":{"code":413,"status":"INVALID_ARGUMENT","message":"m"}}`, 413, CodeTooLarge, "m"},
		{"not supported any more", `{"error":{"status":"UNIMPLEMENTED","message":"m"}}`, 501, CodeMethodNotFound, "m"},
		{"too slow", `{"error":{"status":"DEADLINE_EXCEEDED","message":"m"}}`, 504, CodeUnavailable, "m"},
		{"no credentials", `{"code":16,"message":"m"}`, 401, CodeUnauthenticated, "m"},
		{"not allowed", `{"code":7,"message":"m"}`, 403, CodePermissionDenied, "m"},
		{"too often", `{"code":8,"message":"m"}`, 200, CodeResourceExhausted, "m"},
		{"wrong media type", ``, 415, CodeContentTypeNotSupported, "The agent answered with HTTP status 415"},
		{"wrong method", ``, 405, CodeMethodNotFound, "The agent answered with HTTP status 405"},
		{"conflict", `{"error":"over"}`, 409, CodeUnsupportedOperation, "over"},
		{"broken details", `{"error":{"message":"m","details":[{"metadata":{"a":1,"b":"c"},"fieldViolations":[null,{"field":1,"description":"d"}]}]}}`, 400, CodeInvalidParams, "m"},
		{"deep", `{"error":{"message":"m","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`, 400, CodeInvalidParams, "The agent answered with HTTP status 400"},
		{"problem details", `{"type":"https://a2a-protocol.org/errors/task-not-cancelable","title":"No","status":409,"detail":"done"}`, 409, CodeTaskNotCancelable, "No: done"},
		{"text", `{"error":"Unauthorized"}`, 401, CodeUnauthenticated, "Unauthorized"},
		{"detail of a framework", `{"detail":"Not authenticated"}`, 403, CodePermissionDenied, "Not authenticated"},
		{"detail list of a framework", `{"detail":[{"loc":["a"],"msg":"b"}]}`, 422, CodeInvalidParams, "The agent answered with HTTP status 422"},
		{"wrong types", `{"error":{"code":"x","status":7,"message":5,"details":{"reason":1,"metadata":[],"fieldViolations":{},"retryDelay":{}}}}`, 429, CodeResourceExhausted, "ResourceExhaustedError"},
		{"cut off", `{"error":{"code":404,"status":"NOT_FOUND"`, 503, CodeUnavailable, "The agent answered with HTTP status 503"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := ParseStatusError([]byte(tt.body), tt.http)
			if e.Code != tt.code || e.Message != tt.message {
				t.Errorf("got %v, %q; want %v, %q", e.Code, e.Message, tt.code, tt.message)
			}
		})
	}
}

func TestParseJSONRPCError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		object  string
		code    Code
		message string
	}{
		{"number only", `{"code":-32001,"message":"Task not found"}`, CodeTaskNotFound, "Task not found"},
		{"data is null", `{"code":-32001,"message":"m","data":null}`, CodeTaskNotFound, "m"},
		{"data is a string", `{"code":-32603,"message":"Internal error","data":"boom"}`, CodeInternal, "Internal error: boom"},
		{"data is one detail", `{"code":-32000,"message":"m","data":{"reason":"TASK_NOT_FOUND"}}`, CodeTaskNotFound, "m"},
		{"data is a number", `{"code":-32004,"message":"m","data":7}`, CodeUnsupportedOperation, "m"},
		{"reason wins over the number", `{"code":-32603,"message":"m","data":[{"@type":"t","reason":"VERSION_NOT_SUPPORTED"}]}`, CodeVersionNotSupported, "m"},
		{"unknown number", `{"code":-32050,"message":"m"}`, CodeInternal, "m"},
		{"HTTP status as the number", `{"code":429,"message":"m"}`, CodeResourceExhausted, "m"},
		{"number without a message", `{"code":-32002}`, CodeTaskNotCancelable, "TaskNotCancelableError"},
		{"number beyond 32 bits", `{"code":99999999999,"message":"m"}`, CodeInternal, "m"},
		{"a string", `"boom"`, CodeInternal, "The agent answered with a malformed error"},
		{"null", `null`, CodeInternal, "The agent answered with a malformed error"},
		{"nothing", ``, CodeInternal, "The agent answered with a malformed error"},
		{"cut off", `{"code":-32001,`, CodeInternal, "The agent answered with a malformed error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := ParseJSONRPCError([]byte(tt.object))
			if e.Code != tt.code || e.Message != tt.message {
				t.Errorf("got %v, %q; want %v, %q", e.Code, e.Message, tt.code, tt.message)
			}
		})
	}
}

func TestErrorWrapping(t *testing.T) {
	t.Parallel()
	wrapped := fmt.Errorf("run turn: %w", &Error{Code: CodeTaskNotCancelable, Message: "m"})
	if CodeOf(wrapped) != CodeTaskNotCancelable || !errors.Is(wrapped, &Error{Code: CodeTaskNotCancelable}) ||
		errors.Is(wrapped, &Error{Code: CodeTaskNotFound}) {
		t.Errorf("a wrapped error is %v", CodeOf(wrapped))
	}
	if CodeOf(errors.New("x")) != CodeInternal {
		t.Errorf("a foreign error is %v", CodeOf(errors.New("x")))
	}
	cause := errors.New("disk full")
	e := Errorf(CodeUnavailable, "store task: %w", cause)
	if !errors.Is(e, cause) || e.Message != "store task: disk full" {
		t.Errorf("Errorf gave %q, cause %v", e.Message, e.Err)
	}
}
