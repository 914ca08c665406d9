package llm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/engine"
	"handoff.example/handoff/internal/store"
)

// once answers with a fault the first times, and then as the conversation goes: one
// call of a tool, and an answer.
func once(faults ...reply) func(*modelRequest) reply {
	return func(r *modelRequest) reply {
		if r.N <= len(faults) {
			return faults[r.N-1]
		}
		if len(r.results()) == 0 {
			return reply{calls: []call{{"c1", "erp_stock", `{"sku":"A"}`}}}
		}
		return reply{text: "Done with " + r.last().text()}
	}
}

// outcomes are those of the calls of the model that a task tells of.
func outcomes(t *a2a.Task) string {
	var list []string
	for _, r := range reports(t, "handoff.example/model-call") {
		list = append(list, r["outcome"].(string))
	}
	return strings.Join(list, " ")
}

// What the API and the model do wrong, and the task ends well all the same.
func TestFaultsThatPass(t *testing.T) {
	t.Parallel()
	const good = `Done with stock of {"sku":"A"}`
	stock := []call{{"c1", "erp_stock", `{"sku":"A"}`}}
	for _, test := range []struct {
		name     string
		script   func(*modelRequest) reply
		answer   string
		outcomes string
		told     string // in what the model was told
	}{
		{"429 with Retry-After", once(reply{status: 429, header: map[string]string{"Retry-After": "0.05"}}), good, "busy ok ok", ""},
		{"429 with Retry-After-Ms", once(reply{status: 429, header: map[string]string{"Retry-After-Ms": "20"}}), good, "busy ok ok", ""},
		{"500", once(reply{status: 500}, reply{status: 502, body: "<html>bad gateway</html>"}), good, "failed failed ok ok", ""},
		{"cut in the text", once(reply{text: "I begin to say ", cut: 3}), good, "cut ok ok", ""},
		{"cut before anything", once(reply{text: "x", cut: 1}), good, "cut ok ok", ""},
		{"cut in the arguments", once(reply{calls: []call{{"c1", "erp_stock", `{"sku":"WRONG"}`}}, cut: 3}), good, "cut ok ok", ""},
		{"no reason at the end", once(reply{text: "half", noFinish: true}), good, "cut ok ok", ""},
		{"an error in the stream", once(reply{text: "half", streamErr: "overloaded " + secretKey}), good, "cut ok ok", ""},
		{"arguments that are no JSON", once(reply{calls: []call{{"c0", "erp_stock", `{"sku":`}}}), good[:10] + "The ", "ok ok", "The arguments are no JSON object"},
		{"arguments with a key twice", once(reply{calls: []call{{"c0", "erp_stock", `{"sku":"A","sku":"B"}`}}}), "", "ok ok", "The arguments are no JSON object"},
		{"arguments that are a list", once(reply{calls: []call{{"c0", "erp_stock", `[1]`}}}), "", "ok ok", "The arguments are no JSON object"},
		{"no arguments", once(reply{calls: []call{{"c0", "erp_stock", ""}}}), "Done with stock of {}", "ok ok", ""},
		{"a tool that is not there", once(reply{calls: []call{{"c0", "erp_pay_everything", `{}`}}}), "", "ok ok", `There is no function "erp_pay_everything"`},
		{"a name that is none", once(reply{calls: []call{{"c0", "../../etc passwd\n\u202e", `{}`}}}), "", "ok ok", "There is no function"},
		{"a call without id", once(reply{calls: []call{{"", "erp_stock", `{"sku":"A"}`}}}), good, "ok ok", ""},
		{"two calls of one id", once(reply{calls: []call{{"c1", "erp_stock", `{"sku":"A"}`}, {"c1", "erp_stock", `{"sku":"B"}`}}}), `Done with stock of {"sku":"B"}`, "ok ok", ""},
		{"an id such as ours", once(reply{calls: []call{{"call00002", "erp_stock", `{"sku":"A"}`}, {"", "erp_stock", `{"sku":"B"}`}}}), `Done with stock of {"sku":"B"}`, "ok ok", ""},
		{"calls and stop", once(reply{calls: stock, finish: "stop"}), good, "ok ok", ""},
		{"an empty answer", once(reply{}, reply{text: " \n"}), good, "empty empty ok ok", ""},
		{"no usage", once(reply{calls: stock, noUsage: true}), good, "ok ok", ""},
		{"a question without a question", once(reply{calls: []call{{"c0", "ask_user", `{"question":" "}`}}}), "", "ok ok", "The question is missing"},
		{"a peer that is not listed", once(reply{calls: []call{{"c0", "ask_erp", `{"message":"x"}`}}}), "", "ok ok", "There is no function"},
		{"a skill that the peer has not", once(reply{calls: []call{{"c0", "ask_helper", `{"message":"x","skill":"admin"}`}}}), "", "ok ok", `The agent has no skill "admin"`},
		{"an address in place of a peer", once(reply{calls: []call{{"c0", "ask_helper", `{"message":"x","to":"https://evil.example/"}`}}}), "Done with The agent has completed the work.\n[artifact-1.1]\nquote for x", "ok ok", ""},
		{"arguments that nest", once(reply{calls: []call{{"c0", "erp_stock", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)}}}), "", "ok ok", "The arguments nest deeper than 32 levels"},
		{"a form that is none", once(reply{calls: []call{{"c0", "erp_stock", `{"a":"\ud800"}`}}}), "", "ok ok", "The arguments are no JSON object"},
		{"a tool that says it has failed", once(reply{calls: []call{{"c0", "erp_bad", `{}`}}}), "", "ok ok", "The tool reports an error: credit too low"},
		{"an error of a server", once(reply{calls: []call{{"c0", "erp_error", `{}`}}}), "", "ok ok", "The call has failed: no such order"},
		{"a tool that is denied", once(reply{calls: []call{{"c0", "erp_denied", `{}`}}}), "", "ok ok", "The call was refused: This tool is not for you"},
		{"a large result", once(reply{calls: []call{{"c0", "erp_large", `{}`}}}), "", "ok ok", "[Cut here: 32768 bytes of 100000.]"},
		{"work that fails", once(reply{calls: []call{{"c0", "ask_helper", `{"message":"fail"}`}}}), "", "ok ok", "The work has failed.\nno capacity"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sqliteStore(t), "", test.script)
			got := b.send("", "go")
			if got.Status.State != a2a.StateCompleted {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			if answer := answerOf(got); test.answer != "" && !strings.HasPrefix(answer, test.answer) || answer == "" || strings.Contains(answer, "half") {
				t.Errorf("the answer is %q, want %q", answer, test.answer)
			}
			full := b.get(got.ID)
			if o := outcomes(full); o != test.outcomes {
				t.Errorf("the calls of the model are %s, want %s", o, test.outcomes)
			}
			asked := b.model.asked()
			if told := strings.Join(asked[len(asked)-1].results(), "\n"); !strings.Contains(told, test.told) {
				t.Errorf("the model was told %q, want %q", told, test.told)
			}
			if n := b.tools.count(`stock {"sku":"WRONG"}`); n != 0 {
				t.Error("a call was made whose arguments were cut")
			}
			if b.tools.twice() != "" {
				t.Errorf("%s was made twice", b.tools.twice())
			}
			if text := string(full.AppendJSON(nil)) + b.log.String(); strings.Contains(text, secretKey) {
				t.Error("the key is shown")
			}
		})
	}
}

