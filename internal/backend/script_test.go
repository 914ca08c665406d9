package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/backend"
)

func fixture(t testing.TB) agent.Agent {
	t.Helper()
	c, err := config.Load("testdata/fixture.yaml")
	if err != nil {
		t.Fatal(err)
	}
	a, err := backend.New(c.Agents["fixture"].Run, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// second makes the turn the second one, with a message or a grant.
func second(info agent.Info, g *agent.Grant) agent.Info {
	info.Number = 2
	if g != nil {
		info.Cause, info.Grant, info.Messages = agent.CauseGrant, g, nil
	}
	return info
}

func TestFixture(t *testing.T) {
	t.Parallel()
	a := fixture(t)
	data := a2a.Part{Kind: a2a.PartData, Data: a2a.JSON(`{"z":1.10,"a":12345678901234567890,"html":"<&>"}`), Metadata: a2a.JSON(`{"k":[1,2]}`), Filename: "d.json"}
	file := a2a.Raw([]byte{0, 255, 10}, "application/octet-stream", "blob")
	for name, test := range map[string]struct {
		info agent.Info
		want string
	}{
		"echo":         {said("echo hello\nworld"), `{"artifact":{"name":"echo","parts":[{"text":"hello\nworld"}],"last":true}}`},
		"echo of echo": {said("echo echo x"), `{"artifact":{"name":"echo","parts":[{"text":"echo x"}],"last":true}}`},
		"echo with parts": {
			said("echo hi", data, a2a.Text("second"), file),
			`{"artifact":{"name":"echo","parts":[{"text":"hi"},` + string(data.AppendJSON(nil)) + `,{"text":"second"},{"raw":"AP8K","filename":"blob","mediaType":"application/octet-stream"}],"last":true}}`,
		},
		"message":  {said("message hi there"), `{"message":"hi there"}`},
		"ask":      {said("ask"), `{"ask":"What shall I answer?","schema":{"type":"object","properties":{"answer":{"type":"string","title":"Answer"}},"required":["answer"]}}`},
		"answer":   {second(said("ask"), nil), `{"artifact":{"name":"answer","parts":[{"text":"ask"}],"last":true}}` + "\n" + `{"complete":"thank you"}`},
		"auth":     {said("auth"), `{"authorize":"May I go on?","operation":"go-on"}`},
		"approved": {second(said(""), &agent.Grant{Approved: true}), `{"complete":"approved"}`},
		"denied":   {second(said(""), &agent.Grant{}), `{"fail":"denied"}`},
		"message without a grant": {
			second(said("go"), nil),
			`{"artifact":{"name":"answer","parts":[{"text":"go"}],"last":true}}` + "\n" + `{"complete":"thank you"}`,
		},
		"burst": {
			said("burst 3"),
			`{"artifact":{"id":"burst","name":"burst","parts":[{"text":"1 "}],"append":true}}` + "\n" +
				`{"artifact":{"id":"burst","name":"burst","parts":[{"text":"2 "}],"append":true}}` + "\n" +
				`{"artifact":{"id":"burst","name":"burst","parts":[{"text":"3 "}],"append":true}}`,
		},
		"fail":     {said("fail"), `{"fail":"I fail, as you asked."}`},
		"latefail": {said("latefail"), `{"working":"working"}` + "\n" + `{"artifact":{"name":"partial","parts":[{"text":"half of the work"}]}}` + "\n" + `{"fail":"I fail late, as you asked."}`},
		"reject":   {said("reject"), `{"reject":"I reject this, as you asked."}`},
		"anything": {said("failure is no trigger", file), `{"artifact":{"name":"echo","parts":[{"text":"failure is no trigger"},{"raw":"AP8K","filename":"blob","mediaType":"application/octet-stream"}],"last":true}}`},
		"no text": {
			agent.Info{Number: 1, Messages: []a2a.Message{{MessageID: "m", Parts: []a2a.Part{data, file}}}},
			`{"artifact":{"name":"echo","parts":[` + string(data.AppendJSON(nil)) + `,{"raw":"AP8K","filename":"blob","mediaType":"application/octet-stream"}],"last":true}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := run(t.Context(), a, test.info)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want+"\n", r.lines()); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFixtureSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := &recorder{emitted: make(chan agent.Step)}
		done := make(chan error)
		a := fixture(t)
		go func() { done <- a.Run(t.Context(), agent.NewTurn(t.Context(), said("slow 2"), r)) }()
		<-r.emitted // working
		for i := range 20 {
			s := <-r.emitted
			if want := fmt.Sprintf("chunk %d\n", i+1); s.Artifact.Parts[0].Text != want {
				t.Errorf("chunk is %q, want %q", s.Artifact.Parts[0].Text, want)
			}
			if at, want := time.Since(begin), time.Duration(i+1)*100*time.Millisecond; at != want {
				t.Errorf("chunk %d came after %s, want %s", i+1, at, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
	})
}

func TestFixtureStopsAtOnce(t *testing.T) {
	t.Parallel()
	stop := errors.New("canceled by the client")
	for _, text := range []string{"slow 30", "never"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			a, begin := fixture(t), time.Now()
			time.AfterFunc(1050*time.Millisecond, func() { cancel(stop) })
			_, err := run(ctx, a, said(text))
			if took := time.Since(begin); !errors.Is(err, stop) || took != 1050*time.Millisecond {
				t.Errorf("%s: stopped after %s with %v", text, took, err)
			}
		})
	}
}

func TestFixtureStubborn(t *testing.T) {
	t.Parallel()
	stop := errors.New("canceled by the client")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a, begin := fixture(t), time.Now()
		time.AfterFunc(time.Second, func() { cancel(stop) })
		r, err := run(ctx, a, said("stubborn"))
		if took := time.Since(begin); !errors.Is(err, stop) || took != 3*time.Second {
			t.Errorf("stopped after %s with %v", took, err)
		}
		if got := r.lines(); got != "{\"working\":\"working\"}\n" {
			t.Errorf("steps are %s", got)
		}
	})
}

// A resumed turn passes over what earlier attempts have committed, and does not
// wait on the way there.
func TestScriptResumes(t *testing.T) {
	t.Parallel()
	const yaml = `
script:
  - do:
      - sleep: 1h
      - working: one
      - deaf: 1h
      - state: {n: 1}
      - repeat:
          times: 3
          every: 1s
          do: [{artifact: {id: x, append: true, parts: [{text: "{{.I}}"}]}}]
      - sleep: 10s
      - complete: end
`
	all := func(t *testing.T) string {
		r, err := run(t.Context(), build(t, yaml, backend.Options{}), said("x"))
		if err != nil {
			t.Fatal(err)
		}
		return r.lines()
	}
	for done, want := range []time.Duration{
		2*time.Hour + 13*time.Second, time.Hour + 13*time.Second, 13 * time.Second, 12 * time.Second, 11 * time.Second, 10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			whole := all(t)
			info := said("x")
			info.Attempt, info.Done = 2, done
			begin := time.Now()
			r, err := run(t.Context(), build(t, yaml, backend.Options{}), info)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("with %d done the turn took %s, want %s", done, took, want)
			}
			if len(r.skipped) != done || render(r.skipped)+r.lines() != whole {
				t.Errorf("with %d done: skipped\n%s, emitted\n%s, of\n%s", done, render(r.skipped), r.lines(), whole)
			}
		})
	}
}

func TestScriptConditions(t *testing.T) {
	t.Parallel()
	a := build(t, `
script:
  - {when: {grant: deny, turn: 3}, do: [{complete: denied at 3}]}
  - {when: {grant: approve}, do: [{complete: approved}]}
  - {when: {message_id: '-9$'}, do: [{complete: "id {{.MessageID}}"}]}
  - {when: {skill: book, text: (?i)NOW}, do: [{complete: book now}]}
  - {when: {skill: book}, do: [{complete: book}]}
  - {when: {part: url}, do: [{complete: url}]}
  - {when: {part: raw, text: '^(\w+) (\w+)?'}, do: [{complete: "{{.Match 2}}/{{.Match 1}}/{{.Match 0}}/{{.Match 7}}/{{.Match -1}}"}]}
  - {when: {turn: 2}, do: [{complete: turn 2}]}
`, backend.Options{})
	skilled := func(text string) agent.Info {
		info := said(text)
		info.Skill = "book"
		return info
	}
	numbered := said("x")
	numbered.Messages[0].MessageID = "m-9"
	older := said("x", a2a.URL("https://x.example", "", ""))
	older.Messages = append(older.Messages, said("y").Messages...)
	older.Number = 2
	third := second(said(""), &agent.Grant{})
	third.Number = 3
	for want, info := range map[string]agent.Info{
		"approved":          second(said(""), &agent.Grant{Approved: true}),
		"denied at 3":       third,
		"id m-9":            numbered,
		"book now":          skilled("Right now!"),
		"book":              skilled("later"),
		"url":               said("x", a2a.URL("https://x.example", "", "")),
		"two/one/one two//": said("one two", a2a.Raw(nil, "", "")),
		"/one/one //":       said("one !", a2a.Raw(nil, "", "")),
		"turn 2":            older, // only the newest message counts
	} {
		r, err := run(t.Context(), a, info)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := string(r.steps[0].AppendJSON(nil)); got != `{"complete":"`+want+`"}` {
			t.Errorf("step is %s, want %s", got, want)
		}
	}
	r, err := run(t.Context(), a, said("nothing"))
	if got := public(t, err); !strings.Contains(got, "No rule") || len(r.steps) != 0 {
		t.Errorf("error is %q after %d steps", got, len(r.steps))
	}
}

func TestScriptTemplatesExpandEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := build(t, `
script:
  - when: {text: ^(\S*) (.*)$}
    do:
      - state: {task: "{{.TaskID}}", list: ["{{.Match 1}}", 1.50, null, {"{{key}}": "{{.Text}}"}], static: "a: b"}
      - artifact:
          id: "{{.ContextID}}"
          name: "{{.Agent}} {{.Skill}}{{.Turn}}"
          description: "{{.Caller}}"
          metadata: {q: "{{.Match 2}}"}
          parts:
            - {url: "https://x.example/{{.Match 1}}", filename: "{{.Match 1}}.txt", mediaType: "text/{{.Match 1}}"}
            - {raw: "{{.Match 1}}"}
            - rest
            - {data: {text: "{{.Text}}"}, metadata: {m: "{{.MessageID}}"}}
      - repeat:
          times: 2
          do:
            - repeat: {times: "{{.I}}", do: [{working: "inner {{.I}}"}]}
            - working: {text: "outer {{.I}}", metadata: {i: "{{.I}}"}}
      - authorize: [{text: "{{.Match 2}}?"}]
        operation: "op-{{.Match 1}}"
        url: "https://x.example/{{.Match 1}}"
        expires: 1h
`, backend.Options{})
		info := said(`AAAA say "hi" <b>`, a2a.Data(a2a.JSON(`{"b": 1.0, "a":2}`)))
		info.Caller.Subject = "ana"
		r, err := run(t.Context(), a, info)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join([]string{
			`{"state":{"task":"task-1","list":["AAAA",1.50,null,{"{{key}}":"AAAA say \"hi\" <b>"}],"static":"a: b"}}`,
			`{"artifact":{"id":"context-1","name":"a 1","description":"ana","parts":[` +
				`{"url":"https://x.example/AAAA","filename":"AAAA.txt","mediaType":"text/AAAA"},` +
				`{"raw":"AAAA"},` +
				`{"data":{"b": 1.0, "a":2}},` +
				`{"data":{"text":"AAAA say \"hi\" <b>"},"metadata":{"m":"message-1"}}],"metadata":{"q":"say \"hi\" <b>"}}}`,
			`{"working":"inner 1"}`,
			`{"working":{"parts":[{"text":"outer 1"}],"metadata":{"i":"1"}}}`,
			`{"working":"inner 1"}`,
			`{"working":"inner 2"}`,
			`{"working":{"parts":[{"text":"outer 2"}],"metadata":{"i":"2"}}}`,
			`{"authorize":"say \"hi\" <b>?","operation":"op-AAAA","url":"https://x.example/AAAA","expires":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) + `"}`,
			"",
		}, "\n")
		if diff := cmp.Diff(want, r.lines()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	})
}

func TestScriptFailsClearlyOnWhatAMessageBrings(t *testing.T) {
	t.Parallel()
	a := build(t, `
script:
  - when: {text: ^times (.*)}
    do: [{repeat: {times: "{{.Match 1}}", do: [{working: {}}]}}]
  - when: {text: ^sleep (.*)}
    do: [{sleep: "{{.Match 1}}"}]
  - when: {text: ^wait (.*)}
    do: [{wait: {for: "{{.Match 1}}"}}]
  - when: {text: ^raw (.*)}
    do: [{artifact: {parts: [{raw: "{{.Match 1}}"}]}}]
  - when: {text: ^say(.*)}
    do: [{message: "{{.Match 1}}"}]
  - when: {text: ^rest}
    do: [{artifact: {parts: rest}}]
`, backend.Options{})
	for text, want := range map[string]string{
		"times x":                            `times: "x" is not a number from 0 to 1000000`,
		"times 1000001":                      "is not a number from 0 to 1000000",
		"times -1":                           "is not a number",
		"sleep -2s":                          "is not between 0 and",
		"sleep long":                         `"long" is not a duration`,
		"sleep 90000h":                       "is not between 0 and",
		"wait 0s":                            "wait.for: 0s is not between",
		"raw ***":                            "illegal base64",
		"say":                                "message: has no parts",
		"rest":                               "artifact.parts: has no part",
		"sleep " + strings.Repeat("ü", 1000): "…",
	} {
		r, err := run(t.Context(), a, said(text))
		if got := public(t, err); !strings.Contains(got, want) || len(got) > 300 {
			t.Errorf("%.40s: error is %q, want %q", text, got, want)
		}
		if len(r.steps) != 0 {
			t.Errorf("%.40s: made %d steps", text, len(r.steps))
		}
	}
	if r, err := run(t.Context(), a, said("times 0")); err != nil || len(r.steps) != 0 {
		t.Errorf("zero times made %d steps and %v", len(r.steps), err)
	}
}

// A delegation that is over without an artifact gives what its status says, and
// without that nothing.
func TestScriptOutcomeWithoutArtifacts(t *testing.T) {
	t.Parallel()
	a := build(t, `
script:
  - when: {outcome: completed}
    do: [{artifact: {name: Quote, parts: outcome}}]
`, backend.Options{})
	for want, m := range map[string]*a2a.Message{
		`{"artifact":{"name":"Quote","parts":[{"text":"EUR 5"},{"data":5.0}]}}` + "\n": {Parts: []a2a.Part{a2a.Text("EUR 5"), a2a.Data(a2a.JSON(`5.0`))}},
		"": nil,
	} {
		info := said("")
		info.Messages, info.Cause, info.Number = nil, agent.CauseOutcome, 2
		info.Outcome = &agent.Outcome{State: a2a.StateCompleted, Task: &a2a.Task{Status: a2a.TaskStatus{State: a2a.StateCompleted, Message: m}}}
		r, err := run(t.Context(), a, info)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.lines()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	}
}

func TestScriptDelegates(t *testing.T) {
	t.Parallel()
	a := build(t, `
script:
  - when: {outcome: completed}
    do: [{artifact: {name: "{{.OutcomeState}}", parts: [{text: "{{.Outcome}}!"}, outcome]}}]
  - when: {outcome: over}
    do: [{fail: "{{.OutcomeState}}: {{.Outcome}}"}]
  - when: {text: ^order (.*)}
    do: [{delegate: {to: "{{.Match 1}}", message: ["text": "Quote {{.Text}}", rest], ref: "{{.MessageID}}", skill: quote, deadline: 2d, again: true}}]
  - do: [{delegate: {to: supplier, message: Quote}}]
`, backend.Options{})
	over := func(state a2a.TaskState) agent.Info {
		info := said("")
		info.Messages, info.Cause, info.Number = nil, agent.CauseOutcome, 2
		info.Outcome = &agent.Outcome{State: state, Task: &a2a.Task{Artifacts: []a2a.Artifact{{Parts: []a2a.Part{a2a.Text("EUR 5"), a2a.Data(a2a.JSON(`5.0`))}}}}}
		return info
	}
	for want, info := range map[string]agent.Info{
		`{"delegate":{"to":"b","message":[{"text":"Quote order b"},{"data":1}],"ref":"message-1","again":true,"skill":"quote","deadline":"48h0m0s"}}`: said("order b", a2a.Data(a2a.JSON(`1`))),
		`{"delegate":{"to":"supplier","message":"Quote"}}`:                                            said("x"),
		`{"artifact":{"name":"completed","parts":[{"text":"EUR 5!"},{"text":"EUR 5"},{"data":5.0}]}}`: over(a2a.StateCompleted),
		`{"fail":"rejected: EUR 5"}`:                                                                  over(a2a.StateRejected),
	} {
		r, err := run(t.Context(), a, info)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want+"\n", r.lines()); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	}
}

