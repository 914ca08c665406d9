// Package mcp is the vocabulary of the Model Context Protocol: revisions, methods,
// headers, codes, and messages that are scanned and spliced but never decoded as
// a whole. It does no I/O and imports nothing of ours.
//
// Comments cite the specification of revision 2026-07-28 as "MCP page §heading",
// and requirements by the ids that the tests use, such as TRN-15.
package mcp

import "slices"

// Revisions of the protocol. Modern is the one without sessions; Legacy is the
// newest of those that begin with initialize.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25"
)

// Revisions are those that are known, newest first.
var Revisions = []string{Modern, Legacy, "2025-06-18", "2025-03-26"}

// Known reports whether a revision is known.
func Known(revision string) bool { return slices.Contains(Revisions, revision) }

// IsModern reports whether a revision has no sessions. Revisions are dates, so
// that later ones compare greater.
func IsModern(revision string) bool { return revision >= Modern }

// Headers of Streamable HTTP.
const (
	HeaderVersion     = "MCP-Protocol-Version"
	HeaderMethod      = "Mcp-Method"
	HeaderName        = "Mcp-Name"
	HeaderParamPrefix = "Mcp-Param-"
	HeaderSession     = "Mcp-Session-Id" // legacy

	// KeyVersion is HeaderVersion as it stands in an http.Header.
	KeyVersion = "Mcp-Protocol-Version"
)

// Methods.
const (
	MethodDiscover        = "server/discover"
	MethodListTools       = "tools/list"
	MethodCallTool        = "tools/call"
	MethodListPrompts     = "prompts/list"
	MethodGetPrompt       = "prompts/get"
	MethodListResources   = "resources/list"
	MethodListTemplates   = "resources/templates/list"
	MethodReadResource    = "resources/read"
	MethodComplete        = "completion/complete"
	MethodListen          = "subscriptions/listen"
	MethodGetTask         = "tasks/get"
	MethodUpdateTask      = "tasks/update"
	MethodCancelTask      = "tasks/cancel"
	MethodInitialize      = "initialize"            // legacy
	MethodPing            = "ping"                  // legacy
	MethodSetLevel        = "logging/setLevel"      // legacy
	MethodSubscribe       = "resources/subscribe"   // legacy
	MethodUnsubscribe     = "resources/unsubscribe" // legacy
	MethodElicit          = "elicitation/create"
	MethodSample          = "sampling/createMessage"
	MethodListRoots       = "roots/list"
	NotifyInitialized     = "notifications/initialized" // legacy
	NotifyCancelled       = "notifications/cancelled"
	NotifyProgress        = "notifications/progress"
	NotifyMessage         = "notifications/message"
	NotifyTools           = "notifications/tools/list_changed"
	NotifyPrompts         = "notifications/prompts/list_changed"
	NotifyResources       = "notifications/resources/list_changed"
	NotifyResource        = "notifications/resources/updated"
	NotifyAcknowledged    = "notifications/subscriptions/acknowledged"
	NotifyTask            = "notifications/tasks"
	NotifyRoots           = "notifications/roots/list_changed"   // legacy
	NotifyElicitationDone = "notifications/elicitation/complete" // legacy
)

// Keys of _meta.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClient       = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaServer       = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaProgress     = "progressToken"
	MetaTraceparent  = "traceparent"
	MetaTracestate   = "tracestate"
	MetaBaggage      = "baggage"
	// Ours (MET-02).
	MetaKey    = "handoff.example/idempotencyKey"
	MetaStale  = "handoff.example/stale"  // servers whose part of a list is an old one
	MetaOrigin = "handoff.example/server" // which server an answer is of
)

// Extensions.
const (
	// ExtensionTasks is the id of the tasks extension.
	ExtensionTasks = "io.modelcontextprotocol/tasks"
)

// Values of resultType (MCP basic/index §ResultType).
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)

// nameParams says which member of params Mcp-Name carries (TRN-20, TRN-21).
var nameParams = map[string]string{
	MethodCallTool: "name", MethodGetPrompt: "name", MethodReadResource: "uri",
	MethodGetTask: "taskId", MethodUpdateTask: "taskId", MethodCancelTask: "taskId",
}

// NameParam returns which member of the params of a method Mcp-Name carries, or "".
func NameParam(method string) string { return nameParams[method] }

// removed are the methods that revision 2026-07-28 no longer has (VER-09, TSK-13).
var removed = []string{MethodInitialize, MethodPing, MethodSetLevel, MethodSubscribe, MethodUnsubscribe, "tasks/result", "tasks/list"}

// IsRemoved reports whether a method is one that modern servers do not have any
// more.
func IsRemoved(method string) bool { return slices.Contains(removed, method) }

// IsCacheable reports whether complete results of a method say how long they may
// be kept (CCH-01).
func IsCacheable(method string) bool {
	switch method {
	case MethodDiscover, MethodListTools, MethodListPrompts, MethodListResources, MethodListTemplates, MethodReadResource:
		return true
	}
	return false
}
