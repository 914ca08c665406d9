package handoff_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	handoff "handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// modelAsked is what a model was asked.
type modelAsked struct {
	Key      string
	Messages []struct{ Role, Content string }
	Tools    []struct {
		Function struct{ Name, Description string }
	}
}

func (a *modelAsked) names() []string {
	var names []string
	for _, t := range a.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// modelOf serves the API of chat completions, without streams.
func modelOf(t *testing.T, answer func(*modelAsked) (text, function, arguments string)) (url string, requests func() []modelAsked) {
	t.Helper()
	var mu sync.Mutex
	var all []modelAsked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := modelAsked{Key: r.Header.Get("Authorization")}
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			t.Error(err)
		}
		mu.Lock()
		all = append(all, a)
		mu.Unlock()
		text, function, arguments := answer(&a)
		calls := ""
		if function != "" {
			calls = fmt.Sprintf(`,"tool_calls":[{"id":"c","type":"function","function":{"name":%q,"arguments":%q}}]`, function, arguments)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`, text, calls)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []modelAsked {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

const modelAgent = `
store: sqlite:tasks.db
secret_key: "0123456789abcdef0123456789abcdef"
callers: {anonymous: loopback}
mcp: {servers: {erp: {url: "%s", tools: [stock]}}}
agents:
  buyer:
    name: Buyer
    description: Buys
    version: 1.0.0
    skills: [{id: buy, name: Buy, description: Buys., tags: [buy]}]
    run: {llm: {base_url: "%s", key: sk-of-the-model, model: m, stream: false, tools: [%s], agents: [supplier]}}
  supplier:
    name: Supplier
    description: Sells bearings
    version: 1.0.0
    skills: [{id: quote, name: Quote, description: Makes a quote., tags: [quote]}]
    run: {script: [{when: {turn: 1}, do: [{ask: "Which Incoterm?"}]}, {do: [{artifact: {parts: [{text: "cheap, {{.Text}}"}]}}]}]}
`

// A model calls the tools that policy shows, by their names at the server or at
// /mcp, and hands work to an agent of the node, whose question comes up.
func TestAModelCallsAndDelegates(t *testing.T) {
	t.Parallel()
	for tools, name := range map[string]string{"erp/*": "erp_stock", "stock": "stock", "erp/stock, erp/post, post": "erp_stock"} {
		t.Run(tools, func(t *testing.T) {
			t.Parallel()
			url, calls := toolServer(t)
			model, requests := modelOf(t, func(a *modelAsked) (string, string, string) {
				switch last := a.Messages[len(a.Messages)-1]; {
				case len(a.Messages) == 2: // what is hidden is not there, however it is called
					return "", "erp_post", `{}`
				case strings.HasPrefix(last.Content, "There is no function"):
					return "", name, `{"sku":"BRG-0042","plant":"SBY"}`
				case strings.Contains(last.Content, `"units":7`):
					return "", "ask_supplier", `{"message":"400 units","skill":"quote"}`
				default:
					return "The quote is: " + last.Content, "", ""
				}
			})
			_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), fmt.Sprintf(modelAgent, url, model, tools)), handoff.Options{})
			c := dial(t, server.URL+"/agents/buyer/", client.Options{})
			got := send(t, c, &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("Buy 400")}})
			if got.Status.State != a2a.StateInputRequired || got.Status.Message.Text() != "Which Incoterm?" {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			got = send(t, c, &a2a.Message{MessageID: "2", TaskID: got.ID, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("DAP")}})
			if got.Status.State != a2a.StateCompleted || !strings.HasSuffix(got.Artifacts[0].Parts[0].Text, "cheap, DAP") {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			if got := <-calls; got != "BRG-0042@SBY" || len(calls) != 0 {
				t.Errorf("called with %s, and %d more", got, len(calls))
			}
			first := requests()[0]
			if names := first.names(); !slices.Equal(names, []string{"ask_user", "ask_supplier", name}) {
				t.Errorf("it was offered %v", names)
			}
			if d := first.Tools[1].Function.Description; !strings.Contains(d, "Sells bearings") || !strings.Contains(d, "Makes a quote.") {
				t.Errorf("of the supplier it was told %q", d)
			}
			if first.Key != "Bearer sk-of-the-model" {
				t.Errorf("the key was %q", first.Key)
			}
		})
	}
}

// The next task of a context knows what was said before, and nothing of other contexts.
func TestAModelRemembersItsContext(t *testing.T) {
	t.Parallel()
	model, requests := modelOf(t, func(a *modelAsked) (string, string, string) {
		return "Answer to " + a.Messages[len(a.Messages)-1].Content, "", ""
	})
	url, _ := toolServer(t)
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), fmt.Sprintf(modelAgent, url, model, "erp/*")), handoff.Options{})
	c := dial(t, server.URL+"/agents/buyer/", client.Options{})
	say := func(context, text string) *a2a.Task {
		return send(t, c, &a2a.Message{MessageID: text, ContextID: context, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text(text)}})
	}
	first := say("", "one")
	say(first.ContextID, "two")
	say("", "other")
	say(first.ContextID, "three")
	all := requests()
	var got []string
	for _, m := range all[len(all)-1].Messages[1:] {
		got = append(got, m.Role+": "+m.Content)
	}
	want := []string{"user: one", "assistant: Answer to one", "user: two", "assistant: Answer to two", "user: three"}
	if !slices.Equal(got, want) {
		t.Errorf("the model was told %q", got)
	}
}

// A redirect to another origin gets neither the key nor the conversation.
func TestAModelDoesNotLeadElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := make(chan *http.Request, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere <- r }))
	t.Cleanup(other.Close)
	moved := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(moved.Close)
	url, _ := toolServer(t)
	text := strings.Replace(fmt.Sprintf(modelAgent, url, moved.URL, "erp/*"), "stream: false", "stream: false, limits: {retries: 0}", 1)
	_, server := start(t, load(t, filepath.Join(t.TempDir(), "handoff.yaml"), text), handoff.Options{})
	c := dial(t, server.URL+"/agents/buyer/", client.Options{})
	got := send(t, c, &a2a.Message{MessageID: "1", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.Text("Buy 400")}})
	if got.Status.State != a2a.StateFailed || len(elsewhere) != 0 {
		t.Errorf("got %s, and %d requests elsewhere", got.AppendJSON(nil), len(elsewhere))
	}
	t.Log(got.Status.Message.Text())
}
