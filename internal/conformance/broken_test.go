package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/conformance"
)

const (
	overRPC  = a2a.BindingJSONRPC
	overREST = a2a.BindingREST
	overGRPC = a2a.BindingGRPC
	overOld  = overRPC + " 0.3" // as reports name it
)

// defect is a server with one thing wrong, and the check that has to find it.
type defect struct {
	id     string
	on     string // the binding; "" is JSON-RPC
	file   string // the node behind; "" is streaming
	text   string
	before func(*message)
	after  func(*message)
	seen   string // what the result has to tell
}

// whenCard changes the card.
func whenCard(change func(map[string]any)) func(*message) {
	return func(m *message) {
		if m.op == "card" && m.status == http.StatusOK {
			m.edit(change)
		}
	}
}

// whenOp changes the answers of an operation.
func whenOp(op string, change func(*message)) func(*message) {
	return func(m *message) {
		if m.op == op {
			change(m)
		}
	}
}

// otherCode answers an operation with an internal error.
func otherCode(op string) func(*message) {
	return whenOp(op, func(m *message) { m.refuse(-32603) })
}

// everyTask changes the tasks of the answers of an operation.
func everyTask(op string, change func(map[string]any)) func(*message) {
	return whenOp(op, func(m *message) { m.task(change) })
}

// whenAsked refuses requests that hold a text.
func whenAsked(text string, code int) func(*message) {
	return func(m *message) {
		if m.asks(text) {
			m.refuse(code)
		}
	}
}

func capabilities(card map[string]any) map[string]any { return card["capabilities"].(map[string]any) }

// task is a task of a list.
func listed(id, at string) map[string]any {
	return map[string]any{"id": id, "contextId": "c", "status": map[string]any{"state": "TASK_STATE_COMPLETED", "timestamp": at}}
}

func page(tasks ...any) map[string]any {
	return map[string]any{"tasks": tasks, "nextPageToken": "", "pageSize": 50, "totalSize": len(tasks)}
}

func aMessage(text string) map[string]any {
	return map[string]any{"messageId": "m", "role": "ROLE_USER", "parts": []any{map[string]any{"text": text}}}
}

