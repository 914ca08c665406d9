package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
)

// Codes of failures that the protocol has no name for (a2a-cli Appendix D).
// What is not in its registry has a prefix of ours.
const (
	codeUsage              = "A2ACLI_ERR_USAGE"
	codeCardNotFound       = "A2ACLI_ERR_CARD_NOT_FOUND"
	codeCardInvalid        = "A2ACLI_ERR_CARD_INVALID"
	codeUnreachable        = "A2ACLI_ERR_UNREACHABLE"
	codeCredentialsMissing = "A2ACLI_ERR_CREDENTIALS_MISSING"
	codeAuthFailed         = "A2ACLI_ERR_AUTH_FAILED"
	codeTimeout            = "A2ACLI_ERR_TIMEOUT"
	codeInternal           = "A2ACLI_ERR_INTERNAL"
	codeInterrupted        = "HANDOFF_ERR_INTERRUPTED"
	codeExists             = "HANDOFF_ERR_EXISTS"    // a file that is not written over
	codeNotFound           = "HANDOFF_ERR_NOT_FOUND" // a file, or a grant request
	codeRefused            = "HANDOFF_ERR_REFUSED"   // a node does not do that
)

// exitOf returns the exit code of a failure with that code. A protocol error is
// exitFailure.
func exitOf(code string) int {
	switch code {
	case codeUsage:
		return exitUsage
	case codeCardNotFound, codeUnreachable:
		return exitUnreachable
	case codeCredentialsMissing, codeAuthFailed:
		return exitAuth
	case codeTimeout:
		return exitTimeout
	case codeInterrupted:
		return exitInterrupted
	}
	return exitFailure
}

// failure is an error as the command line tells it (a2a-cli §11.4).
type failure struct {
	Code    string // the protocol's name of the error, or one of the codes above
	Message string
	Hint    string // what to do next; "" is nothing
	A2ACode int    // the JSON-RPC code of a protocol error, whatever the binding; 0 is none
	Exit    int
	Err     error // the cause
}

// Error returns the message.
func (e *failure) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *failure) Unwrap() error { return e.Err }

// hint sets the hint and returns the failure.
func (e *failure) hint(format string, args ...any) *failure {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// failf returns a failure with that code and the exit code that belongs to it.
func failf(code, format string, args ...any) *failure {
	err := fmt.Errorf(format, args...)
	return &failure{Code: code, Message: err.Error(), Exit: exitOf(code), Err: errors.Unwrap(err)}
}

// usagef returns a failure of the command line.
func usagef(format string, args ...any) *failure { return failf(codeUsage, format, args...) }

// failureOf makes a failure of any error. The context is that of the process.
func failureOf(ctx context.Context, err error) *failure {
	if e, ok := errors.AsType[*failure](err); ok {
		return e
	}
	command, isCommand := errors.AsType[*commandError](err)
	if !isCommand {
		return usagef("%v", err).hint("See: handoff --help") // cobra found it
	}
	err = command.err
	if ctx.Err() != nil {
		return failf(codeInterrupted, "interrupted")
	}
	return classify(err)
}

// classify makes a failure of an error of package client or a2a.
func classify(err error) *failure {
	if e, ok := errors.AsType[*failure](err); ok {
		return e
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return protocolFailure(e)
	}
	code := codeInternal
	switch {
	case is[*client.CardError](err):
		code = codeCardInvalid
	case is[*client.InterfaceError](err):
		return interfaceFailure(err)
	case errors.Is(err, client.ErrStreamCut):
		code = codeUnreachable
	default:
		if e, ok := errors.AsType[*client.TransportError](err); ok {
			code = codeOfTransport(e)
		}
	}
	return &failure{Code: code, Message: err.Error(), Exit: exitOf(code), Err: err}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func codeOfTransport(e *client.TransportError) string {
	switch e.Kind {
	case client.KindResolve, client.KindConnect, client.KindTLS, client.KindTimeout:
		return codeUnreachable
	case client.KindCredentials:
		return codeAuthFailed
	case client.KindProtocol:
		if gatewayFailed(e) {
			return codeUnreachable
		}
	}
	return codeInternal
}

// gatewayFailed reports whether a proxy answered in place of the agent.
func gatewayFailed(e *client.TransportError) bool {
	return e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout
}

// protocolFailure names an error as the protocol does (A2A §3.3.2). What says
// who may call has codes of the command line, so that exit code 4 is known by
// one name (a2a-cli Appendix D).
func protocolFailure(e *a2a.Error) *failure {
	f := &failure{Code: e.Code.String(), Message: e.Message, A2ACode: e.Code.JSONRPC(), Exit: exitFailure, Err: e}
	if e.Code == a2a.CodeUnauthenticated || e.Code == a2a.CodePermissionDenied {
		f.Code, f.Exit = codeAuthFailed, exitAuth
	}
	return f
}

// interfaceFailure tells an agent that speaks no version of ours from one that
// speaks none of our bindings.
func interfaceFailure(err error) *failure {
	e, _ := errors.AsType[*client.InterfaceError](err)
	f := failf(codeInternal, "%w", err)
	for _, offered := range e.Offered {
		version, err := a2a.ParseVersion(offered.ProtocolVersion)
		if err == nil && version.Major() == a2a.Version10.Major() {
			return f // it is the binding
		}
	}
	if len(e.Offered) > 0 {
		f.Code = a2a.CodeVersionNotSupported.String()
	}
	return f
}

// printFailure tells the failure: to people on standard error, to programs as
// the envelope on standard output, a line of its own where results are lines
// (a2a-cli Appendix B).
func (a *app) printFailure(e *failure, f format, streamed bool) {
	// Whatever repeats what was given to it, repeats no password.
	shown := *e
	shown.Message = config.Conceal(e.Message)
	e = &shown
	if f != formatText {
		_ = a.writeDocument(f, e.appendEnvelope(nil), streamed)
		return
	}
	text := "Error: " + e.Message
	if !strings.HasPrefix(e.Code, "A2ACLI_ERR_") && !strings.HasPrefix(e.Code, "HANDOFF_ERR_") {
		text = "Error: " + e.Code + ": " + e.Message
	}
	fmt.Fprintln(a.stderr, oneLine(text))
	if e.Hint != "" {
		fmt.Fprintln(a.stderr, "Hint: "+oneLine(e.Hint))
	}
}

// appendEnvelope appends the JSON of the failure.
func (e *failure) appendEnvelope(dst []byte) []byte {
	quote := func(text string) {
		dst, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(text, "\uFFFD"))
	}
	dst = append(dst, `{"error":{"code":`...)
	quote(e.Code)
	dst = append(dst, `,"message":`...)
	quote(e.Message)
	dst = append(dst, `,"hint":`...)
	if e.Hint == "" {
		dst = append(dst, "null"...)
	} else {
		quote(e.Hint)
	}
	dst = append(dst, `,"a2aCode":`...)
	if e.A2ACode == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(e.A2ACode), 10)
	}
	return append(dst, "}}"...)
}

// warn tells people something that is no failure.
func (a *app) warn(format string, args ...any) {
	fmt.Fprintln(a.stderr, "Warning: "+oneLine(fmt.Sprintf(format, args...)))
}

// note tells people something on standard error.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.stderr, oneLine(fmt.Sprintf(format, args...)))
}