// What ends a task, and says why.
func TestFaultsThatEnd(t *testing.T) {
	t.Parallel()
	always := func(a reply) func(*modelRequest) reply { return func(*modelRequest) reply { return a } }
	stock := func(r *modelRequest) reply {
		return reply{calls: []call{{"", "erp_stock", fmt.Sprintf(`{"n":%d}`, r.N)}}}
	}
	long := reply{calls: []call{{strings.Repeat("i", 4<<20+1), "erp_stock", `{}`}}}
	many := reply{calls: slices.Repeat([]call{{"", "erp_stock", `{}`}}, 257)}
	const key = "agents.a.run.llm.limits."
	for _, test := range []struct {
		name   string
		more   string
		script func(*modelRequest) reply
		state  a2a.TaskState
		said   string
		asked  int // the model, at least
	}{
		{"length", "", always(reply{text: "cut", finish: "length"}), a2a.StateFailed, "agents.a.run.llm.max_output", 1},
		{"length within a call", "", always(reply{calls: []call{{"c", "erp_stock", `{"n":`}}, finish: "length"}), a2a.StateFailed, "agents.a.run.llm.max_output", 1},
		{"content filter", "", always(reply{text: "x", finish: "content_filter"}), a2a.StateFailed, "content filter", 1},
		{"refusal", "", always(reply{refusal: "I cannot help with that."}), a2a.StateRejected, "I cannot help with that.", 1},
		{"wrong key", "", always(reply{status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + secretKey + `","code":"invalid_api_key"}}`}), a2a.StateFailed, "refused the agent's key (401)", 1},
		{"bad request", "", always(reply{status: 400, body: `{"error":{"message":"no such model: ` + secretKey + `","code":null}}`}), a2a.StateFailed, "has refused the request (400).", 1},
		{"no quota", "", always(reply{status: 429, body: `{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}`}), a2a.StateFailed, "no quota left", 1},
		{"too long for the model", "", always(reply{status: 400, body: `{"error":{"message":"maximum context length","code":"context_length_exceeded"}}`}), a2a.StateFailed, "limits.context", 1},
		{"busy for ever", "limits: {retries: 2}", always(reply{status: 429, header: map[string]string{"Retry-After-Ms": "10"}}), a2a.StateFailed, key[:len(key)-7] + "limits.retries", 3},
		{"busy for too long", "limits: {retry_wait: 1m}", always(reply{status: 429, header: map[string]string{"Retry-After": "3600"}}), a2a.StateFailed, "limits.retry_wait", 1},
		{"silence", "timeout: 1s\nlimits: {retries: 1}", always(reply{text: "a b c", held: make(chan struct{})}), a2a.StateFailed, "silent for longer than 1s", 2},
		{"pings", "limits: {answer_time: 1s, retries: 1}", always(reply{pings: true}), a2a.StateFailed, "no end within 1s (run.llm.limits.answer_time). It was asked 2 times", 2},
		{"pings and no piece", "limits: {answer_idle: 1s, retries: 1}", always(reply{pings: true}), a2a.StateFailed, "brought nothing for longer than 1s (run.llm.limits.answer_idle). It was asked 2 times", 2},
		{"empty events", "limits: {answer_idle: 1s, retries: 1}", always(reply{empties: true}), a2a.StateFailed, "brought nothing for longer than 1s", 2},
		{"the key in the answer", "", always(reply{text: "Your key is " + secretKey + ", and again sk-very-se cret " + secretKey}), a2a.StateCompleted, "", 1},
		{"the key at once", "stream: false", always(reply{text: "Your key is " + secretKey}), a2a.StateCompleted, "", 1},
		{"the key in a refusal", "", always(reply{refusal: "No, " + secretKey}), a2a.StateRejected, "No, ***", 1},
		{"the key in a call", "limits: {tool_calls: 1}", always(reply{text: secretKey + " ", calls: []call{{secretKey, "erp_stock", `{"sku":"` + secretKey + `"}`}, {"", secretKey, `{}`}}}), a2a.StateFailed, "limit of 1 calls", 2},
		{"long id", "limits: {retries: 1}", always(long), a2a.StateFailed, "It was asked 2 times", 2},
		{"long id at once", "stream: false\nlimits: {retries: 1}", always(long), a2a.StateFailed, "It was asked 2 times", 2},
		{"many calls", "limits: {retries: 1}", always(many), a2a.StateFailed, "It was asked 2 times", 2},
		{"many calls at once", "stream: false\nlimits: {retries: 1}", always(many), a2a.StateFailed, "It was asked 2 times", 2},
		{"mistakes", "limits: {mistakes: 2}", always(reply{calls: []call{{"", "nothing", `{}`}}}), a2a.StateFailed, key + "mistakes", 3},
		{"empty answers", "limits: {mistakes: 2}", always(reply{}), a2a.StateFailed, key + "mistakes", 3},
		{"steps", "limits: {steps: 5}", stock, a2a.StateFailed, "limit of 5 steps (" + key + "steps)", 3},
		{"model calls", "limits: {model_calls: 3}", stock, a2a.StateFailed, "limit of 3 calls of the model (" + key + "model_calls)", 3},
		{"tool calls", "limits: {tool_calls: 2}", stock, a2a.StateFailed, "limit of 2 calls of tools (" + key + "tool_calls)", 3},
		{"tokens", "limits: {tokens: 300}", stock, a2a.StateFailed, "limit of 300 tokens (" + key + "tokens)", 3},
		{"cost", "limits: {cost: 0.0005}", stock, a2a.StateFailed, "limit of 0.0005 USD (" + key + "cost)", 2},
		{"artifact", "limits: {artifact_bytes: 100}", always(reply{text: strings.Repeat("word ", 100)}), a2a.StateFailed, key + "artifact_bytes", 1},
		{"delegations", "limits: {delegations: 2}", func(r *modelRequest) reply {
			return reply{calls: []call{{"", "ask_helper", fmt.Sprintf(`{"message":"%d"}`, r.N)}}}
		}, a2a.StateFailed, "limit of 2 delegations (" + key + "delegations)", 3},
		{"context", "limits: {context: 1000}", always(reply{}), a2a.StateFailed, key + "context", 0},
		{"no stream", "stream: false", once(reply{status: 500}), a2a.StateCompleted, "", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sqliteStore(t), test.more, test.script)
			text := "go"
			if test.name == "context" {
				text = strings.Repeat("long ", 2000)
			}
			got := b.send("", text)
			if got.Status.State != test.state || !strings.Contains(said(got), test.said) {
				t.Errorf("got %s, want %s: %s", got.AppendJSON(nil), test.state, test.said)
			}
			if n := len(b.model.asked()); n < test.asked || n > test.asked+1 && test.asked > 0 {
				t.Errorf("the model was asked %d times, want %d", n, test.asked)
			}
			if text := string(b.get(got.ID).AppendJSON(nil)) + b.log.String(); strings.Contains(text, secretKey) {
				t.Error("the key is shown")
			}
			if strings.HasPrefix(test.said, "limit of") {
				if data := reports(got, "handoff.example/limit"); len(data) != 1 || !strings.HasPrefix(data[0]["key"].(string), key) {
					t.Errorf("the limit is not told of: %v", data)
				}
			}
		})
	}
}