// The steps of a script serve many turns, so that what one turn fills in must
// not show in another.
func TestScriptStepsAreNotShared(t *testing.T) {
	t.Parallel()
	a := build(t, `
script:
  - when: {text: ask}
    do: [{ask: Why?}]
  - when: {text: auth}
    do: [{authorize: May I?}]
  - do: [{artifact: {parts: [{text: static}]}}]
`, backend.Options{})
	for _, text := range []string{"ask", "auth", "x"} {
		r, err := run(t.Context(), a, said(text))
		if err != nil {
			t.Fatal(err)
		}
		before := r.lines()
		switch s := r.steps[0]; {
		case s.Ask != nil:
			s.Ask.Schema = a2a.JSON(`{}`)
		case s.Authorize != nil:
			s.Authorize.URL = "https://x.example"
		default:
			s.Artifact.ID = "filled in"
		}
		again, err := run(t.Context(), a, said(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := again.lines(); got != before {
			t.Errorf("%s: the next turn has %s", text, got)
		}
	}
}

func TestCheckScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ yaml, path, want string }{
		{`script: [{when: {text: "("}, do: []}]`, "run.script[0].when.text", "missing closing )"},
		{`script: [{when: {message_id: "["}, do: []}]`, "run.script[0].when.message_id", "missing closing ]"},
		{`script: [{do: []}, {do: []}]`, "run.script[1]", "is never reached"},
		{`script: [{do: [{complete: "{{.Nope}}"}]}]`, "run.script[0].do[0].complete", "can't evaluate field Nope"},
		{`script: [{do: [{complete: "{{.Text"}]}]`, "run.script[0].do[0].complete", "unclosed action"},
		{`script: [{do: [{complete: {parts: [{text: x}, {data: {a: "{{end}}"}}]}}]}]`, "run.script[0].do[0].complete.parts[1].data", "unexpected {{end}}"},
		{`script: [{do: [{complete: {text: x, parts: rest}}]}]`, "run.script[0].do[0].complete", "both text and parts"},
		{`script: [{do: [{complete: {parts: [{text: x, url: y}]}}]}]`, "run.script[0].do[0].complete.parts[0]", "exactly one of"},
		{`script: [{do: [{complete: {parts: [{raw: "*"}]}}]}]`, "run.script[0].do[0]", "illegal base64"},
		{`script: [{do: [{artifact: {parts: []}}]}]`, "run.script[0].do[0]", "artifact.parts: has no part"},
		{`script: [{do: [{working: x, complete: y}]}]`, "run.script[0].do[0]", "working and complete"},
		{`script: [{do: [{complete: }]}]`, "run.script[0].do[0]", "complete: {}"},
		{`script: [{do: [{complete: x, operation: y}]}]`, "run.script[0].do[0].operation", "belongs to authorize, not to complete"},
		{`script: [{do: [{complete: x}, {working: y}]}]`, "run.script[0].do[1]", "since complete ends the turn"},
		{`script: [{do: [{working: x}, {message: y}]}]`, "run.script[0].do[1].message", "the first and only step"},
		{`script: [{do: [{repeat: {times: x, do: [{working: x}]}}]}]`, "run.script[0].do[0].repeat.times", "not a number"},
		{`script: [{do: [{repeat: {times: 2, every: often, do: [{working: x}]}}]}]`, "run.script[0].do[0].repeat.every", "not a duration"},
		{`script: [{do: [{repeat: {times: 2, do: []}}]}]`, "run.script[0].do[0].repeat.do", "has no steps"},
		{`script: [{do: [{repeat: {times: 2, do: [{complete: x}]}}]}]`, "run.script[0].do[0].repeat.do[0].complete", "cannot be repeated"},
		{`script: [{do: [{sleep: soon}]}]`, "run.script[0].do[0].sleep", "not a duration"},
		{`script: [{do: [{deaf: -1s}]}]`, "run.script[0].do[0].deaf", "not between"},
		{`script: [{do: [{wait: {for: soon}}]}]`, "run.script[0].do[0].wait.for", "not a duration"},
		{`script: [{do: [{authorize: x, expires: soon}]}]`, "run.script[0].do[0].expires", "want a time"},
		{`script: [{do: [{authorize: x, url: "ftp://x"}]}]`, "run.script[0].do[0]", "absolute http or https"},
		{`script: [{do: [{fail: [{text: x}, {url: "{{if}}"}]}]}]`, "run.script[0].do[0].fail[1].url", "missing value for if"},
		{`http: {url: "https://x.example/", headers: {Content-Length: "5"}}`, "run.http.headers.Content-Length", "set by the request itself"},
		{`http: {url: "https://x.example/", headers: {X: "a\nb"}}`, "run.http.headers.X", "a header cannot have"},
		{`exec: {command: [x], env: {"A=B": "x"}}`, "run.exec.env", `"A=B" cannot be`},
	} {
		problems := backend.Check(configured(t, test.yaml))
		if len(problems) != 1 || problems[0].Path != test.path || !strings.Contains(problems[0].Error(), test.want) {
			t.Errorf("%s: problems are %v, want %s: %s", test.yaml, problems, test.path, test.want)
		}
	}
	if _, err := backend.New(configured(t, `script: [{when: {text: "("}, do: [{sleep: soon}]}]`), backend.Options{}); err == nil ||
		!strings.Contains(err.Error(), "run.script[0].when.text: ") || !strings.Contains(err.Error(), "run.script[0].do[0].sleep: ") {
		t.Errorf("error of New is %v", err)
	}
}

