package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// The operations (A2A §5.3).
const (
	opSend       = "SendMessage"
	opStream     = "SendStreamingMessage"
	opGet        = "GetTask"
	opList       = "ListTasks"
	opCancel     = "CancelTask"
	opSubscribe  = "SubscribeToTask"
	opCreatePush = "CreateTaskPushNotificationConfig"
	opGetPush    = "GetTaskPushNotificationConfig"
	opListPush   = "ListTaskPushNotificationConfigs"
	opDeletePush = "DeleteTaskPushNotificationConfig"
	opExtended   = "GetExtendedAgentCard"
)

// object is a JSON object.
type object = map[string]any

// call is an operation, or something like one, to be carried out over a binding.
type call struct {
	op     string
	params object

	version      string        // of A2A-Version; "" is 1.0
	noVersion    bool          // the header is left out
	versionQuery bool          // the version goes into the query
	anonymous    bool          // without credentials
	wrongSecret  bool          // with a credential that nobody has issued
	noExtensions bool          // without A2A-Extensions
	limit        time.Duration // 0 is the limit of a call

	// each is told every event of a stream and says whether to read on; nil
	// reads to the end.
	each func(event any) bool
}

// binding carries calls to an interface.
type binding interface {
	// do carries out an operation. A streaming one is read to its end.
	do(ctx context.Context, c *call) *answer
	// wrong says in what an answer is not the error of that code, as the binding
	// writes it: what the specification requires, and what it recommends.
	wrong(a *answer, want a2a.Code) (must, should []string)
}

// answer is what came of a call.
type answer struct {
	op      string
	sent    string        // in one line
	took    time.Duration // until the answer was there
	err     error         // there was none
	timeout bool          // because none came in time
	cut     bool          // because the time of the run was over

	status int // of HTTP; 0 with gRPC
	header http.Header
	body   []byte
	// malformed says why the answer is not one of the binding; "" when it is.
	malformed string
	result    any // the result; nil when there is none
	fault     *fault

	// Of a stream.
	streamed bool
	events   []any
	closed   bool // the agent ended it
}

// fault is an error that an agent answered with.
type fault struct {
	code       int    // of JSON-RPC, HTTP or gRPC
	status     string // the name of the google.rpc.Code, where the binding has one
	message    string
	details    []any
	hasDetails bool
	badDetails string // why the details are none; "" when they are
	reason     string // of google.rpc.ErrorInfo
	domain     string
	fields     []string // of google.rpc.BadRequest
}

// readDetails takes details apart (A2A §3.3.2).
func (f *fault) readDetails(details any) {
	f.hasDetails = true
	list, ok := details.([]any)
	if !ok {
		f.badDetails = "the details are not an array"
		return
	}
	f.details = list
	for _, d := range list {
		o, ok := d.(object)
		if !ok {
			f.badDetails = "a detail is not an object"
			continue
		}
		name, ok := o["@type"].(string)
		if !ok {
			f.badDetails = "a detail has no @type"
			continue
		}
		switch name[strings.LastIndexByte(name, '/')+1:] {
		case "google.rpc.ErrorInfo":
			f.reason, f.domain = text(o["reason"]), text(o["domain"])
		case "google.rpc.BadRequest":
			violations, _ := o["fieldViolations"].([]any)
			for _, v := range violations {
				if field := text(member(v, "field")); field != "" {
					f.fields = append(f.fields, field)
				}
			}
		}
	}
}

// failed reports whether the agent gave no answer at all.
func (a *answer) failed() bool { return a.err != nil }

// refused reports whether the answer is that the caller may not call.
func (a *answer) refused() bool {
	if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
		return true
	}
	if a.fault == nil {
		return false
	}
	return a.fault.status == "UNAUTHENTICATED" || a.fault.status == "PERMISSION_DENIED" ||
		a.fault.reason == "UNAUTHENTICATED" || a.fault.reason == "PERMISSION_DENIED"
}

// limited reports whether the answer is that there are too many calls, or that
// the agent is away for a while.
func (a *answer) limited() bool {
	if a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable || a.status == http.StatusBadGateway {
		return true
	}
	return a.fault != nil && (a.fault.status == "RESOURCE_EXHAUSTED" || a.fault.status == "UNAVAILABLE" || a.fault.reason == "RESOURCE_EXHAUSTED")
}

// retryAfter returns how long an agent that has no time wants to be left alone,
// where that is not long.
func (a *answer) retryAfter() (time.Duration, bool) {
	if !a.limited() {
		return 0, false
	}
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	return wait, err == nil && wait >= 0 && wait <= maxPause
}

// wantsExtension reports whether the answer is that the caller has to declare an
// extension.
func (a *answer) wantsExtension() bool {
	return a.fault != nil && (a.fault.reason == a2a.CodeExtensionSupportRequired.Reason() || a.fault.code == a2a.CodeExtensionSupportRequired.JSONRPC())
}

// describe tells the answer in one line.
func (a *answer) describe() string {
	if a.err != nil {
		return shorten(a.err.Error(), maxQuote)
	}
	var parts []string
	if a.status != 0 {
		parts = append(parts, fmt.Sprintf("HTTP %d", a.status))
	}
	switch {
	case a.fault != nil:
		parts = append(parts, a.fault.describe())
	case a.streamed:
		parts = append(parts, fmt.Sprintf("a stream of %d events", len(a.events)))
	case a.result != nil:
		parts = append(parts, summarize(a.result))
	case len(a.body) > 0:
		parts = append(parts, fmt.Sprintf("%q", shorten(string(a.body), maxQuote/2)))
	}
	if a.malformed != "" {
		parts = append(parts, "("+a.malformed+")")
	}
	return shorten(strings.Join(parts, " "), maxQuote)
}

func (f *fault) describe() string {
	name := f.status
	if f.reason != "" {
		name = f.reason
	}
	return strings.TrimSpace(fmt.Sprintf("error %d %s %q", f.code, name, shorten(f.message, maxQuote/2)))
}

// summarize tells a result by its kind: what agents answer may be anybody's.
func summarize(result any) string {
	if o, ok := result.(object); ok {
		for name, form := range map[string]string{"task": "a task", "message": "a message", "statusUpdate": "a status", "artifactUpdate": "an artifact"} {
			if inner, ok := o[name].(object); ok && len(o) == 1 {
				return form + describeTask(inner)
			}
		}
		if _, ok := o["status"]; ok {
			return "a task" + describeTask(o)
		}
		if tasks, ok := o["tasks"].([]any); ok {
			return fmt.Sprintf("%d tasks", len(tasks))
		}
		names := make([]string, 0, len(o))
		for name := range o {
			names = append(names, name)
		}
		slices.Sort(names)
		return "an object with " + shorten(strings.Join(names, ", "), maxQuote/2)
	}
	return fmt.Sprintf("%T", result)
}

func describeTask(o object) string {
	if state := text(member(o["status"], "state")); state != "" {
		return ", " + state
	}
	return ""
}

// member returns a member of a value that may be an object.
func member(v any, name string) any {
	o, _ := v.(object)
	return o[name]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// parse reads JSON as the protocol has it: UTF-8, without names that stand twice.
func parse(data []byte) (any, error) {
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return nil, fmt.Errorf("it is not JSON: %w", e)
		}
		return nil, errors.New("it is not JSON")
	}
	return v, nil
}

// encode writes the parameters of a call, which are made of what JSON has.
func encode(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return []byte("null")
	}
	return data
}
