package mcp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codes of JSON-RPC and of the protocol (MCP basic/index §Error Codes).
const (
	CodeParseError         = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	CodeResourceNotFound   = -32002 // legacy
	CodeURLElicitation     = -32042 // legacy
)

// Codes of our own lie outside the range of JSON-RPC (BAS-12).
const (
	CodeDenied              = 4030 // policy does not allow the call
	CodeIdempotencyConflict = 4090 // the key was used for another call
	CodeApprovalPending     = 4091 // a person has not decided yet
	CodeKeyRequired         = 4280 // policy asks for an idempotency key
	CodeRateLimited         = 4290
	CodeBudget              = 4291 // the budget of the day is spent
	CodeBadAnswer           = 5020 // the server's answer is not one
	CodeUnavailable         = 5030 // the server was not reached
	CodeTimeout             = 5040 // the server did not answer in time
	CodeOutcomeUnknown      = 5041 // whether the call was made is not known
)

// Error is an error of JSON-RPC, with the status that goes with it over HTTP.
type Error struct {
	Code    int
	Message string
	Data    jsontext.Value // nil: none
	Status  int            // of HTTP; 0: by the code
	// RetryAfter is in seconds; 0: not said.
	RetryAfter int
	Err        error // the cause, for the log
}

// Errorf returns an error with that code.
func Errorf(code int, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Error returns the message with the code.
func (e *Error) Error() string { return e.Message + " (" + strconv.Itoa(e.Code) + ")" }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatus returns the status of the answer that carries the error to a modern
// client. An unknown tool, prompt or resource is 200: clients of both eras take a
// 400 that they do not know for a sign of a legacy server (MCP
// basic/transports/streamable-http §Backward Compatibility).
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	switch e.Code {
	case CodeParseError, CodeInvalidRequest, CodeHeaderMismatch, CodeMissingCapability, CodeUnsupportedVersion:
		return http.StatusBadRequest
	case CodeMethodNotFound:
		return http.StatusNotFound
	case CodeRateLimited:
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// AsError returns the error of the protocol that an error is, or one that says
// nothing of an unexpected error.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "Internal error", Status: http.StatusInternalServerError, Err: err}
}

// AppendError appends the response that is an error. A nil id is null.
func AppendError(dst []byte, id jsontext.Value, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		id = jsontext.Value("null")
	}
	dst = append(dst, id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, "}}"...)
}

// AppendResult appends the response with a result.
func AppendResult(dst []byte, id, result jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// appendString appends a JSON string. Text that is not UTF-8 is mended.
func appendString(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil { // it is not UTF-8; what is wrong was replaced
		return out
	}
	return out
}

// ParseError reads the error object of a response.
func ParseError(value jsontext.Value) *Error {
	var e struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return &Error{Code: CodeBadAnswer, Message: "The server has answered with an error that cannot be read", Err: err}
	}
	return &Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// UnsupportedVersion is the error for a revision that is not served (TRN-16).
func UnsupportedVersion(requested string, supported []string) *Error {
	data, err := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, requested}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		data = nil
	}
	return &Error{Code: CodeUnsupportedVersion, Message: "The protocol version is not supported", Data: data}
}

// MissingCapability is the error for a client that lacks what a request needs; the
// capabilities are an object such as {"elicitation":{"form":{}}} (MET-05).
func MissingCapability(capabilities string) *Error {
	return &Error{
		Code: CodeMissingCapability, Message: "The request needs a capability that the client has not declared",
		Data: jsontext.Value(`{"requiredCapabilities":` + capabilities + `}`),
	}
}

// MissingTasks is the error for a client that has to know the tasks extension
// (TSK-03).
func MissingTasks() *Error {
	return MissingCapability(`{"extensions":{"` + ExtensionTasks + `":{}}}`)
}
