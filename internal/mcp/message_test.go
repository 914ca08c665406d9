package mcp_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/mcp"
)

const call = `{"jsonrpc":"2.0", "id":7,"method":"tools/call","params":{ "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}},
 "name":"stock","arguments":{"article":"BRG-0042","name":"other"}, "x":1.50}}`

func scan(t *testing.T, body string) *mcp.Message {
	t.Helper()
	m, err := mcp.Scan([]byte(body), mcp.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return m
}

func TestScan(t *testing.T) {
	t.Parallel()
	m := scan(t, call)
	for what, c := range map[string][2]string{
		"id":      {string(m.ID), "7"},
		"method":  {m.Method, "tools/call"},
		"name":    {m.NameValue(), "stock"},
		"args":    {string(m.Text(m.Args)), `{"article":"BRG-0042","name":"other"}`},
		"version": {m.MetaString(mcp.MetaVersion), mcp.Modern},
		"param":   {string(m.Param("x")), "1.50"},
		"nothing": {string(m.Param("y")), ""},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %q, want %q", what, c[0], c[1])
		}
	}
	if c := m.Capabilities(); !c.ElicitForm || c.ElicitURL || c.Tasks {
		t.Errorf("capabilities: %+v", c)
	}
	if m.IsNotification() || m.IsResponse() {
		t.Error("a request is something else")
	}
	if n := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress"}`); !n.IsNotification() {
		t.Error("a notification is not one")
	}
	r := scan(t, `{"result":{"resultType":"input_required","_meta":{"a":1},"b":[]},"id":"x","jsonrpc":"2.0"}`)
	if !r.IsResponse() || r.ResultType != mcp.ResultInputRequired || string(r.MetaValue("a")) != "1" || string(r.ID) != `"x"` {
		t.Errorf("response: %+v", r)
	}
	if r := scan(t, `{"jsonrpc":"2.0","id":1,"result":{}}`); r.ResultType != mcp.ResultComplete { // BAS-13
		t.Errorf("without a type: %q", r.ResultType)
	}
	e := scan(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":[1]}}`).Error()
	if e == nil || e.Code != -32602 || e.Message != "no" || string(e.Data) != "[1]" {
		t.Errorf("error: %+v", e)
	}
}