var defects = []defect{
	{id: "card.found", after: whenOp("card", func(m *message) { m.answer(200, "application/json", "[]") })},
	{id: "card.media-type", after: whenOp("card", func(m *message) { m.header.Set("Content-Type", "text/plain") })},
	{id: "card.interface", after: whenCard(func(card map[string]any) {
		for _, i := range card["supportedInterfaces"].([]any) {
			i.(map[string]any)["protocolVersion"] = "0.3"
		}
	}), seen: "version 1.0"},
	{id: "card.required", after: whenCard(func(card map[string]any) { delete(card, "description") }), seen: "card.description"},
	{id: "card.fields", after: whenCard(func(card map[string]any) { card["icon_url"] = "https://example.com/i.png" }), seen: "iconUrl"},
	{id: "card.valid", after: whenCard(func(card map[string]any) {
		skills := card["skills"].([]any)
		card["skills"] = append(skills, skills[0])
	})},
	{id: "card.advice", after: whenCard(func(card map[string]any) { card["documentationUrl"] = "http://docs.example.com/" })},
	{id: "card.encrypted", after: whenCard(func(card map[string]any) {
		card["supportedInterfaces"].([]any)[1].(map[string]any)["url"] = "http://agents.example.com/"
	})},
	{id: "card.cache-control", after: whenOp("card", func(m *message) { m.header.Del("Cache-Control") })},
	{id: "card.etag", after: whenOp("card", func(m *message) { m.header.Del("ETag") })},
	{id: "card.not-modified", before: func(m *message) { m.r.Header.Del("If-None-Match") }},
	{id: "card.signature", after: whenCard(func(card map[string]any) {
		card["signatures"] = []any{map[string]any{"protected": "e30", "signature": "AA"}}
	}), seen: "no alg"},

	{id: "interface.reachable", after: func(m *message) {
		if m.rpc {
			m.answer(200, "text/html", "<html>")
		}
	}},
	{id: "interface.reachable", on: overREST, after: whenOp("GetTask", func(m *message) { m.answer(404, "text/plain", "404 page not found") })},
	{id: "interface.reachable", on: overGRPC, after: whenOp("GetTask", func(m *message) { m.answer(404, "text/plain", "404 page not found") })},
	{id: "version.unsupported", before: func(m *message) { m.r.Header.Set("A2A-Version", "1.0") }},
	{id: "version.unsupported", on: overGRPC, before: func(m *message) { m.r.Header.Set("A2A-Version", "1.0") }},
	{id: "version.empty", before: func(m *message) {
		if m.r.Header.Get("A2A-Version") == "" {
			m.r.Header.Set("A2A-Version", "1.0")
		}
	}},
	{id: "version.patch", before: func(m *message) {
		if m.r.Header.Get("A2A-Version") == "1.0.3" {
			m.r.Header.Set("A2A-Version", "9.9")
		}
	}},
	{id: "version.parameter", before: func(m *message) { m.r.URL.RawQuery = "" }},
	{id: "auth.required", after: whenCard(requireToken)},
	{id: "auth.challenge", before: func(m *message) {
		if m.rpc && m.r.Header.Get("Authorization") == "" {
			m.answer(401, "application/json", "{}")
		}
	}, after: whenCard(requireToken)},
	{id: "auth.wrong", before: func(m *message) { m.r.Header.Del("Authorization") }, after: whenCard(requireToken)},
	{id: "jsonrpc.parse", after: whenFault(-32700, func(m *message) { m.refuse(-32603) })},
	{id: "jsonrpc.request", after: whenFault(-32600, func(m *message) { m.refuse(-32603) })},
	{id: "jsonrpc.method", after: whenFault(-32601, func(m *message) { m.refuse(-32600) })},
	{id: "jsonrpc.id", after: func(m *message) {
		if m.rpc {
			m.edit(func(o map[string]any) {
				if o["id"] == float64(7) {
					o["id"] = "7"
				}
			})
		}
	}},
	{id: "rest.parse", on: overREST, after: func(m *message) {
		if strings.HasSuffix(m.r.URL.Path, "message:send") {
			m.status = 500
		}
	}},
	{id: "rest.path", on: overREST, after: func(m *message) {
		if strings.Contains(m.r.URL.Path, "no-such-path") {
			m.answer(404, "text/plain", "404 page not found")
		}
	}},
	{id: "grpc.method", on: overGRPC, after: whenOp("ConformanceNoSuchMethod", status(2))},
	{id: "params.invalid", after: whenFault(-32602, func(m *message) { m.refuse(-32603) })},
	{id: "params.fields", after: whenFault(-32602, func(m *message) { m.refuse(-32602) })},
	{id: "params.unknown", after: whenAsked("conformanceUnknownField", -32602)},

	{id: "task.get-unknown", after: otherCode("GetTask")},
	{id: "task.get-unknown", on: overREST, after: whenOp("GetTask", func(m *message) { m.status = 400 }), seen: "HTTP 400 and not 404"},
	{id: "task.get-unknown", on: overREST, after: whenOp("GetTask", func(m *message) {
		m.edit(func(o map[string]any) { delete(o["error"].(map[string]any), "details") })
	}), seen: "no google.rpc.ErrorInfo"},
	{id: "task.get-unknown", on: overREST, after: whenOp("GetTask", func(m *message) {
		m.edit(func(o map[string]any) { o["error"].(map[string]any)["code"] = 5 })
	}), seen: "error.code is 5"},
	{id: "task.get-unknown", on: overGRPC, after: whenOp("GetTask", status(9)), seen: "FAILED_PRECONDITION and not NOT_FOUND"},
	{id: "task.get-unknown", on: overGRPC, after: whenOp("GetTask", func(m *message) {
		setGRPC(m, "Grpc-Status-Details-Bin", "")
	}), seen: "no google.rpc.ErrorInfo"},
	{id: "task.cancel-unknown", after: otherCode("CancelTask")},
	{id: "task.subscribe-unknown", after: otherCode("SubscribeToTask")},
	{id: "list.answer", after: whenOp("ListTasks", func(m *message) {
		m.edit(func(o map[string]any) {
			if list, ok := o["result"].(map[string]any); ok {
				delete(list, "nextPageToken")
			}
		})
	}), seen: "nextPageToken"},
	{id: "list.answer", after: otherCode("ListTasks"), seen: "cannot be listed"},
	{id: "list.page", after: whenOp("ListTasks", func(m *message) {
		m.succeed(page(listed("a", "2026-01-02T00:00:00.000Z"), listed("b", "2026-01-01T00:00:00.000Z")))
	})},
	{id: "list.order", after: whenOp("ListTasks", func(m *message) {
		m.succeed(page(listed("a", "2026-01-01T00:00:00.000Z"), listed("b", "2026-01-02T00:00:00.000Z")))
	})},
	{id: "list.no-artifacts", after: whenOp("ListTasks", func(m *message) {
		task := listed("a", "2026-01-01T00:00:00.000Z")
		task["artifacts"] = []any{}
		m.succeed(page(task))
	})},
	{id: "list.invalid", after: whenAsked(`"pageSize":-1`, -32603)},
	{id: "list.token", after: func(m *message) {
		if m.asks("no-such-token") {
			m.succeed(page())
		}
	}},

	{id: "capability.streaming", file: noStreaming, after: otherCode("SubscribeToTask")},
	{id: "capability.push", after: whenCard(func(card map[string]any) { delete(capabilities(card), "pushNotifications") })},
	{id: "push.unknown", after: otherCode("ListTaskPushNotificationConfigs")},
	{id: "capability.extended", after: otherCode("GetExtendedAgentCard")},
	{id: "extended.auth", after: func(m *message) {
		whenCard(func(card map[string]any) { capabilities(card)["extendedAgentCard"] = true })(m)
		whenOp("GetExtendedAgentCard", func(m *message) { m.succeed(map[string]any{"name": "x"}) })(m)
	}},
	{id: "extended.card", after: func(m *message) {
		whenCard(func(card map[string]any) { capabilities(card)["extendedAgentCard"] = true })(m)
		whenOp("GetExtendedAgentCard", func(m *message) { m.succeed(map[string]any{"name": "x"}) })(m)
	}, seen: "card.version"},

	{id: "send.invalid", text: "echo", after: whenAsked(`"parts":[]`, -32603)},
	{id: "send.unknown-task", text: "echo", after: whenFault(-32001, func(m *message) {
		if m.op == "SendMessage" {
			m.refuse(-32603)
		}
	})},
	{id: "send.extension", file: extension, text: "echo", before: func(m *message) {
		m.r.Header.Set("A2A-Extensions", "https://fixture.handoff.example/extensions/required/v1")
	}},
	{id: "send.blocking", text: "echo", after: everyTask("SendMessage", setState("TASK_STATE_WORKING"))},
	{id: "send.ids", text: "echo", after: everyTask("SendMessage", func(task map[string]any) { delete(task, "contextId") })},
	{id: "send.immediate", text: "echo", after: whenOp("SendMessage", func(m *message) {
		if m.asks("returnImmediately") {
			m.succeed(map[string]any{})
		}
	})},
	{id: "subscribe.first", text: "never", before: whenOp("SubscribeToTask", func(m *message) {
		m.answer(200, "text/event-stream", `data: {"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}}`+"\n\n")
	}), seen: "and not the task"},
	{id: "cancel.running", text: "never", before: noSubscription, after: otherCode("CancelTask")},
	{id: "cancel.again", text: "never", before: noSubscription, after: second("CancelTask", func(m *message) { m.refuse(-32603) })},
	{id: "context.kept", text: "echo", after: whenOp("SendMessage", func(m *message) {
		if m.asks(`"contextId"`) {
			m.task(func(task map[string]any) { task["contextId"] = "another" })
		}
	})},
	{id: "context.mismatch", text: "ask", before: noSubscription, after: whenOp("SendMessage", func(m *message) {
		if m.asks(`"contextId"`) {
			m.succeed(map[string]any{"task": listed("x", "2026-01-01T00:00:00.000Z")})
		}
	})},
	{id: "task.get", text: "echo", after: everyTask("GetTask", setState("TASK_STATE_FAILED"))},
	{id: "task.get", text: "echo", on: overGRPC, after: whenOp("GetTask", status(13))},
	{id: "task.bindings", text: "echo", on: overREST, after: func(m *message) {
		if m.op == "GetTask" && !m.rpc {
			m.task(setState("TASK_STATE_FAILED"))
		}
	}},
	{id: "history.zero", text: "echo", after: everyTask("GetTask", func(task map[string]any) { task["history"] = []any{aMessage("a")} })},
	{id: "history.limit", text: "echo", after: everyTask("GetTask", func(task map[string]any) { task["history"] = []any{aMessage("a"), aMessage("b")} })},
	{id: "list.context", text: "echo", after: whenOp("ListTasks", func(m *message) {
		if m.asks(`"contextId"`) {
			m.succeed(page())
		}
	})},
	{id: "list.artifacts", text: "echo", after: whenOp("ListTasks", func(m *message) {
		m.edit(func(o map[string]any) {
			for _, task := range o["result"].(map[string]any)["tasks"].([]any) {
				delete(task.(map[string]any), "artifacts")
			}
		})
	})},
	{id: "task.closed", text: "echo", after: whenFault(-32004, func(m *message) { m.refuse(-32603) })},
	{id: "cancel.closed", text: "echo", after: otherCode("CancelTask")},
	{id: "subscribe.closed", text: "echo", after: otherCode("SubscribeToTask")},

	{id: "stream.refused", file: noStreaming, text: "echo", after: otherCode("SendStreamingMessage")},
	{id: "stream.events", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) { m.header.Set("Content-Type", "application/json") })},
	{id: "stream.events", text: "echo", on: overGRPC, after: whenOp("SendStreamingMessage", func(m *message) { m.answer(200, "application/grpc", "\x00\x00") })},
	{id: "stream.first", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) {
		m.events(func(events []string) []string { return events[min(1, len(events)):] })
	})},
	{id: "stream.kinds", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) {
		m.edit(func(o map[string]any) { o["result"].(map[string]any)["message"] = aMessage("x") })
	})},
	{id: "stream.ids", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) {
		m.edit(func(o map[string]any) {
			if status, ok := o["result"].(map[string]any)["statusUpdate"].(map[string]any); ok {
				status["taskId"] = "another"
			}
		})
	})},
	{id: "stream.end", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) {
		m.events(func(events []string) []string { return events[:len(events)-1] })
	}), seen: "the stream ended while the task is"},
	{id: "stream.end", text: "message hi", after: whenOp("SendStreamingMessage", func(m *message) {
		m.events(func(events []string) []string { return append(events, events[0]) })
	}), seen: "follow the message"},
	{id: "stream.state", text: "echo", after: everyTask("GetTask", setState("TASK_STATE_FAILED"))},

	{id: "push.refused", text: "echo", after: whenCard(func(card map[string]any) { delete(capabilities(card), "pushNotifications") })},
	{id: "push.create", text: "echo", after: whenOp("CreateTaskPushNotificationConfig", func(m *message) {
		m.edit(func(o map[string]any) { o["result"].(map[string]any)["url"] = "https://elsewhere.example" })
	})},
	{id: "push.get", text: "echo", after: otherCode("GetTaskPushNotificationConfig")},
	{id: "push.list", text: "echo", after: whenOp("ListTaskPushNotificationConfigs", func(m *message) { m.succeed(map[string]any{"configs": []any{}}) })},
	{id: "push.delete", text: "echo", after: whenFault(-32001, func(m *message) {
		if m.op == "GetTaskPushNotificationConfig" {
			m.succeed(map[string]any{"id": "x", "url": conformance.DefaultWebhook})
		}
	})},
	{id: "push.delete-again", text: "echo", after: otherCode("DeleteTaskPushNotificationConfig")},

	{id: "jsonrpc.envelope", after: func(m *message) {
		if m.rpc {
			m.edit(func(o map[string]any) { o["jsonrpc"] = "1.0" })
		}
	}},
	{id: "jsonrpc.envelope", after: func(m *message) {
		if m.rpc {
			m.edit(func(o map[string]any) { o["id"] = "another" })
		}
	}, seen: "the id is"},
	{id: "content.type", after: func(m *message) {
		if m.rpc {
			m.header.Set("Content-Type", "text/plain")
		}
	}},
	{id: "content.a2a", on: overREST, after: whenOp("GetTask", func(m *message) { m.header.Set("Content-Type", "application/json") })},
	{id: "error.details", after: whenOp("GetTask", func(m *message) {
		m.edit(func(o map[string]any) { o["error"].(map[string]any)["data"] = []any{map[string]any{"taskId": "x"}} })
	}), seen: "no @type"},
	{id: "error.info", after: whenFault(-32001, func(m *message) { m.refuse(-32001) }), seen: "no google.rpc.ErrorInfo"},
	{id: "object.required", text: "echo", after: everyTask("SendMessage", func(task map[string]any) {
		for _, a := range task["artifacts"].([]any) {
			delete(a.(map[string]any), "artifactId")
		}
	}), seen: "artifactId"},
	{id: "object.required", text: "echo", after: everyTask("SendMessage", func(task map[string]any) {
		for _, a := range task["artifacts"].([]any) {
			a.(map[string]any)["parts"] = []any{}
		}
	}), seen: "has no element"},
	{id: "object.types", text: "echo", after: everyTask("SendMessage", func(task map[string]any) { task["artifacts"] = map[string]any{} })},
	{id: "object.one-of", text: "echo", after: everyTask("SendMessage", firstPart(func(part map[string]any) { part["url"] = "https://example.com" }))},
	{id: "object.names", text: "echo", after: everyTask("SendMessage", func(task map[string]any) {
		task["context_id"] = task["contextId"]
		delete(task, "contextId")
	})},
	{id: "object.enums", text: "echo", after: everyTask("SendMessage", setState("completed"))},
	{id: "object.timestamps", text: "echo", after: everyTask("SendMessage", setTime("2026-01-01T00:00:00.000+02:00"))},
	{id: "object.milliseconds", text: "echo", after: everyTask("SendMessage", setTime("2026-01-01T00:00:00Z"))},
	{id: "object.null", text: "echo", after: everyTask("SendMessage", func(task map[string]any) { task["artifacts"] = nil })},
	{id: "object.legacy", text: "echo", after: everyTask("SendMessage", func(task map[string]any) { task["kind"] = "task" })},
	{id: "object.legacy", text: "echo", after: whenOp("SendStreamingMessage", func(m *message) {
		m.edit(func(o map[string]any) {
			if status, ok := o["result"].(map[string]any)["statusUpdate"].(map[string]any); ok {
				status["final"] = true
			}
		})
	}), seen: "final"},

	{id: "v03.reachable", on: overOld, after: func(m *message) {
		if m.rpc {
			m.answer(200, "text/html", "<html>")
		}
	}},
	{id: "v03.auth", on: overOld, after: func(m *message) { whenCard(requireToken)(m) }},
	{id: "v03.method", on: overOld, after: otherCode("conformance/none")},
	{id: "v03.params", on: overOld, after: whenFault(-32602, func(m *message) { m.refuse(-32603) })},
	{id: "v03.get-unknown", on: overOld, after: otherCode("tasks/get"), seen: "code -32603 and not -32001"},
	{id: "v03.cancel-unknown", on: overOld, after: otherCode("tasks/cancel")},
	{id: "v03.resubscribe-unknown", on: overOld, after: otherCode("tasks/resubscribe")},
	{id: "v03.resubscribe-unknown", on: overOld, file: bothNoStreaming, after: otherCode("tasks/resubscribe"), seen: "code -32603 and not -32004"},
	{id: "v03.push-unknown", on: overOld, after: otherCode("tasks/pushNotificationConfig/list")},
	{id: "v03.push-unknown", on: overOld, after: whenCard(func(card map[string]any) { delete(capabilities(card), "pushNotifications") }), seen: "and not -32003"},
	{id: "v03.send", on: overOld, text: "echo", after: everyTask("message/send", func(task map[string]any) { task["kind"] = "status-update" })},
	{id: "v03.send", on: overOld, text: "echo", after: everyTask("message/send", setState("working")), seen: "neither over nor waiting"},
	{id: "v03.send", on: overOld, text: "echo", after: everyTask("message/send", func(task map[string]any) { delete(task, "contextId") }), seen: "no contextId"},
	{id: "v03.get", on: overOld, text: "echo", after: everyTask("tasks/get", setState("failed")), seen: `"failed" and was "completed"`},
	{id: "v03.get", on: overOld, text: "echo", after: everyTask("tasks/get", func(task map[string]any) { task["contextId"] = "another" }), seen: "its contextId is another"},
	{id: "v03.cancel-closed", on: overOld, text: "echo", after: otherCode("tasks/cancel")},
	{id: "v03.stream-refused", on: overOld, file: bothNoStreaming, text: "echo", after: otherCode("message/stream")},
	{id: "v03.stream", on: overOld, text: "echo", after: whenOp("message/stream", func(m *message) { m.header.Set("Content-Type", "application/json") })},
	{id: "v03.stream", on: overOld, text: "echo", after: whenOp("message/stream", func(m *message) {
		m.edit(func(o map[string]any) { delete(o["result"].(map[string]any), "kind") })
	}), seen: `the kind of event 1 is ""`},
	{id: "v03.stream-final", on: overOld, text: "echo", after: whenOp("message/stream", func(m *message) {
		m.edit(func(o map[string]any) { delete(o["result"].(map[string]any), "final") })
	}), seen: "is not final"},
	{id: "v03.stream-final", on: overOld, text: "echo", after: whenOp("message/stream", func(m *message) {
		m.events(func(events []string) []string { return events[:len(events)-1] })
	}), seen: "without a final event"},
	{id: "v03.stream-final", on: overOld, text: "echo", after: whenOp("message/stream", func(m *message) {
		m.events(func(events []string) []string { return append(events, events[0]) })
	}), seen: "1 events follow the final one"},
	{id: "v03.stream-final", on: overOld, text: "message hi", after: whenOp("message/stream", func(m *message) {
		m.events(func(events []string) []string { return append(events, events[0]) })
	}), seen: "follow the message"},
	{id: "v03.push", on: overOld, text: "echo", after: whenOp("tasks/pushNotificationConfig/get", func(m *message) { m.refuse(-32001) })},
	{id: "v03.push", on: overOld, text: "echo", after: whenOp("tasks/pushNotificationConfig/set", func(m *message) {
		m.edit(func(o map[string]any) {
			o["result"].(map[string]any)["pushNotificationConfig"].(map[string]any)["url"] = "https://elsewhere.example"
		})
	}), seen: "elsewhere"},
	{id: "v03.push", on: overOld, text: "echo", after: otherCode("tasks/pushNotificationConfig/delete"), seen: "not deleted"},
	{id: "v03.objects", on: overOld, text: "echo", after: everyTask("message/send", setState("TASK_STATE_COMPLETED")), seen: `the state "TASK_STATE_COMPLETED"`},
	{id: "v03.objects", on: overOld, text: "echo", after: everyTask("message/send", firstPart(func(part map[string]any) { delete(part, "kind") })), seen: `parts[0] has the kind ""`},
	{id: "v03.objects", on: overOld, text: "echo", after: everyTask("message/send", func(task map[string]any) {
		m := aMessage("a")
		m["kind"] = "message"
		task["history"] = []any{m}
	}), seen: `the role "ROLE_USER"`},
	{id: "v03.objects", on: overOld, text: "echo", after: everyTask("message/send", func(task map[string]any) { task["artifacts"] = map[string]any{} }), seen: "is no array"},
}

