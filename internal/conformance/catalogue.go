package conformance

import (
	"context"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/internal/card"
)

// check is one thing that is looked at. Its id never changes its meaning.
type check struct {
	id        string
	group     string
	title     string // what a conforming agent does
	paragraph string
	severity  Severity
	only      string // the binding that has it; "" is every one
	sends     bool   // it needs a text to send
	old       bool   // it is about interfaces of version 0.3, and the others are not

	// One of the two: about the card, or about an interface.
	card func(context.Context, *cardCheck, *finding)
	run  func(context.Context, *probe, *finding)
}

// The groups, in the order of the report.
const (
	groupCard       = "Card"
	groupProtocol   = "Protocol"
	groupTasks      = "Tasks"
	groupCapability = "Capabilities"
	groupMessages   = "Messages"
	groupStreams    = "Streams"
	groupWebhooks   = "Webhooks"
	groupObjects    = "Objects"
	groupOld        = "Version 0.3"
)

// Info is what a check is, for lists of them.
type Info struct {
	ID        string   `json:"id"`
	Group     string   `json:"group"`
	Title     string   `json:"title"`
	Paragraph string   `json:"paragraph"`
	Severity  Severity `json:"severity"`
	Binding   string   `json:"binding,omitempty"` // the only one that has it
	Sends     bool     `json:"sends"`
}

// Checks returns all checks, in the order in which they run.
func Checks() []Info {
	var out []Info
	for _, c := range checks() {
		out = append(out, Info{ID: c.id, Group: c.group, Title: c.title, Paragraph: c.paragraph, Severity: c.severity, Binding: c.only, Sends: c.sends})
	}
	return out
}

// about returns a check of what every answer shows.
func about(t topic) func(context.Context, *probe, *finding) {
	return func(_ context.Context, p *probe, f *finding) { f.problems(p.observed, t) }
}

