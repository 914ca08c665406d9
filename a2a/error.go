package a2a

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is the kind of an error: the closed set of everything that an operation
// can answer, mapped once to each binding (A2A §3.3.2, §5.4).
type Code uint8

// The error codes. The zero Code is CodeInternal, so that an error whose kind
// nobody named is an internal one.
const (
	CodeInternal Code = iota
	CodeParse
	CodeInvalidRequest
	CodeMethodNotFound
	CodeInvalidParams
	CodeTaskNotFound
	CodeTaskNotCancelable
	CodePushNotificationNotSupported
	CodeUnsupportedOperation
	CodeContentTypeNotSupported
	CodeInvalidAgentResponse
	CodeExtendedAgentCardNotConfigured
	CodeExtensionSupportRequired
	CodeVersionNotSupported
	// The codes below are not A2A's own: they say what HTTP says.
	CodeUnauthenticated
	CodePermissionDenied
	CodeResourceExhausted
	CodeUnavailable
	CodeTooLarge
)

type codeInfo struct {
	name    string // A2A §3.3.2
	reason  string // of google.rpc.ErrorInfo; "" when no ErrorInfo goes out
	jsonRPC int
	http    int
	status  string // google.rpc.Code
}

var codes = [...]codeInfo{
	CodeInternal:                       {"InternalError", "", -32603, 500, "INTERNAL"},
	CodeParse:                          {"JSONParseError", "", -32700, 400, "INVALID_ARGUMENT"},
	CodeInvalidRequest:                 {"InvalidRequestError", "", -32600, 400, "INVALID_ARGUMENT"},
	CodeMethodNotFound:                 {"MethodNotFoundError", "", -32601, 404, "NOT_FOUND"},
	CodeInvalidParams:                  {"InvalidParamsError", "INVALID_PARAMS", -32602, 400, "INVALID_ARGUMENT"},
	CodeTaskNotFound:                   {"TaskNotFoundError", "TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"},
	CodeTaskNotCancelable:              {"TaskNotCancelableError", "TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION"},
	CodePushNotificationNotSupported:   {"PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, 400, "FAILED_PRECONDITION"},
	CodeUnsupportedOperation:           {"UnsupportedOperationError", "UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION"},
	CodeContentTypeNotSupported:        {"ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, "INVALID_ARGUMENT"},
	CodeInvalidAgentResponse:           {"InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", -32006, 500, "INTERNAL"},
	CodeExtendedAgentCardNotConfigured: {"ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, 400, "FAILED_PRECONDITION"},
	CodeExtensionSupportRequired:       {"ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", -32008, 400, "FAILED_PRECONDITION"},
	CodeVersionNotSupported:            {"VersionNotSupportedError", "VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION"},
	CodeUnauthenticated:                {"UnauthenticatedError", "UNAUTHENTICATED", -31401, 401, "UNAUTHENTICATED"},
	CodePermissionDenied:               {"PermissionDeniedError", "PERMISSION_DENIED", -31403, 403, "PERMISSION_DENIED"},
	CodeResourceExhausted:              {"ResourceExhaustedError", "RESOURCE_EXHAUSTED", -31429, 429, "RESOURCE_EXHAUSTED"},
	CodeUnavailable:                    {"UnavailableError", "UNAVAILABLE", -31503, 503, "UNAVAILABLE"},
	CodeTooLarge:                       {"TooLargeError", "", -32600, 413, "INVALID_ARGUMENT"},
}

func (c Code) info() codeInfo {
	if int(c) >= len(codes) {
		return codes[CodeInternal]
	}
	return codes[c]
}

// String returns the name of the error, such as TaskNotFoundError.
func (c Code) String() string { return c.info().name }

// Reason returns the reason of the google.rpc.ErrorInfo that goes with the
// error, such as TASK_NOT_FOUND, or "" when none does.
func (c Code) Reason() string { return c.info().reason }

// JSONRPC returns the code of the error on the JSON-RPC binding.
func (c Code) JSONRPC() int { return c.info().jsonRPC }

// HTTPStatus returns the status of the error on the HTTP+JSON binding.
func (c Code) HTTPStatus() int { return c.info().http }

// Status returns the google.rpc.Code name of the error, such as NOT_FOUND.
func (c Code) Status() string { return c.info().status }

// CodeOfReason returns the code whose ErrorInfo has that reason.
func CodeOfReason(reason string) (Code, bool) {
	for c, i := range codes {
		if reason != "" && i.reason == reason {
			return Code(c), true
		}
	}
	return CodeInternal, false
}

// CodeOfJSONRPC returns the code that has that number on the JSON-RPC binding.
func CodeOfJSONRPC(number int) (Code, bool) {
	for c, i := range codes {
		if i.jsonRPC == number {
			return Code(c), true
		}
	}
	return CodeInternal, false
}

// Error is an error of the protocol: a kind, a message for people, and what a
// program needs to act on it.
type Error struct {
	Code    Code
	Message string
	// Violations name the fields that are wrong, each with the reason.
	Violations []Violation
	// Metadata goes into google.rpc.ErrorInfo. It holds nothing secret.
	Metadata map[string]string
	// RetryAfter says when to try again; zero says nothing. Bindings round it
	// up to whole seconds.
	RetryAfter time.Duration
	// Err is the cause, for logs only. It never leaves the process.
	Err error
}

// MetadataLimit is the key in the metadata of a CodeResourceExhausted error that
// has the name of the limit.
const MetadataLimit = "limit"

// Violation is a field that is wrong (google.rpc.BadRequest.FieldViolation).
type Violation struct {
	Field       string // the JSON path, such as message.parts[0].raw
	Description string
}

// Errorf returns an error of that kind with a formatted message. A %w among the
// arguments becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Invalid returns an invalid-parameters error that names one field.
func Invalid(field, format string, args ...any) *Error {
	description := fmt.Sprintf(format, args...)
	return InvalidFields([]Violation{{Field: field, Description: description}})
}

// InvalidFields returns an invalid-parameters error that names those fields.
func InvalidFields(violations []Violation) *Error {
	texts := make([]string, len(violations))
	for i, v := range violations {
		texts[i] = v.Description
		if v.Field != "" {
			texts[i] = v.Field + ": " + v.Description
		}
	}
	return &Error{
		Code:       CodeInvalidParams,
		Message:    "Invalid parameters: " + strings.Join(texts, "; "),
		Violations: violations,
	}
}

// TaskNotFound returns the error for a task that does not exist or is not the
// caller's; the two are one (A2A §13.1).
func TaskNotFound(id string) *Error {
	return &Error{
		Code:     CodeTaskNotFound,
		Message:  "The task does not exist or is not accessible",
		Metadata: map[string]string{"taskId": id},
	}
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same code, so that
// errors.Is(err, &Error{Code: CodeTaskNotFound}) asks for a kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first *Error in the chain of err, and
// CodeInternal when there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
