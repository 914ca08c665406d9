package examples_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"

	_ "modernc.org/sqlite"
)

// The seed's conversation, in its own words on the wire.
const (
	seedRequest = `{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "SendMessage",
  "params": {
    "message": {
      "role": "ROLE_USER",
      "messageId": "8f31c0d2-4c1e-4f9a-9a3e-1b70b0c2e5aa",
      "parts": [{ "text": "Book the earliest slot for PO-2026-0184 at the Semarang DC." }]
    },
    "configuration": {
      "returnImmediately": false,
      "acceptedOutputModes": ["application/json"]
    }
  }
}`
	seedAnswer = `{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "SendMessage",
  "params": {
    "message": {
      "taskId": "9f2c1e40-6d55-4d29-9d2f-3b6c9a7f1e04",
      "contextId": "3a77b512-1f0c-49a4-bd6e-2f2a0e5d77c1",
      "role": "ROLE_USER",
      "messageId": "b41d7f66-90a2-4c7d-8f1b-5c2d9e3a4f09",
      "parts": [{ "text": "Dock 2, tail lift required." }]
    }
  }
}`
	seedTask    = "9f2c1e40-6d55-4d29-9d2f-3b6c9a7f1e04" // the ids are those of the peer that answers
	seedContext = "3a77b512-1f0c-49a4-bd6e-2f2a0e5d77c1"

	seedQuestion = "Two docks are free on 11 Sep. Which one, and is a tail lift needed?"
)