// checks returns all checks. Later ones use what earlier ones have found.
func checks() []check {
	const jsonRPC, rest, grpc = a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC
	return []check{
		{id: "card.found", group: groupCard, title: "An agent card is where clients look for it", paragraph: "A2A §8.1, §8.2", severity: Must, card: checkCardFound},
		{id: "card.media-type", group: groupCard, title: "The card is served as JSON", paragraph: "A2A §14.3", severity: Should, card: checkCardMedia},
		{id: "card.interface", group: groupCard, title: "The card has an interface of version 1.0 over JSONRPC, HTTP+JSON or GRPC", paragraph: "A2A §4.4.6, §8.3.1", severity: Must, card: checkCardInterface},
		{id: "card.required", group: groupCard, title: "Every required field of the card is there", paragraph: "A2A §4.4.1, §5.7", severity: Must, card: checkCardRequired},
		{id: "card.fields", group: groupCard, title: "The fields of the card have the names, types and values of the definition", paragraph: "A2A §4.4, §5.5", severity: Must, card: checkCardFields},
		{id: "card.valid", group: groupCard, title: "What the card says is well-formed and fits together", paragraph: "A2A §4.4", severity: Must, card: checkCardLint(card.LevelError)},
		{id: "card.advice", group: groupCard, title: "Nothing in the card is probably not meant", paragraph: "A2A §4.4, §13.3", severity: Should, card: checkCardLint(card.LevelWarning)},
		{id: "card.encrypted", group: groupCard, title: "The card and its interfaces are reached over TLS", paragraph: "A2A §7.1", severity: Should, card: checkCardEncrypted},
		{id: "card.cache-control", group: groupCard, title: "The card says how long it may be kept", paragraph: "A2A §8.6.1", severity: Should, card: checkCacheControl},
		{id: "card.etag", group: groupCard, title: "The card has an ETag", paragraph: "A2A §8.6.1", severity: Should, card: checkETag},
		{id: "card.not-modified", group: groupCard, title: "A client that has the card is answered with 304", paragraph: "A2A §8.6.2", severity: Should, card: checkNotModified},
		{id: "card.cors", group: groupCard, title: "Whether browsers of other origins may read the card", paragraph: "A2A §8.2", severity: May, card: checkCORS},
		{id: "card.signature", group: groupCard, title: "The signatures of the card are good", paragraph: "A2A §8.4", severity: Must, card: checkSignatures},

		{id: "interface.reachable", group: groupProtocol, title: "The interface is at its URL and speaks its binding", paragraph: "A2A §8.3.1", severity: Must, run: checkReachable},
		{id: "version.unsupported", group: groupProtocol, title: "A version that does not exist is refused with VersionNotSupportedError", paragraph: "A2A §3.6.2", severity: Must, run: checkVersionUnsupported},
		{id: "version.empty", group: groupProtocol, title: "A request without a version is not taken for one of 1.0", paragraph: "A2A §3.6.2", severity: Must, run: checkVersionEmpty},
		{id: "version.patch", group: groupProtocol, title: "A patch number in the version changes nothing", paragraph: "A2A §3.6", severity: Should, run: checkVersionPatch},
		{id: "version.parameter", group: groupProtocol, title: "The version may be a parameter of the URL", paragraph: "A2A §3.6.1", severity: Should, run: checkVersionParameter},
		{id: "auth.required", group: groupProtocol, title: "A caller without credentials is refused where the card requires them", paragraph: "A2A §7.4", severity: Must, run: checkAuthRequired},
		{id: "auth.wrong", group: groupProtocol, title: "A credential that nobody has issued is refused", paragraph: "A2A §7.4", severity: Must, run: checkAuthWrong},
		{id: "auth.challenge", group: groupProtocol, title: "The refusal says how to authenticate", paragraph: "A2A §3.3.2", severity: Should, run: checkAuthChallenge},
		{id: "jsonrpc.parse", group: groupProtocol, title: "A body that is not JSON is refused with -32700", paragraph: "A2A §9.5", severity: Must, only: jsonRPC, run: checkParseError},
		{id: "jsonrpc.request", group: groupProtocol, title: "JSON that is no request is refused with -32600", paragraph: "A2A §9.3, §9.5", severity: Must, only: jsonRPC, run: checkInvalidRequest},
		{id: "jsonrpc.method", group: groupProtocol, title: "A method that does not exist is refused with -32601", paragraph: "A2A §9.5", severity: Must, only: jsonRPC, run: checkUnknownMethod},
		{id: "jsonrpc.id", group: groupProtocol, title: "The id of a request comes back, be it a text or a number", paragraph: "A2A §9.1", severity: Must, only: jsonRPC, run: checkIDs},
		{id: "rest.parse", group: groupProtocol, title: "A body that is not JSON is refused with HTTP 400", paragraph: "A2A §3.3.2, §11.6", severity: Must, only: rest, run: checkRESTParse},
		{id: "rest.path", group: groupProtocol, title: "A path that does not exist is HTTP 404 with an error as its body", paragraph: "A2A §11.6", severity: Should, only: rest, run: checkRESTPath},
		{id: "grpc.method", group: groupProtocol, title: "A method that does not exist is UNIMPLEMENTED", paragraph: "A2A §10.1", severity: Must, only: grpc, run: checkGRPCMethod},
		{id: "params.invalid", group: groupProtocol, title: "Parameters that are wrong are refused as invalid", paragraph: "A2A §3.3.2", severity: Must, run: checkInvalidParams},
		{id: "params.fields", group: groupProtocol, title: "The refusal names the fields that are wrong", paragraph: "A2A §3.3.2", severity: Should, run: checkInvalidFields},
		{id: "params.unknown", group: groupProtocol, title: "Fields that are not known are ignored", paragraph: "A2A §5.7", severity: Should, run: checkUnknownFields},

		{id: "task.get-unknown", group: groupTasks, title: "GetTask of an unknown task is TaskNotFoundError", paragraph: "A2A §3.1.3, §5.4", severity: Must, run: checkUnknownTask(opGet)},
		{id: "task.cancel-unknown", group: groupTasks, title: "CancelTask of an unknown task is TaskNotFoundError", paragraph: "A2A §3.1.5, §5.4", severity: Must, run: checkUnknownTask(opCancel)},
		{id: "task.subscribe-unknown", group: groupTasks, title: "SubscribeToTask of an unknown task is TaskNotFoundError", paragraph: "A2A §3.1.6, §5.4", severity: Must, run: streaming.with(checkSubscribeUnknown)},
		{id: "list.answer", group: groupTasks, title: "ListTasks answers with tasks, their number, the size of the page and the next page", paragraph: "A2A §3.1.4", severity: Must, run: checkList},
		{id: "list.page", group: groupTasks, title: "A page has no more tasks than were asked for, and the next one has others", paragraph: "A2A §3.1.4", severity: Must, run: listing(checkPaging)},
		{id: "list.order", group: groupTasks, title: "The tasks with the latest status come first", paragraph: "A2A §3.1.4", severity: Must, run: listing(checkOrder)},
		{id: "list.no-artifacts", group: groupTasks, title: "Lists have no artifacts unless they are asked for", paragraph: "A2A §3.1.4", severity: Must, run: listing(checkNoArtifacts)},
		{id: "list.invalid", group: groupTasks, title: "A page of fewer than no tasks is refused as invalid", paragraph: "A2A §3.1.4, §3.3.2", severity: Must, run: listing(checkListInvalid)},
		{id: "list.token", group: groupTasks, title: "A page token that the agent has not given is refused", paragraph: "A2A §3.3.2", severity: Should, run: listing(checkListToken)},

		{id: "capability.streaming", group: groupCapability, title: "Without the capability, SubscribeToTask is UnsupportedOperationError", paragraph: "A2A §3.3.4", severity: Must, run: streaming.without(checkNoSubscribe)},
		{id: "capability.push", group: groupCapability, title: "Without the capability, webhooks are PushNotificationNotSupportedError", paragraph: "A2A §3.3.4", severity: Must, run: webhooks.without(checkNoPush)},
		{id: "push.unknown", group: groupCapability, title: "The webhooks of an unknown task are TaskNotFoundError", paragraph: "A2A §3.1.9", severity: Must, run: webhooks.with(checkPushUnknown)},
		{id: "capability.extended", group: groupCapability, title: "Without the capability, the extended card is UnsupportedOperationError", paragraph: "A2A §3.1.11, §3.3.4", severity: Must, run: extended.without(checkNoExtended)},
		{id: "extended.auth", group: groupCapability, title: "The extended card is refused to callers without credentials", paragraph: "A2A §13.3", severity: Must, run: extended.with(checkExtendedAuth)},
		{id: "extended.card", group: groupCapability, title: "The extended card is a card, or ExtendedAgentCardNotConfiguredError", paragraph: "A2A §3.1.11", severity: Must, run: extended.with(checkExtendedCard)},

		{id: "send.invalid", group: groupMessages, title: "A message without parts is refused as invalid", paragraph: "A2A §3.3.2, §5.7", severity: Must, sends: true, run: checkSendInvalid},
		{id: "send.unknown-task", group: groupMessages, title: "A message to an unknown task is TaskNotFoundError", paragraph: "A2A §3.4.2", severity: Must, sends: true, run: checkSendUnknownTask},
		{id: "send.extension", group: groupMessages, title: "Without an extension that the card requires, a message is ExtensionSupportRequiredError", paragraph: "A2A §3.3.4", severity: Must, sends: true, run: checkSendExtension},
		{id: "send.blocking", group: groupMessages, title: "SendMessage answers with a message, or a task that is over or waits", paragraph: "A2A §3.1.1, §3.2.2", severity: Must, sends: true, run: checkSendBlocking},
		{id: "send.ids", group: groupMessages, title: "A new task has an id of its own and the id of its context", paragraph: "A2A §3.4.1, §3.4.2", severity: Must, sends: true, run: checkSendIDs},
		{id: "send.immediate", group: groupMessages, title: "With returnImmediately, SendMessage does not wait for the task", paragraph: "A2A §3.2.2", severity: Must, sends: true, run: checkSendImmediate},
		{id: "subscribe.first", group: groupMessages, title: "SubscribeToTask begins with the task", paragraph: "A2A §3.1.6", severity: Must, sends: true, run: streaming.with(checkSubscribeFirst)},
		{id: "cancel.running", group: groupMessages, title: "CancelTask answers with the task, or TaskNotCancelableError", paragraph: "A2A §3.1.5", severity: Must, sends: true, run: checkCancelRunning},
		{id: "cancel.again", group: groupMessages, title: "Canceling once more changes nothing", paragraph: "A2A §3.3.1", severity: Must, sends: true, run: checkCancelAgain},
		{id: "send.repeated", group: groupMessages, title: "Whether a message that comes twice is done once", paragraph: "A2A §3.3.1", severity: May, sends: true, run: checkRepeated},
		{id: "context.kept", group: groupMessages, title: "A message that names a context is refused, or its task is in this context", paragraph: "A2A §3.4.1", severity: Must, sends: true, run: checkContextKept},
		{id: "context.mismatch", group: groupMessages, title: "A message to a task in another context than the task's is refused", paragraph: "A2A §3.4.3", severity: Must, sends: true, run: checkContextMismatch},
		{id: "task.get", group: groupMessages, title: "GetTask answers with the task as it was answered before", paragraph: "A2A §3.1.3", severity: Must, sends: true, run: checkGetSame},
		{id: "task.bindings", group: groupMessages, title: "Every interface has the same tasks", paragraph: "A2A §5.1", severity: Must, sends: true, run: checkSameOverBindings},
		{id: "history.zero", group: groupMessages, title: "With historyLength 0 there is no history", paragraph: "A2A §3.2.4", severity: Should, sends: true, run: checkHistory(0)},
		{id: "history.limit", group: groupMessages, title: "With historyLength 1 there is no more than one message", paragraph: "A2A §3.2.4", severity: Must, sends: true, run: checkHistory(1)},
		{id: "list.context", group: groupMessages, title: "ListTasks of a context has the task, and none of other contexts", paragraph: "A2A §3.1.4", severity: Must, sends: true, run: checkListContext},
		{id: "list.artifacts", group: groupMessages, title: "With includeArtifacts, lists have the artifacts", paragraph: "A2A §3.1.4", severity: Must, sends: true, run: checkListArtifacts},
		{id: "task.closed", group: groupMessages, title: "A message to a task that is over is UnsupportedOperationError", paragraph: "A2A §3.1.1", severity: Must, sends: true, run: checkSendClosed},
		{id: "cancel.closed", group: groupMessages, title: "CancelTask of a task that is over is TaskNotCancelableError", paragraph: "A2A §3.1.5", severity: Must, sends: true, run: checkCancelClosed},
		{id: "subscribe.closed", group: groupMessages, title: "SubscribeToTask of a task that is over is UnsupportedOperationError", paragraph: "A2A §3.1.6", severity: Must, sends: true, run: checkSubscribeClosed},

		{id: "stream.refused", group: groupStreams, title: "Without the capability, SendStreamingMessage is UnsupportedOperationError", paragraph: "A2A §3.3.4", severity: Must, sends: true, run: streaming.without(checkNoStream)},
		{id: "stream.events", group: groupStreams, title: "SendStreamingMessage answers with a stream of events", paragraph: "A2A §3.1.2, §9.4.2, §11.7", severity: Must, sends: true, run: streaming.with(checkStream)},
		{id: "stream.first", group: groupStreams, title: "The first event is the task, or the message that answers", paragraph: "A2A §3.1.2", severity: Must, sends: true, run: checkStreamFirst},
		{id: "stream.kinds", group: groupStreams, title: "Every event is one of task, message, statusUpdate and artifactUpdate", paragraph: "A2A §3.2.3", severity: Must, sends: true, run: checkStreamKinds},
		{id: "stream.ids", group: groupStreams, title: "Every event names the same task and context", paragraph: "A2A §4.2.1, §4.2.2", severity: Must, sends: true, run: checkStreamIDs},
		{id: "stream.end", group: groupStreams, title: "The stream ends when the task is over, and after a message", paragraph: "A2A §3.1.2", severity: Must, sends: true, run: checkStreamEnd},
		{id: "stream.state", group: groupStreams, title: "GetTask has the state that the stream ended with", paragraph: "A2A §3.5.2", severity: Must, sends: true, run: checkStreamState},

		{id: "push.refused", group: groupWebhooks, title: "Without the capability, a webhook is refused with PushNotificationNotSupportedError", paragraph: "A2A §3.1.7, §3.3.4", severity: Must, sends: true, run: checkPushRefused},
		{id: "push.create", group: groupWebhooks, title: "A webhook that is made is answered with its id and its URL", paragraph: "A2A §3.1.7", severity: Must, sends: true, run: checkPushCreate},
		{id: "push.get", group: groupWebhooks, title: "The webhook is found by its id", paragraph: "A2A §3.1.8", severity: Must, sends: true, run: checkPushGet},
		{id: "push.list", group: groupWebhooks, title: "The webhook is in the list of its task", paragraph: "A2A §3.1.9", severity: Must, sends: true, run: checkPushList},
		{id: "push.delete", group: groupWebhooks, title: "A webhook that is deleted is gone", paragraph: "A2A §3.1.8, §3.1.10", severity: Must, sends: true, run: checkPushDelete},
		{id: "push.delete-again", group: groupWebhooks, title: "Deleting it once more is no error", paragraph: "A2A §3.1.10", severity: Must, sends: true, run: checkPushDeleteAgain},

		{id: "jsonrpc.envelope", group: groupObjects, title: "Answers are responses of JSON-RPC 2.0", paragraph: "A2A §9.1", severity: Must, only: jsonRPC, run: about(envelope)},
		{id: "content.type", group: groupObjects, title: "Answers are declared as JSON", paragraph: "A2A §9.1, §11.1", severity: Must, run: checkContentType},
		{id: "content.a2a", group: groupObjects, title: "Answers are declared as application/a2a+json", paragraph: "A2A §11.1", severity: Should, only: rest, run: about(mediaA2A)},
		{id: "error.details", group: groupObjects, title: "Every detail of an error has a type", paragraph: "A2A §3.3.2", severity: Must, run: about(details)},
		{id: "error.info", group: groupObjects, title: "Errors have a google.rpc.ErrorInfo and all else that the binding gives them, and come before a stream", paragraph: "A2A §9.5, §11.6", severity: Should, run: about(errorInfo)},
		{id: "object.required", group: groupObjects, title: "Objects have every required field", paragraph: "A2A §5.7", severity: Must, run: about(required)},
		{id: "object.types", group: groupObjects, title: "Fields have the types of the definition", paragraph: "A2A §1.4, §4", severity: Must, run: about(types)},
		{id: "object.one-of", group: groupObjects, title: "Where fields exclude each other there is exactly one", paragraph: "A2A §4.1.6, §3.2.3", severity: Must, run: about(oneOf)},
		{id: "object.names", group: groupObjects, title: "Names of fields are in camelCase", paragraph: "A2A §5.5", severity: Must, run: about(names)},
		{id: "object.enums", group: groupObjects, title: "States and roles have the names of the definition", paragraph: "A2A §5.5", severity: Must, run: about(enums)},
		{id: "object.timestamps", group: groupObjects, title: "Times are ISO 8601 in UTC with a Z", paragraph: "A2A §5.6.1", severity: Must, run: about(timestamps)},
		{id: "object.milliseconds", group: groupObjects, title: "Times have milliseconds", paragraph: "A2A §5.6.1", severity: Should, run: about(millis)},
		{id: "object.null", group: groupObjects, title: "What is not there is left out, and not null", paragraph: "A2A §3.1.4, §5.7", severity: Should, run: about(nulls)},
		{id: "object.legacy", group: groupObjects, title: "Fields of version 0.3, such as kind and final, are gone", paragraph: "A2A §A.2.1", severity: Must, run: about(legacy)},

		{id: "v03.reachable", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "The interface is at its URL and speaks JSON-RPC", paragraph: "A2A 0.3 §5.6.3", run: checkOldReachable},
		{id: "v03.auth", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "A caller without credentials is refused where the card requires them", paragraph: "A2A 0.3 §4", run: checkOldAuth},
		{id: "v03.method", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "A method that does not exist is refused with -32601", paragraph: "A2A 0.3 §8.1", run: checkOldMethod},
		{id: "v03.params", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "Parameters that are wrong are refused with -32602", paragraph: "A2A 0.3 §8.1", run: checkOldParams},
		{id: "v03.get-unknown", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "tasks/get of an unknown task is refused with -32001", paragraph: "A2A 0.3 §7.3, §8.2", run: checkOldUnknown(v03.MethodGet)},
		{id: "v03.cancel-unknown", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "tasks/cancel of an unknown task is refused with -32001", paragraph: "A2A 0.3 §7.4, §8.2", run: checkOldUnknown(v03.MethodCancel)},
		{id: "v03.resubscribe-unknown", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "tasks/resubscribe to an unknown task is refused with -32001, and without the capability with -32004", paragraph: "A2A 0.3 §7.9, §8.2", run: checkOldResubscribe},
		{id: "v03.push-unknown", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "The webhooks of an unknown task are refused with -32001, and without the capability with -32003", paragraph: "A2A 0.3 §7.7, §8.2", run: checkOldPushUnknown},
		{id: "v03.send", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "message/send answers with a message, or a task that is over or waits", paragraph: "A2A 0.3 §7.1", sends: true, run: checkOldSend},
		{id: "v03.get", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "tasks/get answers with the task as it was answered before", paragraph: "A2A 0.3 §7.3", sends: true, run: checkOldGet},
		{id: "v03.cancel-closed", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "tasks/cancel of a task that is over is refused with -32002", paragraph: "A2A 0.3 §7.4, §8.2", sends: true, run: checkOldCancelClosed},
		{id: "v03.stream-refused", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "Without the capability, message/stream is refused with -32004", paragraph: "A2A 0.3 §7.2, §8.2", sends: true, run: streaming.without(checkOldStreamRefused)},
		{id: "v03.stream", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "message/stream answers with events, each a task, a message, a status-update or an artifact-update", paragraph: "A2A 0.3 §7.2", sends: true, run: streaming.with(checkOldStream)},
		{id: "v03.stream-final", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "A stream ends with a final event, or a message", paragraph: "A2A 0.3 §7.2.2", sends: true, run: checkOldFinal},
		{id: "v03.push", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "A webhook that is set is found by its id and can be deleted", paragraph: "A2A 0.3 §7.5, §7.6, §7.8", sends: true, run: webhooks.with(checkOldPush)},
		{id: "v03.objects", group: groupOld, old: true, only: jsonRPC, severity: Must, title: "Objects have their kind, states and roles their names, and nothing that is required is missing", paragraph: "A2A 0.3 §6", sends: true, run: about(oldObjects)},
	}
}