// noSubscription refuses subscriptions: a server that tampers answers with a
// stream when it is over, and the task is too.
func noSubscription(m *message) {
	if m.op == "SubscribeToTask" {
		m.answer(200, "application/json", "{}")
	}
}

// second changes all answers of an operation but the first.
func second(op string, change func(*message)) func(*message) {
	var count atomic.Int32
	return whenOp(op, func(m *message) {
		if m.status == http.StatusOK && bytes.Contains(m.body, []byte("TASK_STATE_CANCELED")) && count.Add(1) > 1 {
			change(m)
		}
	})
}

// requireToken lets a card require a bearer token.
func requireToken(card map[string]any) {
	card["securitySchemes"] = map[string]any{"token": map[string]any{"httpAuthSecurityScheme": map[string]any{"scheme": "Bearer"}}}
	card["securityRequirements"] = []any{map[string]any{"schemes": map[string]any{"token": map[string]any{"list": []any{}}}}}
}

// whenFault changes answers that are an error of JSON-RPC with that code.
func whenFault(code int, change func(*message)) func(*message) {
	return func(m *message) {
		var answer struct{ Error struct{ Code int } }
		if m.rpc && json.Unmarshal(m.body, &answer) == nil && answer.Error.Code == code {
			change(m)
		}
	}
}