func TestCheckBackends(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		run  config.Run
		want string
	}{
		{config.Run{}, "run: has no backend"},
		{config.Run{Script: []config.Rule{{}}, HTTP: &config.HTTP{}}, "run: has several backends, http and script"},
		{config.Run{Script: []config.Rule{{Do: []config.ScriptStep{{Delegate: &config.ScriptDelegate{To: "x"}}}}}}, "run.script[0].do[0].delegate.message: is missing"},
		{config.Run{Script: []config.Rule{{Do: []config.ScriptStep{{Delegate: &config.ScriptDelegate{Message: &config.ScriptContent{Text: "Quote"}}}}}}}, "run.script[0].do[0]: delegate.to: is missing"},
		{config.Run{Script: []config.Rule{{When: config.When{Outcome: "done"}, Do: []config.ScriptStep{{Complete: &config.ScriptContent{}}}}}}, "run.script[0].when.outcome: is not one of"},
		{config.Run{Script: []config.Rule{}}, "run.script: has no rules"},
		{config.Run{Exec: &config.Exec{}}, "run.exec.command: names no program"},
		{config.Run{HTTP: &config.HTTP{URL: "https://u:p@x.example/"}}, "run.http.url: has credentials"},
		{config.Run{HTTP: &config.HTTP{URL: "/x"}}, "run.http.url: is not an absolute"},
	} {
		problems := backend.Check(test.run)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), test.want) {
			t.Errorf("problems are %v, want %s", problems, test.want)
		}
	}
}

func BenchmarkScriptEcho(b *testing.B) {
	a, info := fixture(b), said("echo hello")
	b.ReportAllocs()
	for b.Loop() {
		r := &recorder{steps: make([]agent.Step, 0, 4)}
		if err := a.Run(b.Context(), agent.NewTurn(b.Context(), info, r)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScriptBurst(b *testing.B) {
	a, info := fixture(b), said("burst 1000")
	b.ReportAllocs()
	for b.Loop() {
		r := &recorder{steps: make([]agent.Step, 0, 1000)}
		if err := a.Run(b.Context(), agent.NewTurn(b.Context(), info, r)); err != nil {
			b.Fatal(err)
		}
	}
}
