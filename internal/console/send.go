package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// messageOf makes a message of what a person has written.
func messageOf(text string) *a2a.Message {
	return &a2a.Message{MessageID: "console-" + rand.Text(), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}}
}

// sendMessage sends a message to an agent of the node over HTTP+JSON (A2A §11.3), as
// whoever has signed in, and does not wait for the end of the task.
func (v *view) sendMessage(agent, text string) (*a2a.SendMessageResponse, error) {
	q := &a2a.SendMessageRequest{Message: messageOf(text), Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true}}
	answer, err := v.c.call(v.r, &v.Principal, v.c.opts.Agents, http.MethodPost, v.agentPath(agent)+"/message:send", q.AppendJSON(nil))
	if err != nil {
		return nil, err
	}
	sent := &a2a.SendMessageResponse{}
	if err := json.Unmarshal(answer, sent); err != nil {
		return nil, fmt.Errorf("read the answer of the agent %s: %w", agent, err)
	}
	return sent, nil
}

// delegate hands work to a peer, and returns the task.
func (v *view) delegate(to, ref, text string) (string, error) {
	body := struct {
		To      string         `json:"to"`
		Ref     string         `json:"ref,omitempty"`
		Message jsontext.Value `json:"message"`
	}{to, ref, jsontext.Value(messageOf(text).AppendJSON(nil))}
	var made struct {
		ID string `json:"id"`
	}
	err := v.post("/delegations", body, &made)
	return made.ID, err
}

// agentPath is the path of HTTP+JSON of an agent.
func (v *view) agentPath(agent string) string {
	cfg := v.c.opts.Config()
	rest := "v1"
	if a := cfg.Agents[agent]; a != nil && a.Paths.REST != "" {
		rest = a.Paths.REST
	}
	path := "/agents/" + url.PathEscape(agent) + "/" + rest
	if tenant := v.Principal.Tenant; tenant != "" {
		if a := cfg.Agents[agent]; a != nil && len(a.Tenants) > 0 {
			path += "/" + url.PathEscape(tenant)
		}
	}
	return path
}