func setState(state string) func(map[string]any) {
	return func(task map[string]any) { task["status"].(map[string]any)["state"] = state }
}

func setTime(text string) func(map[string]any) {
	return func(task map[string]any) { task["status"].(map[string]any)["timestamp"] = text }
}

func firstPart(change func(map[string]any)) func(map[string]any) {
	return func(task map[string]any) {
		for _, a := range task["artifacts"].([]any) {
			change(a.(map[string]any)["parts"].([]any)[0].(map[string]any))
		}
	}
}

// setGRPC sets a header of the status of gRPC, or removes it.
func setGRPC(m *message, name, value string) {
	for _, key := range []string{name, http.TrailerPrefix + name} {
		if _, ok := m.header[key]; !ok {
			continue
		}
		if value == "" {
			delete(m.header, key)
		} else {
			m.header[key] = []string{value}
		}
	}
}

// status sets the status of gRPC.
func status(code int) func(*message) {
	return func(m *message) { setGRPC(m, "Grpc-Status", strconv.Itoa(code)) }
}

// TestEveryCheckFindsItsDefect has every check look at a server that is wrong in
// what it is about.
func TestEveryCheckFindsItsDefect(t *testing.T) {
	t.Parallel()
	nodes := map[string]http.Handler{both: startNode(t, both), bothNoStreaming: startNode(t, bothNoStreaming), "": startNode(t, streaming), noStreaming: startNode(t, noStreaming), extension: startNode(t, extension)}
	have := map[string]bool{}
	for _, d := range defects {
		have[d.id] = true
		on := d.on
		if on == "" {
			on = overRPC
		}
		t.Run(d.id+" "+on, func(t *testing.T) {
			t.Parallel()
			if on == overOld && d.file == "" {
				d.file = both
			}
			node := nodes[d.file]
			if d.text == "never" {
				node = startNode(t, streaming)
			}
			url := listen(t, &tamper{next: node, before: d.before, after: d.after})
			if d.text == "never" {
				t.Cleanup(func() { stop(node) })
			}
			opts := conformance.Options{
				Reference: url + agentPath, Text: d.text, TaskTimeout: taskTimeout,
				Client: client.Options{HTTPClient: httpClient(t), Transports: []string{strings.TrimSuffix(on, " 0.3")}, Credentials: client.Bearer("a-token-that-is-good")},
			}
			if d.id == "task.bindings" {
				opts.Client.Transports = []string{overRPC, on}
			}
			if !strings.HasPrefix(d.id, "auth.") && d.id != "v03.auth" {
				opts.Client.Credentials = nil
			}
			report, err := conformance.Run(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			result := find(t, report, d.id, on)
			want := map[conformance.Severity]conformance.Outcome{conformance.Must: conformance.Fail, conformance.Should: conformance.Warn}[result.Severity]
			if result.Outcome != want || !strings.Contains(result.Seen, d.seen) {
				t.Errorf("%s instead of %s: sent %s, seen %s (want %q)", result.Outcome, want, result.Sent, result.Seen, d.seen)
			}
			if ok := result.Severity != conformance.Must; report.OK && !ok {
				t.Error("the report is ok")
			}
		})
	}
	for _, c := range conformance.Checks() {
		if c.Severity != conformance.May && !have[c.ID] {
			t.Errorf("no server is wrong in what %s is about", c.ID)
		}
	}
}
