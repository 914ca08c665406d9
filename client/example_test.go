package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// exampleAgent serves a card and answers every message with what it said.
func exampleAgent() *httptest.Server {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(newCard(a2a.BindingREST, server.URL).AppendJSON(nil))
	})
	echo := func(r *http.Request) string {
		body, _ := io.ReadAll(r.Body)
		var req a2a.SendMessageRequest
		if err := a2a.Unmarshal(body, &req); err != nil {
			return ""
		}
		return strings.ToUpper(req.Message.Text())
	}
	mux.HandleFunc("POST /agent/message:send", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", a2a.MediaType)
		fmt.Fprintf(w, `{"task":{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":%q}]}]}}`, echo(r))
	})
	mux.HandleFunc("POST /agent/message:stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: "+taskEvent("t-1", "TASK_STATE_WORKING")+"\n\n")
		fmt.Fprint(w, "data: "+artifactEvent("t-1", "a", echo(r))+"\n\n")
		fmt.Fprint(w, "data: "+statusEvent("t-1", "TASK_STATE_COMPLETED")+"\n\n")
	})
	return server
}

func ExampleClient_SendMessage() {
	agent := exampleAgent()
	defer agent.Close()
	ctx := context.Background()

	c, err := client.Dial(ctx, agent.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.SendMessage(ctx, &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text("hello")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Task.Status.State, answer.Task.Artifacts[0].Parts[0].Text)
	// Output: TASK_STATE_COMPLETED HELLO
}

func ExampleClient_SendStreamingMessage() {
	agent := exampleAgent()
	defer agent.Close()
	ctx := context.Background()

	c, err := client.Dial(ctx, agent.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := c.SendStreamingMessage(ctx, &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text("hello")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var seen client.Accumulator
	for event, err := range stream.All() {
		if err == nil {
			err = seen.Add(event)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(seen.Task.Status.State, len(seen.Task.Artifacts))
	}
	// Output:
	// TASK_STATE_WORKING 0
	// TASK_STATE_WORKING 1
	// TASK_STATE_COMPLETED 1
}

func ExampleClient_SendAndWait() {
	agent := exampleAgent()
	defer agent.Close()
	ctx := context.Background()

	c, err := client.Dial(ctx, agent.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.SendAndWait(ctx, &a2a.SendMessageRequest{
		Message: client.NewMessage(a2a.Text("hello")),
	}, client.WaitOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	next := client.FollowUp(answer.Task, a2a.Text("and now?"))
	fmt.Println(answer.Task.Status.State, next.ContextID, next.ReferenceTaskIDs)
	// Output: TASK_STATE_COMPLETED c-1 [t-1]
}

func ExampleDiscover() {
	agent := exampleAgent()
	defer agent.Close()

	card, err := client.Discover(context.Background(), agent.URL, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(card.Name, card.SupportedInterfaces[0].ProtocolBinding)
	// Output: Scripted HTTP+JSON
}

func ExampleStream_Resume() {
	follow := func(ctx context.Context, stream *client.Stream, see func(*a2a.StreamResponse)) error {
		for {
			event, err := stream.Next()
			switch {
			case err == io.EOF:
				return nil
			case errors.Is(err, client.ErrStreamCut):
				if stream, err = stream.Resume(ctx); err != nil {
					return err
				}
			case err != nil:
				return err
			default:
				see(event)
			}
		}
	}
	_ = follow
}