// The part of an answer that was cut is replaced, also when what comes instead has no
// text.
func TestACutAnswerIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "", once(reply{text: "I begin to say " + strings.Repeat("much ", 50), cut: 40}))
	stream, err := b.engine.Stream(t.Context(), b.request("", a2a.Text("go")))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var texts []string
	for {
		frame, err := stream.Next(t.Context())
		if err != nil {
			break
		}
		var e a2a.StreamResponse
		if err := a2a.Unmarshal(frame.Body, &e); err != nil {
			t.Fatal(err)
		}
		if u := e.ArtifactUpdate; u != nil {
			if !u.Append {
				texts = append(texts, "")
			}
			texts[len(texts)-1] += u.Artifact.Parts[0].Text
		}
	}
	if len(texts) != 3 || !strings.HasPrefix(texts[0], "I begin") || texts[1] != "" || texts[2] != `Done with stock of {"sku":"A"}` {
		t.Errorf("the artifact was %q", texts)
	}
}

// A model that wants to be left alone for longer is waited for without a turn.
func TestALongRetryIsAWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "", once(reply{status: 503, header: map[string]string{"Retry-After": "6"}}))
	q := b.request("", a2a.Text("go"))
	q.Config.ReturnImmediately = true
	answer, err := b.engine.Send(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	b.eventually("it waits", func() bool {
		r, err := b.engine.Record(t.Context(), store.ForAll(), answer.Task.ID, store.Want{})
		return err == nil && r.Row.Wait == store.WaitTime && r.Row.Lease == 0
	})
	b.eventually("it goes on", func() bool { return b.get(answer.Task.ID).Status.State == a2a.StateCompleted })
}

