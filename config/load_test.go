package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestErrorsLookLikeACompilers(t *testing.T) {
	t.Parallel()
	path := write(t, strings.Replace(minimal, "skills:", "skils:", 1))
	_, err := config.Load(path)
	want := path + `:2:3: agents.delivery.skills: is missing
    2 |   delivery:
      |   ^
` + path + `:6:5: agents.delivery.skils: unknown key; did you mean "skills"?
    6 |     skils:
      |     ^`
	if err == nil || err.Error() != want {
		t.Errorf("error:\n%v\nwant:\n%s", err, want)
	}
}

func TestStructuralProblems(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "listen: [1\n", "1:9: : is not YAML: sequence end token ']' not found"},
		{"tab", "agents:\n\tx: 1\n", "2:1: : is not YAML: found character '\t' that cannot start any token"},
		{"list", "- a\n- b\n", "1:1: : expects keys and values, not a list"},
		{"text", "hello", "1:1: : expects keys and values, not a text"},
		{"two documents", minimal + "---\na: 1\n", "10:1: : has more than one document"},
		{"not UTF-8", "a: b\nlisten: \"\xff\"\n", "2:10: : is not UTF-8"},
		{"deep in brackets", "x-a: " + deep, "1:69: : nests deeper than 64"},
		{"deep in dashes", "x-a:\n  " + strings.Repeat("- ", 50_000), "2:131: : nests deeper than 64"},
		{"deep in lines", deepLines(80), "65:65: : nests deeper than 64"},
		{"unknown alias", "listen: *x\n" + minimal, `1:9: listen: names an anchor, "x", that is not defined above it`},
		{"alias in itself", strings.Replace(minimal, "tags: [logistics]", "tags: [x], input_schema: &a {not: *a}", 1), "agents.delivery.skills[0].input_schema.not.not: contains itself"},
		{"foreign tag", "listen: !!python/object x\n" + minimal, "1:9: listen: has a tag, !!python/object, that means nothing here"},
		{"no value", "listen:\n" + minimal, "1:8: listen: has no value; give it a value or remove the key"},
		{"agent without value", "agents:\n  x:\n", "2:3: agents.x: has no value"},
		{"number for a text list", "cors: {origins: 1}\n" + minimal, "1:17: cors.origins: expects a list, not a number; write it in brackets: [1]"},
		{"wrong id", strings.ReplaceAll(minimal, "delivery:", "Delivery!:"), `2:3: agents["Delivery!"]: is not an id: use a-z, 0-9 and -, begin with a letter or a digit, and up to 63 characters`},
		{"fraction", "limits: {streams: 1.5}\n" + minimal, "1:19: limits.streams: is not a whole number"},
		{"no backend", strings.Replace(minimal, "{exec: [./book]}", "{}", 1), "8:5: agents.delivery.run: says nothing that runs the agent; add script, exec, http, mcp, relay or llm"},
		{"no run", strings.Replace(minimal, "    run: {exec: [./book]}\n", "", 1), "2:3: agents.delivery.run: is missing"},
		{"no skills", strings.Replace(minimal, "skills:\n      - {id: book, name: Book, description: Books a dock., tags: [logistics]}", "skills: []", 1), "6:5: agents.delivery.skills: is empty; the agent card has to have at least one skill (A2A §4.4.1)"},
		{"bad schema", strings.Replace(minimal, "tags: [logistics]", "tags: [x], input_schema: {type: 5}", 1), "agents.delivery.skills[0].input_schema: is not a JSON Schema"},
		{"bad pattern", strings.Replace(minimal, "tags: [logistics]", `tags: [x], input_schema: {pattern: "("}`, 1), "agents.delivery.skills[0].input_schema: is not a JSON Schema"},
		{"path of another agent", strings.Replace(minimal, "run:", "paths: {rest: /agents/other/v1}\n    run:", 1), "8:19: agents.delivery.paths.rest: is the address of another agent"},
		{"same paths", strings.Replace(minimal, "run:", "paths: {rest: rpc}\n    run:", 1), "8:19: agents.delivery.paths.rest: is the address of agents.delivery.paths.jsonrpc already"},
		{"node's path", strings.Replace(minimal, "run:", "paths: {rest: /api/v1}\n    run:", 1), "8:19: agents.delivery.paths.rest: is below /api, which is the node's own"},
		{"path up", strings.Replace(minimal, "run:", "paths: {rest: ../x}\n    run:", 1), "8:19: agents.delivery.paths.rest: has a segment .."},
		{"bad CIDR", "trusted_proxies: [10.0.0.0/8, 10.0.0.300]\n" + minimal, "1:31: trusted_proxies[1]: is neither an address nor a network in CIDR notation, such as 10.0.0.0/8"},
		{"bad destination", "outbound: {allow: [\"http://x\"]}\n" + minimal, "1:20: outbound.allow[0]: is not a network, an address or a host name, with a :port or without"},
		{"public listener", "listen: 0.0.0.0:80\n" + minimal, "1:9: listen: the node would listen beyond loopback (0.0.0.0:80), where callers.anonymous: loopback lets nobody in; listen on 127.0.0.1, let callers authenticate (callers.keys: true, say), or set callers.anonymous to everywhere (anybody may call) or off"},
		{"no port", "listen: localhost\n" + minimal, "1:9: listen: is not host:port: missing port in address; write it like 127.0.0.1:8080, or :8080 for every interface"},
		{"public URL with credentials", "public_url: https://a:b@c\n" + minimal, "1:13: public_url: holds credentials, which everybody would see; write it like https://agents.example.com"},
		{"other store", "store: mysql:x\n" + minimal, "1:8: store: is not a store that handoff knows; write it like sqlite:handoff.db or postgres://USER:PASSWORD@HOST:5432/DATABASE"},
		{"origin with a path", "cors: {origins: [\"https://a.example/\"]}\n" + minimal, "1:18: cors.origins[0]: is more than an origin; write https://a.example"},
		{"short key", "secret_key: abc\n" + minimal, "1:13: secret_key: has fewer than 32 characters; `handoff init` makes one"},
		{"short old key", "secret_key: " + strings.Repeat("a", 32) + "\nold_secret_keys: [abc]\n" + minimal, "2:19: old_secret_keys[0]: has fewer than 32 characters"},
		{"old key in force", "secret_key: " + strings.Repeat("a", 32) + "\nold_secret_keys: [" + strings.Repeat("a", 32) + "]\n" + minimal, "2:19: old_secret_keys[0]: is the same key as secret_key; remove one of them"},
		{"old key twice", "secret_key: " + strings.Repeat("a", 32) + "\nold_secret_keys: [" + strings.Repeat("b", 32) + ", " + strings.Repeat("b", 32) + "]\n" + minimal, "2:53: old_secret_keys[1]: is the same key as old_secret_keys[0]; remove one of them"},
		{"old keys alone", "old_secret_keys: [" + strings.Repeat("a", 32) + "]\n" + minimal, "1:1: old_secret_keys: stands without secret_key; name the key that is to seal in secret_key"},
		{"many old keys", "secret_key: " + strings.Repeat("a", 32) + "\nold_secret_keys: [" + strings.Join([]string{strings.Repeat("b", 32), strings.Repeat("c", 32), strings.Repeat("d", 32), strings.Repeat("e", 32), strings.Repeat("f", 32)}, ", ") + "]\n" + minimal, "2:1: old_secret_keys: has more than 4 keys; remove those that nothing is sealed with any more"},
		{"no key file", "secret_key: file:/nonexistent/key\n" + minimal, "1:13: secret_key: cannot be read: open /nonexistent/key: no such file or directory; `handoff init` makes one"},
		{"unset variable", "listen: ${HANDOFF_NOT_SET}\n" + minimal, "1:9: listen: refers to the environment variable HANDOFF_NOT_SET, which is not set; set it, or write ${HANDOFF_NOT_SET:-default}"},
		{"malformed reference", "listen: ${x y}\n" + minimal, "1:9: listen: has a reference to the environment that is malformed; write ${NAME} or ${NAME:-default}, or $${ for the characters themselves"},
		{"assumed version", strings.Replace(minimal, "run:", "assume_version: 0.3\n    run:", 1), `8:21: agents.delivery.assume_version: is not among the agent's versions`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			got := problems(t, tt.text)
			if len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), tt.want)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func deepLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestLargeInputsAreBounded(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("x-0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&bomb, "x-%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	bomb.WriteString("agents: {x: {skills: [{input_schema: *a8}]}}\n")
	for name, text := range map[string]string{
		"too long":      strings.Repeat("# comment\n", config.MaxFile/10+1),
		"aliases":       bomb.String(),
		"siblings":      strings.Repeat("k: v\n", 120_000),
		"elements":      "x-a: [" + strings.Repeat("a,\n", 120_000),
		"keys in flow":  "x-a: {" + strings.Repeat("? a\n", 120_000),
		"empty lines":   "x-a: |\n" + strings.Repeat("\n", 200_000),
		"one line":      strings.Repeat("\"\\u0041\" ", 100_000),
		"text":          "x-a: |\n" + strings.Repeat("  word\n", 100_000) + "listen: 1",
		"words":         strings.Repeat("x: {a: 1, b: [1,2]}\n", 40_000),
		"many problems": "cors: {" + strings.Repeat("k: 1, ", 5000) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := config.Parse([]byte(text), "")
			if _, ok := errors.AsType[*config.Error](err); !ok {
				t.Fatalf("error = %v", err)
			}
			if n := len(err.Error()); n > 64<<10 {
				t.Errorf("the error has %d bytes", n)
			}
			if d := time.Since(began); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Setenv("HANDOFF_TEST_TOKEN", "env-s3cret-value")
	text := `secret_key: literal-s3cret
old_secret_keys: [older-s3cret, older-s3cret]
telemetry: {otlp: {endpoint: nonsense, headers: {authorization: "Bearer header-s3cret"}, ratio: "${HANDOFF_TEST_TOKEN}"}}
limits: {body: "${HANDOFF_TEST_TOKEN}"}
tokn: unknown-s3cret
`
	_, err := config.Parse([]byte(text), "")
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error:\n%v", err)
	}
	if _, err := config.Parse([]byte("api_token: \"syntax-s3cret\nx: [\n"), ""); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error:\n%v", err)
	}

	secret := config.NewSecret("s3cret")
	marshalled, err := yaml.Marshal(map[string]any{"a": secret, "b": &secret})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", secret, "in", struct{ S config.Secret }{secret})
	shown := fmt.Sprintf("%v %s %+v %#v %q %v", secret, secret, secret, secret, secret, []any{secret, map[string]config.Secret{"a": secret}}) + string(marshalled) + log.String()
	if strings.Contains(shown, "s3cret") || !strings.Contains(shown, "***") {
		t.Errorf("shown: %s", shown)
	}
	if secret.Reveal() != "s3cret" || secret.IsZero() || !(config.Secret{}).IsZero() || (config.Secret{}).String() != "" {
		t.Error("Reveal, IsZero or String is wrong")
	}
}

