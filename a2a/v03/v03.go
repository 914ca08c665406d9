// Package v03 is the JSON of version 0.3 of the Agent2Agent protocol, and of the
// dialect before it, as a conversion from and to the objects of version 1.0 in
// package a2a. It does no I/O.
//
// What 0.3 cannot say is left out, and what it says differently is translated;
// docs/v03.md has the list.
package v03

import (
	"strings"

	"handoff.example/handoff/a2a"
)

// ProtocolVersion is how cards name the version.
const ProtocolVersion = "0.3.0"

// WellKnownCardPath is where clients before 0.3.0 look for a card.
const WellKnownCardPath = "/.well-known/agent.json"

// Dialect is one of the forms that the JSON has.
type Dialect uint8

const (
	// RPC is the form of JSON-RPC: objects and parts have a kind, states are in
	// lower case (A2A 0.3 §6).
	RPC Dialect = iota
	// REST is the form of HTTP+JSON, which is that of the ProtoJSON of 0.3's
	// a2a.proto: messages have content, enums have the names of Protocol Buffers,
	// and canceled is spelt CANCELLED.
	REST
	// GRPC is the ProtoJSON of the a2a.proto that gRPC has in the official
	// libraries: that of REST, but messages have parts, under the same number, and
	// tasks that they refer to.
	GRPC
	// TasksSend is the form before 0.2: parts have a type, the client names tasks
	// and sessions, and there are no messages as answers.
	TasksSend
)

// Methods of JSON-RPC (A2A 0.3 §7).
const (
	MethodSend             = "message/send"
	MethodStream           = "message/stream"
	MethodGet              = "tasks/get"
	MethodCancel           = "tasks/cancel"
	MethodResubscribe      = "tasks/resubscribe"
	MethodSetPushConfig    = "tasks/pushNotificationConfig/set"
	MethodGetPushConfig    = "tasks/pushNotificationConfig/get"
	MethodListPushConfigs  = "tasks/pushNotificationConfig/list"
	MethodDeletePushConfig = "tasks/pushNotificationConfig/delete"
	MethodExtendedCard     = "agent/getAuthenticatedExtendedCard"
	// The methods of the dialect before.
	MethodTasksSend          = "tasks/send"
	MethodTasksSendSubscribe = "tasks/sendSubscribe"
)

// TasksSendRequest is the input of tasks/send and tasks/sendSubscribe. The rest
// of it is a SendMessageRequest without a context.
type TasksSendRequest struct {
	ID        string // of the task, made by the client
	SessionID string // that the client has put the task in; "" for none
	Send      a2a.SendMessageRequest
}

var stateNames = [...]string{
	a2a.StateUnspecified:   "unknown",
	a2a.StateSubmitted:     "submitted",
	a2a.StateWorking:       "working",
	a2a.StateCompleted:     "completed",
	a2a.StateFailed:        "failed",
	a2a.StateCanceled:      "canceled",
	a2a.StateInputRequired: "input-required",
	a2a.StateRejected:      "rejected",
	a2a.StateAuthRequired:  "auth-required",
}

// proto reports whether the dialect is the JSON of messages of Protocol Buffers.
func (d Dialect) proto() bool { return d == REST || d == GRPC }

// stateName returns the name of a state.
func (d Dialect) stateName(s a2a.TaskState) string {
	if d.proto() {
		if s == a2a.StateCanceled {
			return "TASK_STATE_CANCELLED"
		}
		return s.String()
	}
	if s < 0 || int(s) >= len(stateNames) {
		return stateNames[a2a.StateUnspecified]
	}
	if d == TasksSend {
		switch s { // it had neither of the two
		case a2a.StateRejected:
			s = a2a.StateFailed
		case a2a.StateAuthRequired:
			s = a2a.StateInputRequired
		}
	}
	return stateNames[s]
}

// parseState reads the name of a state in any of the dialects.
func parseState(name string) (a2a.TaskState, bool) {
	text := strings.ToLower(name)
	text = strings.TrimPrefix(text, "task_state_")
	text = strings.ReplaceAll(text, "_", "-")
	switch text {
	case "cancelled":
		return a2a.StateCanceled, true
	case "unspecified":
		return a2a.StateUnspecified, true
	}
	for s, n := range stateNames {
		if n == text {
			return a2a.TaskState(s), true
		}
	}
	return a2a.StateUnspecified, false
}

// roleName returns the name of a role.
func (d Dialect) roleName(r a2a.Role) string {
	switch {
	case d.proto():
		return r.String()
	case r == a2a.RoleUser:
		return "user"
	}
	return "agent"
}