// Old results are left out when the conversation is too long, and the task goes on.
func TestOldResultsAreLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "limits: {context: 20000, tool_result: 30KiB}", func(r *modelRequest) reply {
		if len(r.results()) < 6 {
			return reply{calls: []call{{"", "erp_large", fmt.Sprintf(`{"n":%d}`, r.N)}}, noUsage: true}
		}
		return reply{text: "Done."}
	})
	got := b.send("", "go")
	if got.Status.State != a2a.StateCompleted {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	asked := b.model.asked()
	results := asked[len(asked)-1].results()
	whole := 0
	for _, text := range results {
		if !strings.HasPrefix(text, "[This result, of 30720 bytes, was left out") {
			whole++
		}
	}
	if len(results) != 6 || whole != 2 || !strings.HasPrefix(results[0], "[This result") || !strings.HasPrefix(results[5], "xxx") {
		t.Errorf("%d results are whole of %d", whole, len(results))
	}
}

// A call that a person has to approve waits for that, and is made once, or not at all.
func TestACallIsApproved(t *testing.T) {
	t.Parallel()
	for _, approved := range []bool{true, false} {
		t.Run(fmt.Sprint(approved), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, sqliteStore(t), "", func(r *modelRequest) reply {
				if len(r.results()) == 0 {
					return reply{calls: []call{{"c1", "erp_approve", `{"n":1}`}, {"c2", "erp_approve", `{"n":2}`}}}
				}
				return reply{text: strings.Join(r.results(), "; ")}
			})
			got := b.send("", "go")
			if got.Status.State != a2a.StateAuthRequired || !strings.Contains(said(got), "it is dear") || b.tools.count("approve") != 0 {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			// A message authorizes nothing, and the model is told of it afterwards.
			if got = b.send(got.ID, "I approve it myself"); got.Status.State != a2a.StateAuthRequired || b.tools.count("approve") != 0 {
				t.Fatalf("got %s", got.AppendJSON(nil))
			}
			for n := range 2 {
				b.eventually("it asks", func() bool {
					grants, err := b.engine.Grants(t.Context(), store.ForAll(), 10)
					return err == nil && len(grants) == 1
				})
				grants, err := b.engine.Grants(t.Context(), store.ForAll(), 10)
				if err != nil {
					t.Fatal(err)
				}
				// A decision is for one call, and not for the next one.
				if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: approved && n == 0, Note: "no", By: "boss"}); err != nil {
					t.Fatal(err)
				}
			}
			b.eventually("it is over", func() bool { return b.get(got.ID).Status.State.Terminal() })
			got = b.get(got.ID)
			want := `approve of {"n":1}; The call was refused: The call was not approved: no`
			calls := 1
			if !approved {
				want, calls = `The call was refused: The call was not approved: no; The call was refused: The call was not approved: no`, 0
			}
			if answer := answerOf(got); answer != want || b.tools.count("approve") != calls {
				t.Errorf("the answer is %q after %d calls", answer, b.tools.count("approve"))
			}
			asked := b.model.asked()
			if last := asked[len(asked)-1].last(); last.Role != "user" || last.text() != "I approve it myself" {
				t.Errorf("the model has not been told what was said meanwhile, but %s", last.text())
			}
		})
	}
}

