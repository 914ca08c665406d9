package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
)

// receiver is a webhook.
type receiver struct {
	server *httptest.Server
	pushes chan push
}

// push is what came to a webhook.
type push struct {
	authorization, token string
	task                 string
	state                a2a.TaskState // of the event, if it tells one
	err                  error         // when it is none
}

func newReceiver(t *testing.T, version string) *receiver {
	t.Helper()
	r := &receiver{pushes: make(chan push, 100)}
	r.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		r.pushes <- readPush(req, version)
	}))
	t.Cleanup(r.server.Close)
	return r
}

func readPush(req *http.Request, version string) push {
	p := push{authorization: req.Header.Get("Authorization")}
	for _, name := range []string{"X-A2A-Notification-Token", "A2A-Notification-Token"} {
		if token := req.Header.Get(name); token != "" {
			p.token = token
		}
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		p.err = err
		return p
	}
	e := new(a2a.StreamResponse)
	if version == "0.3" { // sends the task
		e.Task = new(a2a.Task)
		err = v03.RPC.Unmarshal(body, e.Task)
	} else {
		err = a2a.Unmarshal(body, e)
	}
	switch {
	case err != nil:
		p.err = fmt.Errorf("read push: %w: %s", err, body)
	case e.Task != nil:
		p.task, p.state = e.Task.ID, e.Task.Status.State
	case e.StatusUpdate != nil:
		p.task, p.state = e.StatusUpdate.TaskID, e.StatusUpdate.Status.State
	case e.ArtifactUpdate != nil:
		p.task = e.ArtifactUpdate.TaskID
	default:
		p.err = fmt.Errorf("the push tells of no task: %s", body)
	}
	return p
}
