package examples_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// startResearch runs the writer and the research agent as processes of their own.
func startResearch(t *testing.T) (research, writer *example) {
	t.Helper()
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	writer = &example{name: "writer", dir: folder(t, "writer")}
	writer.base = serveProgram(t, handoff, filepath.Join(writer.dir, "handoff.yaml"))
	research = &example{name: "research", dir: folder(t, "research")}
	file := filepath.Join(research.dir, "handoff.yaml")
	edit(t, file, "http://127.0.0.1:8080", writer.base)
	research.base = serveProgram(t, handoff, file)
	return research, writer
}

// The lesson's message goes through to the writer as it came, the writer's
// question and its summary come back.
func TestResearch(t *testing.T) {
	t.Parallel()
	paper, err := os.ReadFile(filepath.Join("writer", "paper.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	research, writer := startResearch(t)
	sent := []a2a.Part{
		a2a.Text("Summarize this paper."),
		a2a.Raw(paper, "application/pdf", "paper.pdf"),
		a2a.Data(a2a.JSON(`{"targetLength":"2 paragraphs"}`)),
	}
	c := research.client(t, a2a.BindingJSONRPC)
	task := send(t, c, client.NewMessage(sent...))
	wantState(t, task, a2a.StateInputRequired)
	question := task.Status.Message.Parts
	if said(task) != "For which readers is the summary?" || len(question) != 2 || !strings.Contains(string(question[1].Data), `"readers"`) {
		t.Errorf("question: %+v", question)
	}

	atWriter, err := writer.client(t, a2a.BindingJSONRPC).ListTasks(t.Context(), &a2a.ListTasksRequest{HistoryLength: new(10)})
	if err != nil || len(atWriter.Tasks) != 1 {
		t.Fatalf("tasks of the writer: %+v, %v", atWriter, err)
	}
	if diff := cmp.Diff(sent, atWriter.Tasks[0].History[0].Parts); diff != "" {
		t.Errorf("what the writer got (-want +got):\n%s", diff)
	}

	task = send(t, research.client(t, a2a.BindingREST), client.FollowUp(task, a2a.Data(a2a.JSON(`{"readers":"customers"}`))))
	wantState(t, task, a2a.StateCompleted)
	summary := task.Artifacts[0]
	if summary.Name != "summary" || len(summary.Parts) != 2 || summary.Parts[0].MediaType != "text/markdown" {
		t.Errorf("artifact: %+v", summary)
	}
}

// What the writer refuses fails at the research agent, with the reason; what is no
// paper is asked for and does not reach the writer.
func TestResearchOfSomethingElse(t *testing.T) {
	t.Parallel()
	paper, err := os.ReadFile(filepath.Join("writer", "paper.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	research, writer := startResearch(t)
	c := research.client(t, a2a.BindingREST)
	task := send(t, c, client.NewMessage(a2a.Text("Summarize this paper.")))
	wantState(t, task, a2a.StateInputRequired)
	if list, err := writer.client(t, a2a.BindingREST).ListTasks(t.Context(), &a2a.ListTasksRequest{}); err != nil || list.TotalSize != 0 {
		t.Errorf("tasks of the writer: %+v, %v", list, err)
	}
	task = send(t, c, client.FollowUp(task, a2a.Text("Here."), a2a.Raw(paper, "application/pdf", "paper.pdf"), a2a.Data(a2a.JSON(`{"targetLength":"900 paragraphs"}`))))
	wantState(t, task, a2a.StateFailed)
	if said(task) != "There is no summary: targetLength is from 1 to 20 paragraphs." {
		t.Error(said(task))
	}
}

// The card is that of the lesson, at the path of version 0.3 and with its fields.
func TestResearchCard(t *testing.T) {
	t.Parallel()
	e := start(t, "research", "handoff.yaml")
	response, err := http.Get(e.base + "/.well-known/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	type skill struct{ ID, Name, Description string }
	type card struct {
		Name, Description, URL, Version, ProtocolVersion string
		Skills                                           []skill
		Capabilities                                     struct{ Streaming, PushNotifications bool }
	}
	want := card{
		Name: "research-agent", Description: "Summarizes academic papers and drafts citations.",
		URL: e.address() + "rpc", Version: "1.2.0", ProtocolVersion: "0.3.0",
		Skills: []skill{{"summarize_paper", "Summarize a paper", "Read a paper PDF and produce a 3-paragraph summary."}},
	}
	want.Capabilities.Streaming, want.Capabilities.PushNotifications = true, true
	var got card
	if err := json.UnmarshalRead(response.Body, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}
}

// The report has a section for each subject, and the researcher knows of its
// questions alone.
func TestPlanner(t *testing.T) {
	t.Parallel()
	e, _ := run(t, "planner", moved(t, "planner"))
	e.bothBindings(t, func(t *testing.T, c *client.Client) {
		message := client.NewMessage(a2a.Text("Compare MCP with A2A for the board. The budget is confidential."))
		message.ContextID = "board " + c.Interface().ProtocolBinding
		task := send(t, c, message)
		wantState(t, task, a2a.StateCompleted)
		report := texts(task.Artifacts[0])
		if len(task.Artifacts) != 1 || len(report) != 4 || report[0] != "## MCP\n\n" || report[2] != "## A2A\n\n" || !strings.HasPrefix(report[3], "A2A joins agents") {
			t.Errorf("report: %q", report)
		}

		researcher := &example{name: "researcher", base: e.base}
		list, err := researcher.client(t, c.Interface().ProtocolBinding).ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: message.ContextID, HistoryLength: new(10)})
		if err != nil {
			t.Fatal(err)
		}
		var asked []string
		for _, task := range list.Tasks {
			for _, m := range task.History {
				if m.Role == a2a.RoleUser {
					asked = append(asked, m.Text())
				}
			}
		}
		slices.Sort(asked)
		if diff := cmp.Diff([]string{"What is A2A for?", "What is MCP for?"}, asked); diff != "" {
			t.Errorf("what the researcher was asked (-want +got):\n%s", diff)
		}

		task = send(t, c, client.NewMessage(a2a.Text("Compare MCP with SOAP")))
		wantState(t, task, a2a.StateFailed)
		if said(task) != "nothing was found on SOAP: Nothing is known of that." {
			t.Error(said(task))
		}
		task = send(t, c, client.NewMessage(a2a.Text("Compare them")))
		wantState(t, task, a2a.StateInputRequired)
		task = send(t, c, client.FollowUp(task, a2a.Text("A2A alone")))
		wantState(t, task, a2a.StateCompleted)
	})
}

// The lesson's message in the form of version 0.3, which the writer gets in that
// of 1.0.
func TestResearchInVersion03(t *testing.T) {
	t.Parallel()
	paper, err := os.ReadFile(filepath.Join("writer", "paper.pdf"))
	if err != nil {
		t.Fatal(err)
	}
	research, _ := startResearch(t)
	response, err := http.Post(research.address()+"rpc", "application/json", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": {
			"kind": "message", "messageId": "m-1", "role": "user", "parts": [
				{"kind": "text", "text": "Summarize this paper."},
				{"kind": "file", "file": {"name": "paper.pdf", "mimeType": "application/pdf", "bytes": "`+base64.StdEncoding.EncodeToString(paper)+`"}},
				{"kind": "data", "data": {"targetLength": "3 paragraphs"}}
			]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(answer); !strings.Contains(text, `"input-required"`) || !strings.Contains(text, "For which readers is the summary?") {
		t.Errorf("answer: %s", text)
	}
}

// The researcher may be a peer as well; the program is the same.
func TestPlannerWithPeer(t *testing.T) {
	t.Parallel()
	handoff, err := built("../cmd/handoff")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := serveProgram(t, handoff, filepath.Join(folder(t, "planner"), "handoff.yaml"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "handoff.yaml"), []byte("listen: 127.0.0.1:0\nstore: sqlite:planner.db\npeers: {researcher: {card: "+elsewhere+"/agents/researcher/}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, _ := run(t, "planner", dir)
	task := send(t, e.client(t, a2a.BindingREST), client.NewMessage(a2a.Text("Compare MCP with A2A")))
	wantState(t, task, a2a.StateCompleted)
	if report := texts(task.Artifacts[0]); len(report) != 4 || !strings.HasPrefix(report[1], "MCP joins") || !strings.HasPrefix(report[3], "A2A joins") {
		t.Errorf("report: %q", report)
	}
}