// A call that waits for an approval is not made when the tool was taken away meanwhile.
func TestAToolIsTakenAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "", once(reply{calls: []call{{"c1", "erp_approve", `{}`}}}))
	got := b.send("", "go")
	grants, err := b.engine.Grants(t.Context(), store.ForAll(), 10)
	if err != nil || len(grants) != 1 {
		t.Fatalf("%+v, %v", grants, err)
	}
	b.tools.mu.Lock()
	b.tools.hidden = true
	b.tools.mu.Unlock()
	if _, err := b.engine.Decide(t.Context(), store.ForAll(), &engine.Decision{Grant: grants[0].ID, Approved: true, By: "boss"}); err != nil {
		t.Fatal(err)
	}
	b.eventually("it is over", func() bool { return b.get(got.ID).Status.State.Terminal() })
	if got = b.get(got.ID); b.tools.count("approve") != 0 || !strings.Contains(answerOf(got), "not there any more") {
		t.Errorf("called %d times: %s", b.tools.count("approve"), got.AppendJSON(nil))
	}
}

// What a tool asks is asked of the user; the answer is for the tool and not for the
// model.
func TestAToolAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "", once(reply{calls: []call{{"c1", "erp_ask", `{}`}}}))
	got := b.send("", "go")
	if got.Status.State != a2a.StateInputRequired || said(got) != "Who signs?" {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	got = b.send(got.ID, "Ann")
	if got.Status.State != a2a.StateCompleted || !strings.Contains(answerOf(got), `"name":"Ann"`) {
		t.Errorf("got %s", got.AppendJSON(nil))
	}
	asked := b.model.asked()
	if n := len(asked[len(asked)-1].Messages); n != 4 { // system, user, call, result
		t.Errorf("the conversation has %d messages", n)
	}
	if b.tools.count("ask") != 1 {
		t.Errorf("the tool was called %d times", b.tools.count("ask"))
	}
}

