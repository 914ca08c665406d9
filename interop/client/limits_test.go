package client

// limits are what the peers cannot do, as their cases have shown. Each names the
// peer, the binding (none: all), the case and what it ends with; the last text is
// for docs/interop.md. A case that begins to work fails until its line is removed.
var limits = []limit{
	{"go", "", "answer after the agent was started again", "task not found", "remember its tasks when it is started again"},
	{"go", "", "answer a request for authorization", "already in progress", "take a message while it waits for authorization: its agents wait for the grant itself"},
	{"go", "", "send to a task that is over", "is InvalidParamsError", "call a message to a task that is over an unsupported operation: it says invalid params"},
	{"go", "", "subscribe to a task that is over", "no active execution|begins with", "refuse to subscribe to a task that is over: it says that the task is unknown, or sends it"},
	{"go", "", "get an unknown webhook", "is InternalError", "say that a webhook is unknown: it says internal error"},

	{"js", "", "answer after the agent was started again", "Task not found", "remember its tasks when it is started again, without a database server or a native module"},
	{"js", "", "send a message without parts", "it was not refused", "refuse a message without parts"},

	{"py03", "", "list the tasks of a context", "which has no ListTasks|Method not found", "list tasks: 0.3 has no such operation for it"},
	{"py03", "", "list page by page", "which has no ListTasks|Method not found", "list tasks: 0.3 has no such operation for it"},
	{"py03", "", "receive the end of a task", `Authorization ""`, "authenticate at a webhook but by its token"},
	{"py03", "", "cancel a task that streams", "nothing came within the idle timeout", "tell a stream that its task was canceled"},
	{"py03", "", "get an unknown webhook", "is InternalError", "say that a webhook is unknown: it says internal error"},
	{"py03", "", "send to a task that is over", "is InvalidParamsError", "call a message to a task that is over an unsupported operation: it says invalid params"},
	{"py03", "JSONRPC", "subscribe to a task that is over", "is InvalidParamsError", "call a subscription to a task that is over an unsupported operation: it says invalid params"},
	{"py03", "JSONRPC", "send a message without parts", "is InternalError", "call a message without parts invalid params: it says internal error"},
	{"py03", "HTTP+JSON", "delete a webhook", "Method Not Allowed", "delete a webhook: it has no such path"},
	{"py03", "HTTP+JSON", "list the webhooks of a task", "unknown exception", "list webhooks: its method is not there"},
	{"py03", "HTTP+JSON", "send a message without parts", "unknown exception", "say what is wrong with a message"},
	{"py03", "HTTP+JSON", "send to an unknown task", "is MethodNotFoundError", "say more of an unknown task than 404"},
	{"py03", "HTTP+JSON", "subscribe to an unknown task", "unexpected EOF", "refuse to subscribe: it breaks off"},
	{"py03", "HTTP+JSON", "subscribe to a task that is over", "unexpected EOF", "refuse to subscribe: it breaks off"},
	{"py03", "GRPC", "get the extended card", "not the extended one", "show an extended card over gRPC"},
	{"py03", "GRPC", "delete a webhook", "Method not implemented", "delete a webhook over gRPC: its method is not there"},
	{"py03", "GRPC", "list the webhooks of a task", "Method not implemented", "list webhooks: its method is not there"},
	{"py03", "GRPC", "send a message without parts", "Message parts cannot be empty", "call a message without parts invalid params: it says internal error"},
	{"py03", "GRPC", "subscribe to a task that is over", "is InvalidParamsError", "call a subscription to a task that is over an unsupported operation: it says invalid params"},

	{"java", "", "get the extended card", "does not declare", "show an extended card without its own HTTP servers"},
	{"java", "", "send and wait for the answer", "is TASK_STATE_WORKING", "wait for the end of a task: its blocking is not that of 1.0"},
	{"java", "", "answer after the agent was started again", "not found|TaskNotFoundError", "remember its tasks when it is started again"},
	{"java", "", "send to an unknown task", "it was not refused", "refuse a message to an unknown task: it makes one of that id"},
	{"java", "", "send to a task that is over", "it was not refused", "refuse a message to a task that is over: it starts it again"},
	{"java", "", "subscribe to a task that is over", "begins with|decode event", "refuse to subscribe to a task that is over: it sends the task, or an error of its own"},
	{"java", "", "get an unknown webhook", "is InternalError", "say that a webhook is unknown: it says internal error"},
	{"java", "", "create a webhook and get it", "InvalidParams|Invalid request content", "take a webhook: its requests are those of a draft of 1.0"},
	{"java", "", "list the webhooks of a task", "InvalidParams|Invalid request content", "take a webhook: its requests are those of a draft of 1.0"},
	{"java", "", "delete a webhook", "InvalidParams|Invalid request content", "take a webhook: its requests are those of a draft of 1.0"},
	{"java", "", "receive the end of a task", "InvalidParams|Invalid request content", "take a webhook: its requests are those of a draft of 1.0"},
	{"java", "", "receive with a token", "InvalidParams|Invalid request content", "take a webhook: its requests are those of a draft of 1.0"},
	{"java", "HTTP+JSON", "get an unknown task", "is MethodNotFoundError", "say what an error is in the form of 1.0"},
	{"java", "HTTP+JSON", "cancel an unknown task", "is MethodNotFoundError", "say what an error is in the form of 1.0"},
	{"java", "HTTP+JSON", "cancel a task that is over", "is UnsupportedOperationError", "say what an error is in the form of 1.0"},
	{"java", "HTTP+JSON", "subscribe to an unknown task", "decode event", "refuse to subscribe in the form of 1.0"},
}