func TestOverridesAndOrigins(t *testing.T) {
	t.Setenv("HANDOFF_TEST_LEVEL", "debug")
	path := write(t, "store: sqlite:a.db\nlog:\n  level: ${HANDOFF_TEST_LEVEL}\n"+minimal)
	c, err := config.Load(path,
		config.Override{Path: "listen", Value: ":9999", Flag: "--listen"},
		config.Override{Path: "callers.anonymous", Value: "everywhere", Flag: "--anonymous"},
		config.Override{Path: "agents.delivery.limits.total", Value: "2h", Flag: "--set"},
		config.Override{Path: "cors.origins", Value: "https://a.example, https://b.example", Flag: "--cors"},
	)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, v := range c.Values() {
		got[v.Path] = v.Text + " from " + v.Origin.String()
	}
	for path, want := range map[string]string{
		"listen":                       ":9999 from --listen",
		"cors.origins":                 "[https://a.example, https://b.example] from --cors",
		"agents.delivery.limits.total": "2h from --set",
		"store":                        "sqlite:a.db from " + path + ":1",
		"log.level":                    "debug from $HANDOFF_TEST_LEVEL (" + path + ":3)",
		"limits.body":                  "16MiB from default",
		"agents.delivery.version":      "1.10 from " + path + ":8",
	} {
		if got[path] != want {
			t.Errorf("%s = %s, want %s", path, got[path], want)
		}
	}
	if c.StorePath() != filepath.Join(filepath.Dir(path), "a.db") {
		t.Errorf("StorePath = %s", c.StorePath())
	}
	for _, o := range []config.Override{
		{Path: "listn", Value: "x"},
		{Path: "limits.body", Value: "x"},
		{Path: "limits.streams", Value: "-1"},
		{Path: "log.level", Value: "loud"},
		{Path: "agents.x.name", Value: "y"},
		{Path: "agents", Value: "y"},
		{Path: "listen", Value: "0.0.0.0:1", Flag: "--listen"},
	} {
		if _, err := config.Load(path, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if err := c.Set("store", "postgres://x", "--store"); err == nil || !strings.Contains(err.Error(), "--store: names no database") {
		t.Errorf("Set: %v", err)
	}
	if _, err := config.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error of no file = %v", err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before := mustParse(t, "secret_key: "+strings.Repeat("a", 32)+"\n"+minimal)
	after := mustParse(t, "secret_key: "+strings.Repeat("b", 32)+"\nlisten: 127.0.0.1:1\nlog: {level: debug}\n"+strings.Replace(minimal, "name: Delivery", "name: Other", 1)+
		strings.ReplaceAll(strings.TrimPrefix(minimal, "agents:\n"), "delivery", "second"))
	var got []string
	for _, c := range config.Diff(before, after) {
		got = append(got, fmt.Sprintf("%v %s", c.Restart, c))
	}
	want := []string{
		"true listen: 127.0.0.1:8080 -> 127.0.0.1:1",
		"true secret_key: changed",
		"false log.level: info -> debug",
		"false agents.delivery.name: Delivery -> Other",
		"false agents.second: added",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if changes := config.Diff(after, before); len(changes) != 5 || changes[4].String() != "agents.second: removed" {
		t.Errorf("changes back: %v", changes)
	}
	if changes := config.Diff(before, before); changes != nil {
		t.Errorf("changes of the same: %v", changes)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "public_url: http://agents.example.com\n"+strings.Replace(minimal, "run:", "limits: {inactivity: 2h}\n    run:", 1))
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, fmt.Sprintf("%d %s", w.Line, w.Path))
	}
	if diff := cmp.Diff([]string{"1 public_url", "1 public_url", "9 agents.delivery.limits.inactivity"}, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestProblemOfAnotherPackage(t *testing.T) {
	t.Parallel()
	c := mustParse(t, minimal)
	err := c.Refuse(c.Problem("agents.delivery.run.exec", "does not exist"))
	if err == nil || !strings.HasPrefix(err.Error(), "configuration:8:11: agents.delivery.run.exec: does not exist") {
		t.Errorf("error = %v", err)
	}
	if c.Refuse() != nil {
		t.Error("no problems are an error")
	}
}

func TestZeroConfigDoesNotPanic(t *testing.T) {
	t.Parallel()
	c := &config.Config{Agents: map[string]*config.Agent{"a": nil, "b": {}}}
	if err := c.Validate(); err == nil {
		t.Error("an empty configuration is valid")
	}
	c.Values()
	c.Origin("listen")
	config.Diff(c, config.Default())
	if err := c.Set("listen", "127.0.0.1:1", ""); err == nil {
		t.Error("an empty configuration is valid after Set")
	}
	if err := config.Default().Validate(); err != nil {
		t.Errorf("Default: %v", err)
	}
}

func TestDurationsAndSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "200ms": 200 * time.Millisecond, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "-1d1h": -25 * time.Hour,
	} {
		var d config.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%s = %v, %v; want %v", text, d.Std(), err, want)
		}
		var again config.Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%s is written as %s", text, d)
		}
	}
	for _, text := range []string{"", "d", "5", "1x", "1h2d", "1d-1h", "1e9d", "999999999d", "NaNd", "infd", "1d1d", "9999999h1h999999999h"} {
		var d config.Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, d)
		}
	}
	for text, want := range map[string]config.Size{"0": 0, "65536": 65536, "16MiB": 16 << 20, "1 GiB": 1 << 30, "64KB": 64000, "5B": 5} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s = %d, %v; want %d", text, s, err, want)
		}
		var again config.Size
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%s is written as %s", text, s)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "1TB", "MiB", "9999999999GiB", "0x10"} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %d", text, s)
		}
	}
}