func TestScanRefuses(t *testing.T) { // SEC-08, BAS-02
	t.Parallel()
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"nothing":               {``, mcp.CodeParseError},
		"no JSON":               {`{"jsonrpc":"2.0",`, mcp.CodeParseError},
		"words":                 {`hello`, mcp.CodeParseError},
		"a number":              {`7`, mcp.CodeInvalidRequest},
		"a batch":               {`[` + call + `]`, mcp.CodeInvalidRequest},
		"two messages":          {call + call, mcp.CodeParseError},
		"something behind":      {call + ` x`, mcp.CodeParseError},
		"twice at the root":     {`{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}`, mcp.CodeParseError},
		"twice in params":       {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, mcp.CodeParseError},
		"twice, escaped":        {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b"}}`, mcp.CodeParseError},
		"twice in _meta":        {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"x":1,"x":2}}}`, mcp.CodeParseError},
		"twice in arguments":    {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"x":1,"x":2}}}`, mcp.CodeParseError},
		"not UTF-8":             {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\xff\"}", mcp.CodeParseError},
		"half a surrogate":      {`{"jsonrpc":"2.0","id":1,"method":"a\ud800"}`, mcp.CodeParseError},
		"no version":            {`{"id":1,"method":"a"}`, mcp.CodeInvalidRequest},
		"another version":       {`{"jsonrpc":"1.0","id":1,"method":"a"}`, mcp.CodeInvalidRequest},
		"id null":               {`{"jsonrpc":"2.0","id":null,"method":"a"}`, mcp.CodeInvalidRequest},
		"id with a fraction":    {`{"jsonrpc":"2.0","id":1.5,"method":"a"}`, mcp.CodeInvalidRequest},
		"id as an object":       {`{"jsonrpc":"2.0","id":{},"method":"a"}`, mcp.CodeInvalidRequest},
		"method as a number":    {`{"jsonrpc":"2.0","id":1,"method":1}`, mcp.CodeInvalidRequest},
		"params as a list":      {`{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}`, mcp.CodeInvalidRequest},
		"_meta as a list":       {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":[]}}`, mcp.CodeInvalidParams},
		"neither":               {`{"jsonrpc":"2.0","id":1}`, mcp.CodeInvalidRequest},
		"request and result":    {`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`, mcp.CodeInvalidRequest},
		"result and error":      {`{"jsonrpc":"2.0","id":1,"error":{},"result":{}}`, mcp.CodeInvalidRequest},
		"deep":                  {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":` + deep + `}}`, mcp.CodeInvalidRequest},
		"deep, behind a string": {`{"jsonrpc":"2.0","id":1,"method":"a","params":{"s":"\"","x":` + deep + `}}`, mcp.CodeInvalidRequest},
	} {
		_, err := mcp.Scan([]byte(c.body), mcp.Limits{})
		if e := mcp.AsError(err); err == nil || e.Code != c.code || e.HTTPStatus() != 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"`+strings.Repeat("[", 500)+`"}}`), mcp.Limits{}); err != nil {
		t.Errorf("brackets in a string: %v", err)
	}
}

func TestSplice(t *testing.T) { // GWY-05
	t.Parallel()
	m := scan(t, call)
	renamed := m.WithName(`erp "read" é`)
	if want := strings.Replace(call, `"stock"`, `"erp \"read\" é"`, 1); string(renamed.Body) != want {
		t.Errorf("renamed:\n%s\nwant\n%s", renamed.Body, want)
	}
	if renamed.NameValue() != `erp "read" é` || string(renamed.Text(renamed.Args)) != string(m.Text(m.Args)) {
		t.Errorf("after a rename: %+v", renamed)
	}
	if string(m.Body) != call || m.WithName("stock") != m {
		t.Error("the message itself has changed")
	}
	if got := string(m.WithID(jsontext.Value(`"a-1"`)).Body); got != strings.Replace(call, `"id":7`, `"id":"a-1"`, 1) {
		t.Errorf("id: %s", got)
	}
	for name, c := range map[string]struct{ body, key, value, want string }{
		"replace":   {`{"a":1, "b":2}`, "b", `3`, `{"a":1, "b":3}`},
		"add":       {`{"a":1}`, "b", `3`, `{"b":3,"a":1}`},
		"add first": {`{ }`, "b", `3`, `{"b":3 }`},
		"remove":    {`{"a":1 , "b":2 , "c":3}`, "b", ``, `{"a":1 , "c":3}`},
		"first":     {`{"a":1 , "b":2}`, "a", ``, `{ "b":2}`},
		"last":      {`{"a":1 , "b":2}`, "b", ``, `{"a":1}`},
		"only":      {`{"a":1}`, "a", ``, `{}`},
		"absent":    {`{"a":1}`, "b", ``, `{"a":1}`},
	} {
		var value jsontext.Value
		if c.value != "" {
			value = jsontext.Value(c.value)
		}
		m := scan(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":`+c.body+`}`)
		if got := m.WithParam(c.key, value); string(got.Text(got.Params)) != c.want {
			t.Errorf("%s: %s, want %s", name, got.Text(got.Params), c.want)
		}
		m = scan(t, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":`+c.body+`}}`)
		if got := m.WithMeta(c.key, value); string(got.Text(got.Meta)) != c.want {
			t.Errorf("%s in _meta: %s, want %s", name, got.Text(got.Meta), c.want)
		}
	}
	bare := scan(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`).WithMeta("k", jsontext.Value(`"v"`))
	if string(bare.Body) != `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"k":"v"}}}` {
		t.Errorf("without params: %s", bare.Body)
	}
	result := scan(t, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`).WithParam("resultType", jsontext.Value(`"complete"`))
	if string(result.Body) != `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}` {
		t.Errorf("result: %s", result.Body)
	}
}

