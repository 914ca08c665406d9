package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

// minimal is a file that says only what it must.
const minimal = `agents:
  delivery:
    name: Delivery
    description: Books docks.
    version: 1.10
    skills:
      - {id: book, name: Book, description: Books a dock., tags: [logistics]}
    run: {exec: [./book]}
`

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), "")
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

// problems parses a text that is wrong and returns line: path: message; hint.
func problems(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse([]byte(text), "")
	e, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("Parse returned %v (%T), want *config.Error", err, err)
	}
	var got []string
	for _, p := range e.Problems {
		line := fmt.Sprintf("%d:%d: %s: %s", p.Line, p.Column, p.Path, p.Message)
		if p.Hint != "" {
			line += "; " + p.Hint
		}
		got = append(got, line)
	}
	return got
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal)
	a := c.Agents["delivery"]
	got := []any{
		c.Listen, c.Store, c.Callers.Anonymous, c.Limits.Body, c.Retention.Tasks.Std(), c.Retention.Claims.Std(),
		c.ShutdownGrace.Std(), c.DefaultAgentID(), c.Telemetry.Metrics,
		a.Version, a.DefaultInputModes, a.Streaming, a.Versions, a.Answers, a.Idempotency, a.FirstStepWait.Std(),
		a.Resumes(), a.History, a.LastEventID, a.Limits.Total.Std(), a.KeptFor(c.Retention).Std(), a.Paths.REST,
	}
	want := []any{
		"127.0.0.1:8080", "sqlite:handoff.db", config.AnonymousLoopback, config.Size(16 << 20), 30 * 24 * time.Hour, 24 * time.Hour,
		20 * time.Second, "delivery", true,
		"1.10",
		[]string{"text/plain", "application/json"},
		true,
		[]string{"1.0"},
		config.AnswersEither, config.IdempotencyAuto, 200 * time.Millisecond,
		false, 100, true, time.Hour, 30 * 24 * time.Hour, "v1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestParseEverything(t *testing.T) {
	t.Setenv("HANDOFF_TEST_HOST", "agents.example.com")
	t.Setenv("HANDOFF_TEST_STREAMS", "7")
	dir := t.TempDir()
	key := strings.Repeat("k", 40)
	if err := os.WriteFile(filepath.Join(dir, "handoff.key"), []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse([]byte(`
x-modes: &modes [text/plain, image/*]
listen: "[::1]:9000"
public_url: https://${HANDOFF_TEST_HOST}/a
trusted_proxies: [10.0.0.0/8, 127.0.0.1]
store: sqlite:data.db
secret_key: file:handoff.key
callers: {anonymous: everywhere}
default_agent: two
outbound: {allow: [10.1.0.0/16, hooks.corp.example:8443, "*.corp.example"]}
limits: {body: 1MiB, streams: "${HANDOFF_TEST_STREAMS}", json_depth: 100}
retention: {tasks: 1d12h}
telemetry: {otlp: {endpoint: "http://127.0.0.1:4318", headers: {authorization: "Bearer ${HANDOFF_TEST_UNSET:-x y}"}, ratio: 0.25}}
agents:
  one: &one
    name: One
    description: "Costs $${5} or ${{.Match 1}}."
    version: 1.0.0
    default_input_modes: *modes
    skills: [{id: s, name: S, description: Does., tags: [t], input_schema: {type: object, properties: {z: {type: integer}, a: {minimum: 1.50}}}}]
    retention: 7d
    extensions: [{uri: "https://example.com/ext", required: true, params: {b: 1, a: [true, null, 0x10]}}]
    tenants: [acme, beta-2]
    run:
      script:
        - when: {text: "^hi (.*)$"}
          do: [{ask: "What, {{.Match 1}}?"}]
  two:
    <<: *one
    name: Two
    run: {http: "http://127.0.0.1:9/turn"}
    on_interrupt: resume
`), dir)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	one, two := c.Agents["one"], c.Agents["two"]
	allow := make([]string, len(c.Outbound.Allow))
	for i, d := range c.Outbound.Allow {
		allow[i] = d.String()
	}
	got := map[string]any{
		"public_url": c.PublicURL, "proxy": c.TrustedPrefixes()[1].String(), "store": c.StorePath(),
		"key": c.SecretKey.Reveal(), "allow": allow, "streams": c.Limits.Streams, "tasks": c.Retention.Tasks.Std(),
		"otlp": c.Telemetry.OTLP.Headers["authorization"].Reveal(), "ratio": c.Telemetry.OTLP.Ratio,
		"description": one.Description, "modes": one.DefaultInputModes, "params": string(one.Extensions[0].Params),
		"schema": string(one.Skills[0].InputSchema), "kept": one.KeptFor(c.Retention).Std(),
		"one resumes": one.Resumes(), "two resumes": two.Resumes(), "two": two.Name + two.Version, "url": two.Run.HTTP.URL,
		"ask": one.Run.Script[0].Do[0].Ask.Text, "default": c.DefaultAgentID(),
	}
	want := map[string]any{
		"public_url": "https://agents.example.com/a", "proxy": "127.0.0.1/32", "store": filepath.Join(dir, "data.db"),
		"key": key, "allow": []string{"10.1.0.0/16", "hooks.corp.example:8443", "*.corp.example"}, "streams": 7, "tasks": 36 * time.Hour,
		"otlp": "Bearer x y", "ratio": 0.25,
		"description": "Costs ${5} or ${{.Match 1}}.", "modes": []string{"text/plain", "image/*"}, "params": `{"b":1,"a":[true,null,16]}`,
		"schema": `{"type":"object","properties":{"z":{"type":"integer"},"a":{"minimum":1.50}}}`, "kept": 7 * 24 * time.Hour,
		"one resumes": true, "two resumes": true, "two": "Two1.0.0", "url": "http://127.0.0.1:9/turn",
		"ask": "What, {{.Match 1}}?", "default": "two",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestParseReportsEveryProblemInOrder(t *testing.T) {
	t.Parallel()
	got := problems(t, `listne: 1
store: postgres://db:65536/handoff
limits: {body: lots, streams: -1, jsondepth: 3}
shutdown_grace: 10
cluster: {}
callers: {anonymous: on, keys: true}
log: {level: inof}
agents:
  delivery:
    name: Delivery
    skils: []
    description: ""
    version: true
    tenants: [Acme]
    versions: [newest]
    streaming: "yes"
    default_input_modes: text/plain
    skills:
      - {id: a, name: A, description: D, tags: []}
      - {id: a, name: A, description: D, tags: [x]}
    run: {exec: [a], http: "ftp://x", relay: {}}
    name: Again
default_agent: delivry
`)
	want := []string{
		`1:1: listne: unknown key; did you mean "listen"?`,
		`2:8: store: has a port that is not a number from 1 to 65535; write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full`,
		`3:16: limits.body: is not a size; write it like 65536, 64KiB, 16MiB or 1GiB`,
		`3:31: limits.streams: is less than 0`,
		`3:35: limits.jsondepth: unknown key; did you mean "json_depth"?`,
		`4:17: shutdown_grace: is not a duration; write it like 500ms, 90s, 15m, 2h or 30d`,
		`5:1: cluster: is not available in this version of handoff`,
		`6:22: callers.anonymous: is not one of off, loopback, everywhere`,
		`7:14: log.level: is not one of debug, info, warn, error; did you mean "info"?`,
		`11:5: agents.delivery.skils: unknown key; did you mean "skills"?`,
		`12:18: agents.delivery.description: is empty; the agent card has to have it (A2A §4.4)`,
		`13:14: agents.delivery.version: expects a text, not true or false; put it in quotes`,
		`14:15: agents.delivery.tenants[0]: is not the name of a tenant: use a-z, 0-9 and -, up to 63 characters`,
		`15:16: agents.delivery.versions[0]: is not one of 1.0, 0.3`,
		`16:16: agents.delivery.streaming: expects true or false, not a text`,
		`17:26: agents.delivery.default_input_modes: expects a list, not a text; write it in brackets: [text/plain]`,
		`19:42: agents.delivery.skills[0].tags: is empty; the agent card has to have it (A2A §4.4.5); add a keyword`,
		`20:14: agents.delivery.skills[1].id: is the id of skills[0] already`,
		`21:5: agents.delivery.run: has more than one backend: exec, http; keep one`,
		`21:28: agents.delivery.run.http: the URL is not an http or https URL`,
		`21:46: agents.delivery.run.relay: expects a text, not a mapping`,
		`22:5: agents.delivery.name: stands twice; the first is on line 10`,
		`23:16: default_agent: there is no agent "delivry"; did you mean "delivery"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
