package examples_test

import (
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