func TestEscapeHeader(t *testing.T) { // TRN-22, TRN-23
	t.Parallel()
	for value, want := range map[string]string{
		"stock":             "stock",
		"":                  "",
		"two words":         "two words",
		" led":              "=?base64?IGxlZA==?=",
		"trailed ":          "=?base64?dHJhaWxlZCA=?=",
		"tab\tbed":          "=?base64?dGFiCWJlZA==?=",
		"é":                 "=?base64?w6k=?=",
		"=?base64?w6k=?=":   "=?base64?PT9iYXNlNjQ/dzZrPT89?=",
		"=?BASE64?w6k=?=":   "=?BASE64?w6k=?=",
		"line\nbreak":       "=?base64?bGluZQpicmVhaw==?=",
		"a=?base64?w6k=?=b": "a=?base64?w6k=?=b",
	} {
		got := mcp.EscapeHeader(value)
		back, err := mcp.UnescapeHeader(got)
		if got != want || err != nil || back != value {
			t.Errorf("%q: %q and back %q, %v, want %q", value, got, back, err, want)
		}
	}
	for _, wrong := range []string{"=?base64?w6k?=", "=?base64?w6 k=?=", "=?base64?_-==?=", "=?base64?/w==?=", "é", "a\x01", "=?base64?w6k=\r\n?="} {
		if got, err := mcp.UnescapeHeader(wrong); err == nil {
			t.Errorf("%q is read as %q", wrong, got)
		}
	}
	for _, literal := range []string{"=?base64?w6k=", "=?Base64?w6k=?=", "base64?w6k=?="} {
		if got, err := mcp.UnescapeHeader(literal); err != nil || got != literal {
			t.Errorf("%q is read as %q, %v", literal, got, err)
		}
	}
}

func TestCapabilities(t *testing.T) { // ELI-01, MRT-08
	t.Parallel()
	for text, want := range map[string]string{
		``:                                       `{}`,
		`7`:                                      `{}`,
		`{"elicitation":{}}`:                     `{"elicitation":{"form":{}}}`,
		`{"elicitation":{"url":{}}}`:             `{"elicitation":{"url":{}}}`,
		`{"elicitation":{"url":{},"form":{}}}`:   `{"elicitation":{"form":{},"url":{}}}`,
		`{"sampling":{"tools":{}},"roots":{}}`:   `{"sampling":{"tools":{}},"roots":{}}`,
		`{"sampling":{},"experimental":{"x":1}}`: `{"sampling":{}}`,
		`{"tasks":{}}`:                           `{}`, // TSK-20
		`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	} {
		var value jsontext.Value
		if text != "" {
			value = jsontext.Value(text)
		}
		if got := string(mcp.ParseCapabilities(value).AppendJSON(nil)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestNewRequest(t *testing.T) {
	t.Parallel()
	m := mcp.NewRequest(jsontext.Value(`"a"`), mcp.MethodCallTool, jsontext.Value(` {"name":"x"} `), mcp.Meta{Client: jsontext.Value(`{"name":"c"}`), Progress: jsontext.Value("1")})
	want := `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c"},"progressToken":1},"name":"x"}}`
	if diff := cmp.Diff(want, string(m.Body)); diff != "" || m.NameValue() != "x" {
		t.Error(diff)
	}
}

func TestAppendEvent(t *testing.T) {
	t.Parallel()
	if got := string(mcp.AppendEvent(nil, []byte("{\r\n\"a\":1}"))); got != "event: message\ndata: { \ndata: \"a\":1}\n\n" {
		t.Errorf("%q", got)
	}
}

// What is put in stands there, and nothing else has changed.
func FuzzScan(f *testing.F) {
	f.Add([]byte(call), "name")
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"x","_meta":{}}}`), "é\"")
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), "")
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		before := bytes.Clone(body)
		m, err := mcp.Scan(body, mcp.Limits{})
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			return
		}
		var root map[string]jsontext.Value
		if err := json.Unmarshal(body, &root); err != nil {
			t.Fatalf("what is no JSON was taken: %v", err)
		}
		name = strings.ToValidUTF8(name, "?")
		changed := m.WithName(name)
		if m.Name.IsZero() {
			if changed != m {
				t.Fatal("a message without a name was renamed")
			}
			return
		}
		if changed.NameValue() != name {
			t.Fatalf("%q instead of %q", changed.NameValue(), name)
		}
		if back := changed.WithName(m.NameValue()); !bytes.Equal(back.Text(back.Args), m.Text(m.Args)) || back.Method != m.Method || !bytes.Equal(back.ID, m.ID) {
			t.Fatalf("%s is not %s", back.Body, m.Body)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	body := []byte(call)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := mcp.Scan(body, mcp.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
