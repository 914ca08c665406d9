package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

func userMessage(id, text string) a2a.Message {
	return a2a.Message{MessageID: id, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}}
}

func fullTurn() agent.TurnData {
	return agent.TurnData{
		Info: agent.Info{
			Agent: "delivery", TaskID: "t-1", ContextID: "c-1",
			Number: 2, Attempt: 3, Done: 4, Cause: agent.CauseGrant,
			Messages: []a2a.Message{{
				MessageID: "m-2", TaskID: "t-1", ContextID: "c-1", Role: a2a.RoleUser,
				Parts:    []a2a.Part{a2a.Text("a \"quoted\" <text>"), a2a.Data(a2a.JSON(`{"b":1.0,"a":12345678901234567890}`)), a2a.Raw([]byte{0xff}, "x/y", "f")},
				Metadata: a2a.JSON(`{"skillId":"book"}`),
			}},
			Grant:  &agent.Grant{ID: "g", Operation: "post", Approved: true, Note: "fine", Data: a2a.JSON(`{"token":"x"}`)},
			State:  a2a.JSON(`{"step":7}`),
			Caller: agent.Caller{Tenant: "acme", Subject: "ana", Issuer: "https://sso", Scopes: []string{"a", "b"}},
			Accept: []string{"text/plain"}, Skill: "book",
			Skills:      []a2a.AgentSkill{{ID: "book", Name: "Book", Description: "Books.", Tags: []string{"x"}}},
			Extensions:  []string{"urn:x"},
			Metadata:    a2a.JSON(`{"priority":1}`),
			References:  []string{"t-0"},
			Deadline:    time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC),
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		},
		History:   []a2a.Message{userMessage("m-1", "first")},
		Artifacts: []a2a.Artifact{{ArtifactID: "a-1", Name: "n", Parts: []a2a.Part{a2a.Text("x")}}},
	}
}

func TestTurnJSON(t *testing.T) {
	t.Parallel()
	schema := resolve(t, agent.TurnSchema)
	denied := fullTurn()
	denied.Grant = &agent.Grant{}
	after := fullTurn()
	after.Cause, after.Grant = agent.CauseOutcome, nil
	after.Outcome = &agent.Outcome{Delegation: "t-2", To: "supplier", State: a2a.StateFailed, Task: &a2a.Task{
		ID: "t-2", ContextID: "c-1", Artifacts: []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("half")}}},
		Status: a2a.TaskStatus{State: a2a.StateFailed, Message: &a2a.Message{MessageID: "x", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.Text("credit too low")}}},
	}}
	for name, want := range map[string]agent.TurnData{
		"outcome": after,
		"full":    fullTurn(),
		"denied":  denied,
		"bare": {Info: agent.Info{
			Agent: "a", TaskID: "t", ContextID: "c", Number: 1, Attempt: 1, Cause: agent.CauseMessage,
			Messages: []a2a.Message{userMessage("m", "x")},
		}},
	} {
		turn := agent.NewTurn(t.Context(), want.Info, nil)
		text := agent.AppendTurnJSON([]byte("x"), turn, want.History, want.Artifacts)[1:]
		if err := validate(t, schema, string(text)); err != nil {
			t.Errorf("%s: the schema refuses %s: %v", name, text, err)
		}
		got, err := agent.ParseTurn(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTurnJSONIsStable(t *testing.T) {
	t.Parallel()
	turn := agent.NewTurn(t.Context(), agent.Info{
		Agent: "a", TaskID: "t", ContextID: "c", Number: 1, Attempt: 1, Cause: agent.CauseMessage,
		Messages: []a2a.Message{userMessage("m", "x")},
	}, nil)
	const want = `{"version":1,"agent":"a","task":"t","context":"c","turn":1,"attempt":1,"done":0,"cause":"message",` +
		`"messages":[{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}]}`
	if got := string(agent.AppendTurnJSON(nil, turn, nil, nil)); got != want {
		t.Errorf("turn is\n%s, want\n%s", got, want)
	}
}

func TestTurnJSONHoldsTheNewestHistory(t *testing.T) {
	t.Parallel()
	history := make([]a2a.Message, 250)
	for i := range history {
		history[i] = userMessage(fmt.Sprint(i), "x")
	}
	text := agent.AppendTurnJSON(nil, agent.NewTurn(t.Context(), agent.Info{}, nil), history, nil)
	got, err := agent.ParseTurn(text)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.History); n != agent.TurnHistory || got.History[0].MessageID != "150" || got.History[n-1].MessageID != "249" {
		t.Errorf("history has %d messages, from %s", n, got.History[0].MessageID)
	}
}

func TestParseTurnRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                                    "want an object",
		`{}`:                                    "version is 0, want 1",
		`{"version":2}`:                         "version is 2, want 1",
		`{"version":1,"turn":1.5}`:              "turn: want a whole number",
		`{"version":1,"turn":"1"}`:              "turn: want a whole number",
		`{"version":1,"task":1}`:                "task: want a string",
		`{"version":1,"messages":{}}`:           "messages: want an array",
		`{"version":1,"messages":[1]}`:          "messages[0]: must be an object",
		`{"version":1,"grant":{}}`:              "grant.decision: want approve or deny",
		`{"version":1,"grant":[]}`:              "grant: want an object",
		`{"version":1,"caller":{"scopes":[1]}}`: "caller.scopes: want a string",
		`{"version":1,"deadline":"soon"}`:       "deadline: want a time",
		`{"version":1,"outcome":[]}`:            "outcome: want an object",
		`{"version":1,"outcome":{}}`:            "outcome.state: want a state",
		`{"version":1,"outcome":{"state":"TASK_STATE_FAILED","task":1}}`: "outcome.task: must be an object",
	} {
		if _, err := agent.ParseTurn([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", text, err, want)
		}
	}
	if _, err := agent.ParseTurn([]byte(`{"version":1,"later":{"x":1}}`)); err != nil {
		t.Errorf("a key of a later version is refused: %v", err)
	}
}