// Messages that come in while the model is at work are answered too.
func TestAMessageMeanwhile(t *testing.T) {
	t.Parallel()
	held, began := make(chan struct{}), make(chan struct{})
	b := newBench(t, sqliteStore(t), "", func(r *modelRequest) reply {
		if r.N == 1 {
			return reply{text: "One. ", held: held, began: began}
		}
		return reply{text: "You said " + r.last().text()}
	})
	q := b.request("", a2a.Text("one"))
	q.Config.ReturnImmediately = true
	answer, err := b.engine.Send(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	q = b.request(answer.Task.ID, a2a.Text("two"))
	q.Config.ReturnImmediately = true
	if _, err := b.engine.Send(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	close(held)
	b.eventually("it is over", func() bool { return b.get(answer.Task.ID).Status.State.Terminal() })
	if got := answerOf(b.get(answer.Task.ID)); got != "You said two" {
		t.Errorf("the answer is %q", got)
	}
}

// A stop of the node while a tool is at work loses no answer; the call is not made
// again.
func TestAStopLosesNoCall(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		b := newBench(t, open(t), "", once(reply{calls: []call{{"c1", "erp_held", `{}`}}}))
		q := b.request("", a2a.Text("go"))
		q.Config.ReturnImmediately = true
		answer, err := b.engine.Send(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		<-b.tools.began
		old := b.node
		stopped := make(chan error, 1)
		old.jobs.Stop()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			stopped <- old.engine.Stop(ctx)
		}()
		b.eventually("it stops", old.engine.Draining)
		close(b.tools.held)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if err := old.store.Close(); err != nil {
			t.Fatal(err)
		}
		b.start()
		t.Cleanup(func() { b.close(old) })
		b.eventually("it is over", func() bool { return b.get(answer.Task.ID).Status.State.Terminal() })
		if got := b.get(answer.Task.ID); answerOf(got) != "Done with let go" || b.tools.count("held") != 1 {
			t.Errorf("%d calls, and %s", b.tools.count("held"), got.AppendJSON(nil))
		}
	})
}

// A cancel reaches the model, the tool, and the task that its server has made.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "", once(reply{calls: []call{{"c1", "erp_task", `{"sku":"slow"}`}}}))
	q := b.request("", a2a.Text("go"))
	q.Config.ReturnImmediately = true
	answer, err := b.engine.Send(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	b.eventually("the server has a task", func() bool {
		b.tools.mu.Lock()
		defer b.tools.mu.Unlock()
		return b.tools.server["slow"] > 0
	})
	if _, err := b.engine.Cancel(t.Context(), store.ForAll(), nil, answer.Task.ID, engine.ByCaller); err != nil {
		t.Fatal(err)
	}
	b.eventually("the server is told", func() bool {
		b.tools.mu.Lock()
		defer b.tools.mu.Unlock()
		return slices.Contains(b.tools.told, "slow")
	})
}

// Texts that nobody expects are kept as they are, or made readable, on every store.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, open func(*testing.T) opener) {
		b := newBench(t, open(t), "", func(r *modelRequest) reply {
			if len(r.results()) == 0 {
				return reply{text: "null \x00 and \u202e and \U0001f600", calls: []call{{"c\x00", "erp_stock", `{"sku":"a\u0000b"}`}, {"d", "ask_helper", `{"message":"\u0000 x"}`}}}
			}
			return reply{text: "null \x00 " + strings.Join(r.results(), "|")}
		})
		got := b.send("", "null \x00 <script>")
		if got.Status.State != a2a.StateCompleted || !strings.Contains(answerOf(got), `a\u0000b`) || !strings.Contains(answerOf(got), "quote for \x00 x") {
			t.Errorf("got %s", got.AppendJSON(nil))
		}
	})
}