// Every default is within its own bounds and among its own values.
func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Agents["a"] = config.NewAgent()
	for _, v := range c.Values() {
		if err := c.Set(v.Path, strings.Trim(v.Text, "[]"), ""); err != nil && strings.HasPrefix(err.Error(), "set ") && v.Text != "" {
			t.Errorf("default of %s: %v", v.Path, err)
		}
	}
	if reflect.DeepEqual(config.NewAgent(), &config.Agent{}) {
		t.Error("an agent has no defaults")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(minimal)
	f.Add(string(config.Template()))
	f.Add("agents: &a {x: *a, <<: [*a]}\n? [a]\n: !!str 5\nlisten: ${A:-b}\n")
	f.Add("a: |\n  x\nb: >-\n  y\n'c': \"\\u0000\"\n--- x\n...\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse([]byte(text), "")
		if err != nil {
			if _, ok := errors.AsType[*config.Error](err); !ok {
				t.Fatalf("error is %T", err)
			}
			if err.Error() == "" {
				t.Fatal("the error says nothing")
			}
			return
		}
		c.Warnings()
		if changes := config.Diff(c, c); len(changes) > 0 {
			t.Fatalf("differs from itself: %v", changes)
		}
	})
}

// What came from the environment may be a secret, whatever key it is at.
func TestValuesShowReferences(t *testing.T) {
	t.Setenv("HANDOFF_TEST_TOKEN", "s3cret-token")
	c, err := config.Parse([]byte(strings.Replace(minimal, "run:", "documentation_url: \"https://docs.example/?k=${HANDOFF_TEST_TOKEN}\"\n    run:", 1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, v := range c.Values() {
		if strings.Contains(v.Text, "s3cret") {
			t.Errorf("%s shows %s", v.Path, v.Text)
		}
		found = found || strings.Contains(v.Text, "?k=${HANDOFF_TEST_TOKEN}")
	}
	if !found {
		t.Error("the reference is not shown")
	}
}

func TestPeersAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"listen: 127.0.0.1:8080\n": true,
		"peers:\n  supplier:\n    card: https://supplier.example.com/.well-known/agent-card.json\n": false,
	} {
		warned := slices.ContainsFunc(mustParse(t, text).Warnings(), func(p config.Problem) bool { return p.Path == "agents" })
		if warned != want {
			t.Errorf("that there are no agents is warned of: %t, of\n%s", warned, text)
		}
	}
}
