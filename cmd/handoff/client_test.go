package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	transport := func(kind client.Kind) error {
		return &client.TransportError{Kind: kind, Op: "SendMessage", URL: "https://a.example", Err: errors.New("cause")}
	}
	tests := []struct {
		err  error
		code string
		exit int
	}{
		{usagef("x"), codeUsage, 2},
		{a2a.TaskNotFound("t"), "TaskNotFoundError", 1},
		{a2a.Errorf(a2a.CodeContentTypeNotSupported, "x"), "ContentTypeNotSupportedError", 1},
		{a2a.Errorf(a2a.CodeUnavailable, "x"), "UnavailableError", 1},
		{a2a.Errorf(a2a.CodeUnauthenticated, "x"), codeAuthFailed, 4},
		{a2a.Errorf(a2a.CodePermissionDenied, "x"), codeAuthFailed, 4},
		{transport(client.KindResolve), codeUnreachable, 3},
		{transport(client.KindConnect), codeUnreachable, 3},
		{transport(client.KindTLS), codeUnreachable, 3},
		{transport(client.KindTimeout), codeUnreachable, 3},
		{transport(client.KindProtocol), codeInternal, 1},
		{transport(client.KindRefused), codeInternal, 1},
		{transport(client.KindCredentials), codeAuthFailed, 4},
		{&client.StreamCutError{TaskID: "t"}, codeUnreachable, 3},
		{&client.CardError{Ref: "x", Err: errors.New("no name")}, codeCardInvalid, 1},
		{&client.InterfaceError{Offered: []a2a.AgentInterface{{ProtocolBinding: "GRPC", ProtocolVersion: "1.0"}}}, codeInternal, 1},
		{&client.InterfaceError{Offered: []a2a.AgentInterface{{ProtocolBinding: "JSONRPC", ProtocolVersion: "0.3"}}}, "VersionNotSupportedError", 1},
		{errors.New("anything"), codeInternal, 1},
	}
	for _, tt := range tests {
		f := failureOf(t.Context(), &commandError{tt.err})
		if f.Code != tt.code || f.Exit != tt.exit {
			t.Errorf("%v: %s, exit code %d; want %s, %d", tt.err, f.Code, f.Exit, tt.code, tt.exit)
		}
	}
	if f := failureOf(t.Context(), errors.New("unknown flag")); f.Code != codeUsage {
		t.Errorf("an error of the command line is %s", f.Code)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if f := failureOf(ended, &commandError{errors.New("x")}); f.Code != codeInterrupted || f.Exit != 130 {
		t.Errorf("an interrupt is %s, exit code %d", f.Code, f.Exit)
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	tests := map[string]string{
		"report.pdf":          "report.pdf",
		"Angebot März.pdf":    "Angebot März.pdf",
		"../../etc/passwd":    "passwd",
		`..\..\boot.ini`:      "boot.ini",
		"..":                  "",
		".":                   "",
		"/":                   "",
		"":                    "",
		"dir/":                "",
		".bashrc":             "bashrc",
		"...hidden":           "hidden",
		"a\x00b\x1b[31m.txt":  "ab[31m.txt",
		"a\u202etxt.exe":      "atxt.exe",
		`a<b>:"|?*c`:          "a_b______c",
		"CON":                 "_CON",
		"nul.txt":             "_nul.txt",
		"com1.tar.gz":         "_com1.tar.gz",
		"console.log":         "console.log",
		"trailing. . ":        "trailing",
		"\xff\xfe":            "",
		long + ".pdf":         strings.Repeat("x", 116) + ".pdf",
		"ä" + long:            "ä" + strings.Repeat("x", 118),
		"a." + long:           "a." + strings.Repeat("x", 118),
		"C:\\windows\\x.txt":  "x.txt",
		"https://x/y?z=1.txt": "y_z=1.txt",
	}
	for name, want := range tests {
		if got := safeName(name); got != want {
			t.Errorf("safeName(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzSafeName(f *testing.F) {
	f.Add("../a")
	f.Fuzz(func(t *testing.T, name string) {
		got := safeName(name)
		if strings.ContainsAny(got, "/\\:\x00") || strings.HasPrefix(got, ".") || len(got) > maxFileName+1 || safeName(got) != got {
			t.Errorf("safeName(%q) = %q", name, got)
		}
	})
}

func TestYAML(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`"a b"`:                                 "a b\n",
		`"true"`:                                "\"true\"\n",
		`"1.0"`:                                 "\"1.0\"\n",
		`"a: b"`:                                "\"a: b\"\n",
		`"x\ny"`:                                "\"x\\ny\"\n",
		`"\ud83d\ude00"`:                        "\"😀\"\n",
		`"a\u007fb"`:                            "\"a\\u007fb\"\n",
		`""`:                                    "\"\"\n",
		`12345678901234567890.10`:               "12345678901234567890.10\n",
		`null`:                                  "null\n",
		`{}`:                                    "{}\n",
		`[]`:                                    "[]\n",
		`{"a":{},"b":[],"n":null}`:              "a: {}\nb: []\n\"n\": null\n",
		`{"a":{"b":[1,{"c":2,"d":[3]},[4,5]]}}`: "a:\n  b:\n    - 1\n    - c: 2\n      d:\n        - 3\n    - - 4\n      - 5\n",
	}
	for in, want := range tests {
		got, err := appendYAML(nil, a2a.JSON(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	for _, in := range []string{`{`, `{"a":}`, `1 2`, ``} {
		if got, err := appendYAML(nil, a2a.JSON(in)); err == nil {
			t.Errorf("%q: no error, but %q", in, got)
		}
	}
}

func TestDotenv(t *testing.T) {
	t.Parallel()
	got, _, err := parseDotenv("\ufeff# comment\r\nA2ACLI_A=plain value # comment\r\nexport A2ACLI_B = 'single # $x \\n'\n" +
		"A2ACLI_C=\"double\\n\\\"q\\\" \\\\ \\x\"\nA2ACLI_D=\nA2ACLI_E=a#b\nOTHER=\"open\nA2ACLI_A=again\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A2ACLI_A": "again", "A2ACLI_B": `single # $x \n`, "A2ACLI_C": "double\n\"q\" \\ \\x", "A2ACLI_D": "", "A2ACLI_E": "a#b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"A2ACLI_A", "A2ACLI_A='open", `A2ACLI_A="open\"`} {
		if _, _, err := parseDotenv(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestDebugHidesSecrets(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := &wireLog{w: &out, now: func() time.Time { return time.Time{} }, secrets: newRedactor([]string{"", "tok/en+1", "tok", `qu"ote-mark`})}
	u, _ := url.Parse("https://user:pw@a.example/p?quote_key=abc&x=tok%2Fen%2B1&y=tok&plain=1&pageToken=p1")
	l.printf("%s", l.address(u))
	l.header(">", http.Header{
		"Authorization": {"Basic abc"}, "Cookie": {"sid=abc"}, "X-Api-Key": {"abc"}, "X-Plain": {"tok/en+1 and tok"}, "Accept": {"text/plain"},
	})
	l.line("<", []byte(`{"token":"a\"bc","credentials": "abc","nested":{"client_secret":"abc"},"nextPageToken":"p2","text":"tok/en+1 qu\"ote-mark in stock"}`))
	l.line("<", []byte(strings.Repeat("x", maxLoggedLine)+"abc"))
	text := out.String()
	for _, secret := range []string{"abc", "tok/", "en+1", "tok%2F", `a\"bc`, "pw@", `qu\"ote`} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the log:\n%s", secret, text)
		}
	}
	for _, kept := range []string{"plain=1", "pageToken=p1", "text/plain", `"nextPageToken":"p2"`, "X-Plain: ***\n", "in stock", "y=***", "(more than 65536 bytes, not shown)"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is not in the log:\n%s", kept, text)
		}
	}
}

func TestKeyPlace(t *testing.T) {
	t.Parallel()
	header := a2a.SecurityScheme{APIKey: &a2a.APIKeySecurityScheme{Location: "header", Name: "X-H"}}
	query := a2a.SecurityScheme{APIKey: &a2a.APIKeySecurityScheme{Location: "query", Name: "q"}}
	bearer := a2a.SecurityScheme{HTTPAuth: &a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
	schemes := map[string]a2a.SecurityScheme{"a": bearer, "b": header, "c": query}
	tests := []struct {
		card *a2a.AgentCard
		want [2]string
	}{
		{nil, [2]string{"header", "X-API-Key"}},
		{&a2a.AgentCard{}, [2]string{"header", "X-API-Key"}},
		{&a2a.AgentCard{SecuritySchemes: schemes}, [2]string{"header", "X-H"}},
		{
			&a2a.AgentCard{SecuritySchemes: schemes, SecurityRequirements: []a2a.SecurityRequirement{{Schemes: map[string][]string{"a": nil}}, {Schemes: map[string][]string{"c": nil}}}},
			[2]string{"query", "q"},
		},
	}
	for i, tt := range tests {
		location, name := keyPlace(tt.card)
		if got := [2]string{location, name}; got != tt.want {
			t.Errorf("%d: %v, want %v", i, got, tt.want)
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"plain ä 😀\t":          "plain ä 😀\t",
		"a\x1b]0;x\x07b":       `a\x1b]0;x\x07b`,
		"a\u009bc":             `a\x9bc`,
		"\u202eabc\u2066":      `\u202eabc\u2066`,
		"bad \xff byte":        "bad \uFFFD byte",
		"\u200fright to left":  "\u200fright to left",
		"carriage\rreturn\x7f": `carriage\x0dreturn\x7f`,
	}
	for in, want := range tests {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	if got := oneLine("a\nb\r\nState: COMPLETED\u2028c"); got != "a b  State: COMPLETED c" {
		t.Errorf("oneLine: %q", got)
	}
}

func TestQuoteShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://a.example/x": "https://a.example/x", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "": "''", "a;b": "'a;b'",
	} {
		if got := quoteShell(in); got != want {
			t.Errorf("quoteShell(%q) = %s, want %s", in, got, want)
		}
	}
}

// Every command has help, and every flag of it is described.
func TestHelp(t *testing.T) {
	t.Parallel()
	a, _, _ := newTestApp(nil)
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short help is %q", cmd.CommandPath(), cmd.Short)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s is not described", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(a))
}
