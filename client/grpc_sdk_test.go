package client_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the server compresses for those who ask

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// sdkAgent is an agent of the official library.
type sdkAgent struct{}

func (sdkAgent) Execute(_ context.Context, c *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		text := c.Message.Parts[0].Text()
		if text == "message" {
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart("hi")), nil)
			return
		}
		first := sdk.NewArtifactEvent(c, sdk.NewTextPart("A"))
		state := sdk.TaskStateCompleted
		if text == "ask" {
			state = sdk.TaskStateInputRequired
		}
		for _, e := range []sdk.Event{
			sdk.NewSubmittedTask(c, c.Message), sdk.NewStatusUpdateEvent(c, sdk.TaskStateWorking, nil), first,
			sdk.NewArtifactUpdateEvent(c, first.Artifact.ID, sdk.NewTextPart(strings.Repeat("B", 100_000))), sdk.NewStatusUpdateEvent(c, state, nil),
		} {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (sdkAgent) Cancel(_ context.Context, c *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(c, sdk.TaskStateCanceled, nil), nil)
	}
}

// The client speaks gRPC to an agent of the official Go library on the official
// server.
func TestGRPCWithTheOfficialServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	a2agrpc.NewHandler(a2asrv.NewHandler(sdkAgent{}, a2asrv.WithCapabilityChecks(&sdk.AgentCapabilities{Streaming: true}))).RegisterWith(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	card := newCard(a2a.BindingGRPC, "")
	card.SupportedInterfaces[0].URL = listener.Addr().String()
	c := newClient(t, card, client.Options{})
	ctx := t.Context()
	say := func(text string) *a2a.SendMessageRequest {
		return &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(text))}
	}

	answer, err := c.SendMessage(ctx, say("message"))
	if err != nil || answer.Message.Text() != "hi" {
		t.Fatalf("message: %+v, %v", answer, err)
	}
	stream, err := c.SendStreamingMessage(ctx, say("task"))
	if err != nil {
		t.Fatal(err)
	}
	var seen client.Accumulator
	for e, err := range stream.All() {
		if err == nil {
			err = seen.Add(e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := seen.Task; got.Status.State != a2a.StateCompleted || len(got.Artifacts) != 1 || len(got.Artifacts[0].Parts) != 2 || len(got.Artifacts[0].Parts[1].Text) != 100_000 {
		t.Errorf("task %+v", got.Status)
	}
	if got, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: seen.Task.ID}); err != nil || got.Status.State != a2a.StateCompleted || got.ContextID != seen.Task.ContextID {
		t.Errorf("get: %+v, %v", got, err)
	}
	if answer, err = c.SendAndWait(ctx, say("ask"), client.WaitOptions{}); err != nil || answer.Task.Status.State != a2a.StateInputRequired {
		t.Fatalf("ask: %+v, %v", answer, err)
	}
	canceled, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: answer.Task.ID})
	for errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotCancelable}) && ctx.Err() == nil { // as long as the server is about to end the turn that has asked
		canceled, err = c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: answer.Task.ID})
	}
	if err != nil || canceled.Status.State != a2a.StateCanceled {
		t.Errorf("cancel: %+v, %v", canceled, err)
	}
	if _, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: "nobody"}); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Errorf("no such task: %v", err)
	}
	subscription, err := c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: answer.Task.ID})
	if err == nil { // the task is over
		_, err = subscription.Next()
	}
	if _, ok := errors.AsType[*a2a.Error](err); !ok && err != io.EOF {
		t.Errorf("subscribe: %v", err)
	}
}
