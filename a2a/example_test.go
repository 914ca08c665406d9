package a2a_test

import (
	"errors"
	"fmt"
	"time"

	"handoff.example/handoff/a2a"
)

func ExampleTask_AppendJSON() {
	task := a2a.Task{
		ID:        "task-1",
		ContextID: "ctx-1",
		Status: a2a.TaskStatus{
			State:     a2a.StateCompleted,
			Timestamp: time.Date(2026, 3, 14, 9, 26, 53, 589e6, time.UTC),
		},
		Artifacts: []a2a.Artifact{{
			ArtifactID: "quote",
			Parts:      []a2a.Part{a2a.Data(a2a.JSON(`{"total": 12345.50, "currency": "EUR"}`))},
		}},
	}
	fmt.Printf("%s\n", task.AppendJSON(nil))
	// Output:
	// {"id":"task-1","contextId":"ctx-1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-03-14T09:26:53.589Z"},"artifacts":[{"artifactId":"quote","parts":[{"data":{"total": 12345.50, "currency": "EUR"}}]}]}
}

func ExampleUnmarshal() {
	// Peers differ: this one writes snake_case, numbers for enums, and all keys
	// of a part.
	in := `{"message": {"message_id": "m-1", "role": 1, "parts": [{"text": "hello", "url": "", "raw": ""}], "kind": "message"}}`
	var request a2a.SendMessageRequest
	if err := a2a.Unmarshal([]byte(in), &request); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(request.Message.Role, request.Message.Text())
	// Output: ROLE_USER hello
}

func ExampleUnmarshal_wrongType() {
	var request a2a.SendMessageRequest
	err := a2a.Unmarshal([]byte(`{"message": {"parts": [{"raw": "%"}]}}`), &request)
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		fmt.Println(e.Code, e.Violations[0].Field)
	}
	// Output: InvalidParamsError message.parts[0].raw
}

func ExampleSendMessageRequest_Validate() {
	request := a2a.SendMessageRequest{Message: &a2a.Message{Role: a2a.RoleUser}}
	fmt.Println(request.Validate())
	// Output: Invalid parameters: message.messageId: is required; message.parts: needs at least one element
}

func ExampleError_AppendJSONRPC() {
	fmt.Printf("%s\n", a2a.TaskNotFound("task-9").AppendJSONRPC(nil))
	// Output:
	// {"code":-32001,"message":"The task does not exist or is not accessible","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"task-9"}}]}
}

func ExampleParseStatusError() {
	err := a2a.ParseStatusError([]byte(`{"error":{"code":404,"status":"NOT_FOUND","message":"No such task","details":[]}}`), 404)
	fmt.Println(errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}), err)
	// Output: true No such task
}

func ExampleParseVersion() {
	requested, err := a2a.ParseVersion("1.0.7")
	fmt.Println(requested == a2a.Version10, requested, err)
	missing, err := a2a.ParseVersion("")
	fmt.Println(missing == a2a.Version03, missing, err)
	// Output:
	// true 1.0 <nil>
	// true 0.3 <nil>
}

func ExampleParseExtensions() {
	fmt.Println(a2a.ParseExtensions([]string{"https://e/1, https://e/2", "https://e/1"}))
	// Output: [https://e/1 https://e/2]
}
