package a2a

import (
	"strconv"
	"time"
)

// ErrorDomain is the domain of every google.rpc.ErrorInfo of the protocol
// (A2A §11.6).
const ErrorDomain = "a2a-protocol.org"

// Types of the details of an error, as google.protobuf.Any names them.
const (
	TypeErrorInfo  = "type.googleapis.com/google.rpc.ErrorInfo"
	TypeBadRequest = "type.googleapis.com/google.rpc.BadRequest"
	TypeRetryInfo  = "type.googleapis.com/google.rpc.RetryInfo"
)

// AppendDetails appends the details of the error as a JSON array: an ErrorInfo
// when its code has a reason, a BadRequest when fields are wrong, a RetryInfo
// when it says when to try again. It is error.data on JSON-RPC (A2A §9.5) and
// error.details on HTTP+JSON (A2A §11.6).
func (e *Error) AppendDetails(dst []byte) []byte {
	dst = append(dst, '[')
	start := len(dst)
	if reason := e.Code.Reason(); reason != "" {
		dst = appendName(append(dst, '{'), "@type", TypeErrorInfo)
		dst = appendName(dst, "reason", reason)
		dst = appendName(dst, "domain", ErrorDomain)
		dst = optTextMap(dst, "metadata", e.Metadata)
		dst = append(dst, '}')
	}
	if len(e.Violations) > 0 {
		dst = appendName(append(separate(dst, start), '{'), "@type", TypeBadRequest)
		dst = append(appendKey(dst, "fieldViolations"), '[')
		for i, v := range e.Violations {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '{')
			dst = optText(dst, "field", v.Field)
			dst = optText(dst, "description", v.Description)
			dst = append(dst, '}')
		}
		dst = append(dst, "]}"...)
	}
	if e.RetryAfter > 0 {
		dst = appendName(append(separate(dst, start), '{'), "@type", TypeRetryInfo)
		dst = append(appendKey(dst, "retryDelay"), '"')
		dst = strconv.AppendInt(dst, e.retrySeconds(), 10)
		dst = append(dst, `s"}`...)
	}
	return append(dst, ']')
}

// separate appends a comma unless the array that began at start is empty.
func separate(dst []byte, start int) []byte {
	if len(dst) == start {
		return dst
	}
	return append(dst, ',')
}

func (e *Error) hasDetails() bool {
	return e.Code.Reason() != "" || len(e.Violations) > 0 || e.RetryAfter > 0
}

// retrySeconds returns RetryAfter rounded up to whole seconds.
func (e *Error) retrySeconds() int64 {
	return int64((e.RetryAfter-1)/time.Second) + 1
}

// AppendStatus appends the body of the error on the HTTP+JSON binding: a
// google.rpc.Status under "error" (A2A §11.6).
func (e *Error) AppendStatus(dst []byte) []byte {
	dst = append(dst, `{"error":{`...)
	dst = appendInt(dst, "code", e.Code.HTTPStatus())
	dst = appendName(dst, "status", e.Code.Status())
	dst = appendText(dst, "message", e.Message)
	if e.hasDetails() {
		dst = e.AppendDetails(appendKey(dst, "details"))
	}
	return append(dst, "}}"...)
}

// AppendJSONRPC appends the error object of the JSON-RPC binding (A2A §9.5).
func (e *Error) AppendJSONRPC(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendInt(dst, "code", e.Code.JSONRPC())
	dst = appendText(dst, "message", e.Message)
	if e.hasDetails() {
		dst = e.AppendDetails(appendKey(dst, "data"))
	}
	return append(dst, '}')
}

// ParseStatusError reads the body of a failed HTTP+JSON request. It never
// fails: from a peer that does not answer with a google.rpc.Status it takes
// what it can, and the kind from the HTTP status. A NOT_FOUND without a reason
// is a task that was not found.
func ParseStatusError(body []byte, httpStatus int) *Error {
	var r errorReport
	if !r.parse(body) {
		return &Error{Code: codeOfHTTP(httpStatus), Message: "The agent answered with HTTP status " + strconv.Itoa(httpStatus)}
	}
	code, ok := CodeOfReason(r.reason)
	if !ok {
		code = r.codeOfStatus(httpStatus)
	}
	return r.error(code)
}

// ParseJSONRPCError reads the error object of a JSON-RPC response. It never
// fails: from a peer whose object is malformed it takes what it can. The kind
// comes from the reason, else from the number.
func ParseJSONRPCError(object []byte) *Error {
	var r errorReport
	if !r.parse(object) {
		return &Error{Code: CodeInternal, Message: "The agent answered with a malformed error"}
	}
	code, ok := CodeOfReason(r.reason)
	if !ok {
		code, ok = CodeOfJSONRPC(r.number)
	}
	if !ok && r.number >= 400 && r.number < 600 {
		code = codeOfHTTP(r.number)
	}
	return r.error(code)
}

// error returns what the report says as an error of that kind.
func (r *errorReport) error(code Code) *Error {
	e := &Error{
		Code:       code,
		Message:    r.message,
		Violations: r.violations,
		Metadata:   r.metadata,
		RetryAfter: r.retryAfter,
	}
	switch {
	case e.Message == "" && r.remark == "":
		e.Message = code.String()
	case e.Message == "":
		e.Message = r.remark
	case r.remark != "":
		e.Message += ": " + r.remark
	}
	return e
}

// codeOfStatus returns the kind of an error that has no reason.
func (r *errorReport) codeOfStatus(httpStatus int) Code {
	if httpStatus < 400 {
		httpStatus = r.number
	}
	switch httpStatus {
	case 413, 415, 429: // these say more than their INVALID_ARGUMENT
		return codeOfHTTP(httpStatus)
	}
	status := r.status
	if status == "" && r.number > 0 && r.number < len(statusNames) {
		status = statusNames[r.number]
	}
	switch status {
	case "NOT_FOUND":
		return CodeTaskNotFound
	case "INVALID_ARGUMENT", "OUT_OF_RANGE":
		return CodeInvalidParams
	case "FAILED_PRECONDITION", "ALREADY_EXISTS", "ABORTED":
		return CodeUnsupportedOperation
	case "UNIMPLEMENTED":
		return CodeMethodNotFound
	case "UNAUTHENTICATED":
		return CodeUnauthenticated
	case "PERMISSION_DENIED":
		return CodePermissionDenied
	case "RESOURCE_EXHAUSTED":
		return CodeResourceExhausted
	case "UNAVAILABLE", "DEADLINE_EXCEEDED":
		return CodeUnavailable
	}
	return codeOfHTTP(httpStatus)
}

// statusNames are the names of google.rpc.Code by number.
var statusNames = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
	"ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// codeOfHTTP returns the kind of an error of which only the HTTP status is
// known.
func codeOfHTTP(status int) Code {
	switch status {
	case 400, 422:
		return CodeInvalidParams
	case 401:
		return CodeUnauthenticated
	case 403:
		return CodePermissionDenied
	case 404, 405:
		return CodeMethodNotFound
	case 406, 415:
		return CodeContentTypeNotSupported
	case 409, 501:
		return CodeUnsupportedOperation
	case 413:
		return CodeTooLarge
	case 429:
		return CodeResourceExhausted
	case 408, 502, 503, 504:
		return CodeUnavailable
	}
	if status >= 400 && status < 500 {
		return CodeInvalidRequest
	}
	return CodeInternal
}