// What is to be kept from callers is not told.
func TestShowNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "show_calls: false\nshow_usage: false", once(reply{status: 500}, reply{status: 400, body: `{"error":{"message":"of org-1234"}}`}))
	got := b.get(b.send("", "go").ID)
	if text := string(got.AppendJSON(nil)); got.Status.State != a2a.StateFailed || strings.Contains(text, "org-1234") || strings.Contains(text, "tokens") || outcomes(got) != "failed" {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(b.log.String(), "org-1234") {
		t.Error("the log does not say why")
	}
}

// Files are given to the model as far as it can read them.
func TestWhatTheModelIsGiven(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqliteStore(t), "ask_user: false\npeers: []\ntools: [erp/stock]\nmax_output: 77\ntemperature: 0.5\nextra: {reasoning_effort: low, a.b: [1]}", func(*modelRequest) reply { return reply{text: "ok"} })
	q := b.request("", a2a.Text("look"), a2a.Data(a2a.JSON(`{"n":12345678901234567890}`)), a2a.Raw([]byte("a,b"), "text/csv", "t.csv"),
		a2a.Raw([]byte{0xff, 0}, "image/png", "p.png"), a2a.URL("https://x.example/f", "", ""))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := b.engine.Send(ctx, q); err != nil {
		t.Fatal(err)
	}
	r := b.model.asked()[0]
	want := "look\n{\"n\":12345678901234567890}\n[File t.csv (text/csv)]\na,b\n[File p.png (image/png) of 2 bytes, which cannot be read here]\n[File without a name at https://x.example/f]"
	if got := r.last().text(); got != want {
		t.Errorf("it was given %q", got)
	}
	if len(r.Tools) != 1 || r.Tools[0].Function.Name != "erp_stock" || !strings.Contains(string(r.Tools[0].Function.Parameters), `"sku"`) {
		t.Errorf("it was offered %v", r.Tools)
	}
	for name, want := range map[string]string{"max_completion_tokens": "77", "temperature": "0.5", "reasoning_effort": `"low"`, "a.b": "[1]"} {
		if got := string(r.Body[name]); got != want {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// Images are shown to a model that takes them, in every turn of the task; of one that
// does not, the task says so.
func TestImages(t *testing.T) {
	t.Parallel()
	png := []byte("\x89PNG\r\n\x1a\n picture")
	send := func(b *bench, q *engine.Request) *a2a.Task {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		response, err := b.engine.Send(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return response.Task
	}
	parts := []a2a.Part{a2a.Text("What is it?"), a2a.Raw(png, "image/png", "p.png"), a2a.Raw([]byte("<svg/>"), "image/png", "fake.png")}
	const shown = `[{"text":"What is it?\n[Image p.png (image/png)]\n[File fake.png (image/png) of 6 bytes, which cannot be read here]","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBORw0KGgogcGljdHVyZQ=="},"type":"image_url"}]`
	same := func(content []byte) bool {
		one, other := jsontext.Value(content), jsontext.Value(shown)
		return one.Canonicalize() == nil && other.Canonicalize() == nil && string(one) == string(other)
	}

	seeing := newBench(t, sqliteStore(t), "vision: true", func(r *modelRequest) reply {
		if r.N == 1 {
			return reply{calls: []call{{"", "erp_stock", `{"sku":"x"}`}}}
		}
		return reply{text: "A bearing."}
	})
	if got := send(seeing, seeing.request("", parts...)); got.Status.State != a2a.StateCompleted {
		t.Fatalf("got %s", got.AppendJSON(nil))
	}
	asked := seeing.model.asked()
	if len(asked) != 2 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	for _, r := range asked {
		if got := r.Messages[1].Content; r.Messages[1].Role != "user" || !same(got) {
			t.Errorf("it was shown %s", got)
		}
	}

	blind := newBench(t, sqliteStore(t), "show_calls: false", func(*modelRequest) reply { return reply{text: "I see none."} })
	got := send(blind, blind.request("", parts...))
	if text := string(blind.get(got.ID).AppendJSON(nil)); got.Status.State != a2a.StateCompleted || !strings.Contains(text, "An image was not shown to the model, which takes none (agents.a.run.llm.vision).") {
		t.Errorf("got %s", text)
	}
	if r := blind.model.asked()[0]; strings.Contains(string(r.last().Content), "base64") {
		t.Errorf("it was shown %s", r.last().Content)
	}
}