// call posts a JSON-RPC request and returns the task of the answer.
func call(t *testing.T, url, body string) *a2a.Task {
	t.Helper()
	response := post(t, url, body)
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID     int                     `json:"id"`
		Result a2a.SendMessageResponse `json:"result"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result.Task == nil {
		t.Fatalf("%s: %s (%v)", response.Status, text, err)
	}
	return answer.Result.Task
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	e := start(t, "delivery", "handoff.yaml")
	task := call(t, e.address()+"rpc", seedRequest)
	wantState(t, task, a2a.StateInputRequired)
	parts := task.Status.Message.Parts
	if said(task) != seedQuestion || len(parts) != 2 || parts[1].MediaType != "application/schema+json" {
		t.Errorf("question: %+v", parts)
	}
	wantOrder(t, e, "PO-2026-0184", task, "INPUT_REQUIRED")

	done := call(t, e.address()+"rpc", strings.NewReplacer(seedTask, task.ID, seedContext, task.ContextID).Replace(seedAnswer))
	wantState(t, done, a2a.StateCompleted)
	if done.ID != task.ID || done.ContextID != task.ContextID {
		t.Errorf("the answer made another task: %s, not %s", done.ID, task.ID)
	}
	var booking map[string]any
	if err := json.Unmarshal(done.Artifacts[0].Parts[0].Data, &booking); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"booking": "DS-0013", "purchaseOrder": "PO-2026-0184", "warehouse": "Semarang DC",
		"dock": 2.0, "date": "2026-09-11", "hours": "08:00-10:00", "tailLift": true,
	}
	if diff := cmp.Diff(want, booking); diff != "" {
		t.Errorf("booking (-want +got):\n%s", diff)
	}
	wantOrder(t, e, "PO-2026-0184", done, "COMPLETED")

	// A fresh message without a taskId is a different task, and the calendar
	// says that it would be a second slot.
	again := call(t, e.address()+"rpc", seedRequest)
	wantState(t, again, a2a.StateRejected)
	if again.ID == task.ID || said(again) != "PO-2026-0184 has a booking already: dock 2 at the Semarang DC on 11 Sep, 08:00-10:00." {
		t.Errorf("second task: %s", said(again))
	}
}

// wantOrder checks what the ERP system has on the purchase order.
func wantOrder(t *testing.T, e *example, number string, task *a2a.Task, state string) {
	t.Helper()
	var got [3]string
	err := erp(t, e).QueryRow(`SELECT task_id, context_id, task_state FROM purchase_order WHERE number = ?`, number).Scan(&got[0], &got[1], &got[2])
	if want := [3]string{task.ID, task.ContextID, state}; err != nil || got != want {
		t.Errorf("on the order: %v, want %v; %v", got, want, err)
	}
}

func erp(t *testing.T, e *example) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(e.dir, "delivery.db"))+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// The server is killed with SIGKILL when the dock is booked and nobody knows it yet.
// The turn is run again by the next one, and there is one booking.
func TestDeliveryOutlivesItsServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // programs are built in it
	defer cancel()
	w := newWalker(t, "delivery")
	dir := filepath.Join(w.root, "examples", "delivery")
	program, err := built("./delivery/agent")
	if err != nil {
		t.Fatal(err)
	}
	link(t, program, filepath.Join(dir, "bin", "delivery-agent"))
	const serve = "bin/handoff serve -c examples/delivery/handoff.yaml"
	server := w.start(ctx, serve)
	e := &example{base: "http://" + w.ports.Replace("127.0.0.1:8080"), name: "delivery", dir: dir}
	c := e.client(t, a2a.BindingJSONRPC)
	asked := send(t, c, client.NewMessage(a2a.Text("Book the earliest slot for PO-2026-0184 at the Semarang DC.")))
	wantState(t, asked, a2a.StateInputRequired)
	stream, err := c.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: client.FollowUp(asked, a2a.Text("Dock 2, tail lift required."))})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for {
		event, err := stream.Next()
		switch {
		case errors.Is(err, client.ErrStreamCut):
			w.start(ctx, serve)
			if stream, err = stream.Resume(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		case errors.Is(err, io.EOF):
		case err != nil:
			t.Fatal(err)
		}
		if err != nil {
			break
		}
		u := event.StatusUpdate
		if u == nil || u.Status.Message == nil {
			continue
		}
		if told = append(told, u.Status.Message.Text()); u.Status.Message.Text() == "Confirming dock 2 with the warehouse" {
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}
	if !slices.Contains(told, "The dock is reserved already; confirming it") {
		t.Errorf("the turn does not find what it has done: %q", told)
	}
	task, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: asked.ID})
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, task, a2a.StateCompleted)
	var bookings int
	if err := erp(t, e).QueryRow(`SELECT count(*) FROM booking WHERE purchase_order = 'PO-2026-0184'`).Scan(&bookings); err != nil || bookings != 1 {
		t.Errorf("%d bookings: %v", bookings, err)
	}
}

// Two orders want the last dock of the same time: one gets it, and the other is
// asked again with what is free then.
func TestDeliveryIsNotBookedTwice(t *testing.T) {
	t.Parallel()
	e := start(t, "delivery", "handoff.yaml")
	c := e.client(t, a2a.BindingREST)
	var group sync.WaitGroup
	orders := []string{"PO-2026-0184", "PO-2026-0185"}
	tasks := make([]*a2a.Task, len(orders))
	for i, order := range orders {
		group.Go(func() {
			answer, err := c.SendMessage(t.Context(), &a2a.SendMessageRequest{
				Message: client.NewMessage(a2a.Data(a2a.JSON(`{"purchaseOrder":"` + order + `","dock":2,"tailLift":true}`))),
			})
			if err != nil {
				t.Error(err)
				return
			}
			tasks[i] = answer.Task
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	winner, loser := tasks[0], tasks[1]
	if winner.Status.State != a2a.StateCompleted {
		winner, loser = loser, winner
	}
	wantState(t, winner, a2a.StateCompleted)
	wantState(t, loser, a2a.StateInputRequired)
	want := "Nothing that fits is free on 11 Sep, 08:00-10:00. Only dock 2 is free on 11 Sep. Is it to be dock 2?"
	if said(loser) != want {
		t.Errorf("question: %s", said(loser))
	}
	loser = send(t, c, client.FollowUp(loser, a2a.Text("yes")))
	wantState(t, loser, a2a.StateCompleted)
	var bookings, slots int
	if err := erp(t, e).QueryRow(`SELECT count(*), count(DISTINCT hours) FROM booking WHERE purchase_order IS NOT NULL`).Scan(&bookings, &slots); err != nil || bookings != 2 || slots != 2 {
		t.Errorf("%d bookings in %d slots; %v", bookings, slots, err)
	}
}

func TestDeliveryRefuses(t *testing.T) {
	t.Parallel()
	c := start(t, "delivery", "handoff.yaml").client(t, a2a.BindingJSONRPC)
	for text, want := range map[string]string{
		"Book a slot for PO-2026-0186":                    "PO-2026-0186 is not confirmed yet.",
		"Book a slot for PO-2026-9999":                    "PO-2026-9999 is not known.",
		"Book a slot for PO-2026-0187 at the Semarang DC": "PO-2026-0187 is delivered to the Surabaya DC, not to Semarang.",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			task := send(t, c, client.NewMessage(a2a.Text(text)))
			wantState(t, task, a2a.StateRejected)
			if said(task) != want {
				t.Errorf("reason: %s", said(task))
			}
		})
	}
}

// An answer that cannot be had is asked about again, in the same task.
func TestDeliveryAsksAgain(t *testing.T) {
	t.Parallel()
	c := start(t, "delivery", "handoff.yaml").client(t, a2a.BindingJSONRPC)
	task := send(t, c, client.NewMessage(a2a.Text("Book a delivery slot, please.")))
	for _, step := range []struct{ answer, question string }{
		{"PO-2026-0184", seedQuestion},
		{"Dock 1, no tail lift", "Dock 1 cannot be had on 11 Sep. Two docks are free on 11 Sep. Which one?"},
		{"Dock 3, but a tail lift is needed", "Dock 3 cannot be had on 11 Sep with a tail lift. Only dock 2 is free on 11 Sep. Is it to be dock 2?"},
	} {
		task = send(t, c, client.FollowUp(task, a2a.Text(step.answer)))
		wantState(t, task, a2a.StateInputRequired)
		if said(task) != step.question {
			t.Errorf("question: %s, want %s", said(task), step.question)
		}
	}
	wantState(t, send(t, c, client.FollowUp(task, a2a.Text("Yes."))), a2a.StateCompleted)
}

// The card is that of the seed, with the node's own addresses.
func TestDeliveryCard(t *testing.T) {
	t.Parallel()
	e := start(t, "delivery", "handoff.yaml")
	for _, url := range []string{e.base + a2a.WellKnownCardPath, strings.TrimSuffix(e.address(), "/") + a2a.WellKnownCardPath} {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{
  "name": "Delivery Scheduling Agent",
  "description": "Reserves dock time against warehouse capacity for a confirmed purchase order.",
  "provider": { "organization": "Contoh Logistik", "url": "https://erp.contoh.co.id" },
  "version": "1.4.0",
  "supportedInterfaces": [
    { "url": "`+e.address()+`rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
    { "url": "`+e.address()+`v1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }
  ],
  "defaultInputModes": ["application/json", "text/plain"],
  "defaultOutputModes": ["application/json"]
}`), &want); err != nil {
			t.Fatal(err)
		}
		for key, value := range want {
			if diff := cmp.Diff(value, got[key]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", key, diff)
			}
		}
		skill := got["skills"].([]any)[0].(map[string]any)
		if skill["id"] != "book-delivery-slot" || skill["examples"].([]any)[0] != "Book the earliest slot for PO-2026-0184 at the Semarang DC." {
			t.Errorf("skill: %v", skill)
		}
	}
}

// As it is published, the agent's card names the issuer whose tokens it takes, and
// nobody else gets in.
func TestDeliveryForPartners(t *testing.T) {
	t.Parallel()
	e := start(t, "delivery", "partners.yaml")
	response, err := http.Get(e.base + a2a.WellKnownCardPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got struct {
		Schemes      any `json:"securitySchemes"`
		Requirements any `json:"securityRequirements"`
	}
	if err := json.UnmarshalRead(response.Body, &got); err != nil {
		t.Fatal(err)
	}
	want := got
	if err := json.Unmarshal([]byte(`{
  "securitySchemes": {"partner-oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://sso.contoh.co.id/.well-known/openid-configuration"}}},
  "securityRequirements": [{"schemes": {"partner-oidc": {"list": ["openid", "delivery.write"]}}}]
}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	_, err = e.client(t, a2a.BindingREST).SendMessage(t.Context(), &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("Book a slot for PO-2026-0184"))})
	if a2a.CodeOf(err) != a2a.CodeUnauthenticated {
		t.Errorf("without a token: %v", err)
	}
}
