package main

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// executor is the agent of the official SDK: the same verbs as bench.yaml has.
type executor struct{}

// Execute runs the agent.
func (executor) Execute(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		verb, rest, _ := strings.Cut(execCtx.Message.Parts[0].Text(), " ")
		if verb == "message" {
			yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(rest)), nil)
			return
		}
		if !yield(a2a.NewSubmittedTask(execCtx, execCtx.Message), nil) ||
			!yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateWorking, nil), nil) {
			return
		}
		if verb == "burst" {
			n, _ := strconv.Atoi(rest)
			var id a2a.ArtifactID
			for range n {
				var e *a2a.TaskArtifactUpdateEvent
				if id == "" {
					e = a2a.NewArtifactEvent(execCtx, a2a.NewTextPart(chunk))
					id = e.Artifact.ID
				} else {
					e = a2a.NewArtifactUpdateEvent(execCtx, id, a2a.NewTextPart(chunk))
				}
				if !yield(e, nil) {
					return
				}
			}
		} else if !yield(a2a.NewArtifactEvent(execCtx, a2a.NewTextPart(rest)), nil) {
			return
		}
		yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCompleted, nil), nil)
	}
}

// Cancel does nothing.
func (executor) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

const chunk = "0123456789012345678901234567890123456789" // 40 bytes

// servePeer is the process of the official SDK. It prints its address.
func servePeer() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	handler := a2asrv.NewHandler(executor{}, a2asrv.WithCapabilityChecks(&a2a.AgentCapabilities{Streaming: true}))
	mux := http.NewServeMux()
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.HandleFunc("/memory", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintln(w, m.Mallocs, m.TotalAlloc)
	})
	_ = http.Serve(listener, mux)
}
