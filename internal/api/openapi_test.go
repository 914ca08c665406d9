package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/api"
)

var update = flag.Bool("update", false, "write docs/api.md")

// document is what the tests need of the description.
type document struct {
	Info       struct{ Description string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas   map[string]json.RawMessage
		Responses map[string]json.RawMessage
	}
}

// described is a method of a path as the description has it.
type described struct {
	OperationID string
	Summary     string
	Description string
	Role        string `json:"x-role"`
	Parameters  []parameter
	RequestBody *content
	Responses   map[string]content
}

type parameter struct {
	Name        string
	In          string
	Description string
	Schema      struct{ Type, Default any }
}

type content struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]struct{ Schema json.RawMessage }
}

func readDocument(t *testing.T) *document {
	t.Helper()
	data, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func (d *document) operation(t *testing.T, path, method string) *described {
	t.Helper()
	raw, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		t.Fatalf("the description has no %s %s", method, path)
	}
	var o described
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

// check compares a real answer with what the description says of it.
func (d *document) check(t *testing.T, path, method string, a *answer) {
	t.Helper()
	o := d.operation(t, path, method)
	response, ok := o.Responses[fmt.Sprint(a.status)]
	if !ok {
		if response, ok = o.Responses["default"]; !ok || a.status < 400 {
			t.Errorf("%s %s answers with %d, which is not described", method, path, a.status)
			return
		}
	}
	if name, ok := strings.CutPrefix(response.Ref, "#/components/responses/"); ok {
		if err := json.Unmarshal(d.Components.Responses[name], &response); err != nil {
			t.Fatal(err)
		}
	}
	if len(response.Content) == 0 {
		if len(a.body) > 0 {
			t.Errorf("%s %s has a body that is not described: %s", method, path, a.body)
		}
		return
	}
	mediaType, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	described, ok := response.Content[mediaType]
	if _, any := response.Content["*/*"]; any && a.status < 300 {
		return
	}
	if !ok {
		t.Errorf("%s %s answers with %q, which is not described", method, path, mediaType)
		return
	}
	values := [][]byte{a.body}
	switch mediaType {
	case "text/plain":
		return
	case "application/x-ndjson":
		values = nil
		for line := range strings.Lines(string(a.body)) {
			values = append(values, []byte(line))
		}
	case "text/event-stream":
		values = nil
		for line := range strings.Lines(string(a.body)) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				values = append(values, []byte(data))
			}
		}
	}
	if len(values) == 0 {
		t.Errorf("%s %s answered with nothing", method, path)
	}
	for _, value := range values {
		if err := d.validate(t, described.Schema, value); err != nil {
			t.Errorf("%s %s: %v\n%s", method, path, err, value)
		}
	}
}

func (d *document) validate(t *testing.T, schema json.RawMessage, value []byte) error {
	t.Helper()
	defs, err := json.Marshal(d.Components.Schemas)
	if err != nil {
		t.Fatal(err)
	}
	text := `{"$defs":` + string(defs) + `,"allOf":[` + string(schema) + `]}`
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "#/components/schemas/", "#/$defs/")), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}

// TestDescriptionMatchesTheAPI calls every method of every path of the
// description with what succeeds and with what does not, and checks the real
// answers against it; a method that is not described is refused.
func TestDescriptionMatchesTheAPI(t *testing.T) {
	t.Parallel()
	n, d := newNode(t), readDocument(t)
	n.reload = func() ([]config.Change, error) { return []config.Change{{Path: "log.level", New: "debug"}}, nil }
	done := n.send("desk", "", "alice", "hello").ID
	made := n.call("GET", "/tasks/"+done, "admin//root", "").task().Task.Artifacts[0].ArtifactID
	toDelete := n.send("desk", "", "alice", "bye").ID
	asked := n.send("desk", "", "alice", "ask").ID
	n.send("gone", "acme", "bob", "x")
	n.send("desk", "", "alice", "pay")
	for _, text := range []string{"form", "pay late", "pay later"} {
		n.send("desk", "", "alice", text)
	}
	for _, ref := range []string{"A", "B", "C"} {
		n.call("POST", "/delegations", "admin//root", `{"to":"supplier","message":"ask `+ref+`","ref":"`+ref+`"}`).want(http.StatusOK)
	}
	var list struct{ Grants []struct{ ID string } }
	n.call("GET", "/grants", "operator//op", "").want(http.StatusOK).decode(&list)
	open := n.items("operator//op", "")
	success := map[string][]struct{ path, body string }{
		"GET /me":                  {{"/me", ""}},
		"GET /changes":             {{"/changes", ""}, {"/changes?task=" + done, ""}},
		"GET /overview":            {{"/overview", ""}},
		"GET /tasks":               {{"/tasks?page_size=2&history=10&artifacts", ""}, {"/tasks?q=hello&state=completed,working&max_age=1h&page_size=1&artifacts", ""}, {"/tasks?ref=A", ""}},
		"POST /tasks:cancel":       {{"/tasks:cancel", `{"ids":["` + done + `","nothing"]}`}},
		"POST /tasks:retry":        {{"/tasks:retry", `{"ids":["` + done + `","nothing"]}`}},
		"POST /tasks:delete":       {{"/tasks:delete", `{"ids":["` + asked + `","nothing"]}`}},
		"GET /tasks/{id}":          {{"/tasks/" + done, ""}, {"/tasks/" + asked, ""}},
		"DELETE /tasks/{id}":       {{"/tasks/" + toDelete, ""}},
		"GET /tasks/{id}/timeline": {{"/tasks/" + done + "/timeline", ""}, {"/tasks/" + asked + "/timeline", ""}},
		"GET /tasks/{id}/tree":     {{"/tasks/" + done + "/tree", ""}, {"/tasks/" + asked + "/tree", ""}},
		"GET /tasks/{id}/messages/{message}/{part}":   {{"/tasks/" + done + "/messages/alicehello/0", ""}, {"/tasks/" + done + "/messages/alicehello/0?inline", ""}},
		"GET /tasks/{id}/artifacts/{artifact}/{part}": {{"/tasks/" + done + "/artifacts/" + made + "/0", ""}, {"/tasks/" + done + "/artifacts/" + made + "/0?inline", ""}},

		"GET /agents/{id}":               {{"/agents/desk", ""}, {"/agents/gone", ""}},
		"GET /webhooks":                  {{"/webhooks", ""}, {"/webhooks?state=dead&page_size=1", ""}},
		"POST /mcp/call":                 {{"/mcp/call", `{"tool":"order","arguments":{"n":1}}`}, {"/mcp/call", `{"server":"erp","tool":"fail","as":{"subject":"alice","role":"caller"}}`}, {"/mcp/call", `{"tool":"slow"}`}},
		"GET /mcp/tasks":                 {{"/mcp/tasks", ""}},
		"GET /tasks/{id}/events":         {{"/tasks/" + done + "/events", ""}, {"/tasks/" + done + "/events?follow", ""}},
		"POST /tasks/{id}:cancel":        {{"/tasks/" + asked + ":cancel", "{}"}},
		"POST /tasks/{id}:retry":         {{"/tasks/" + done + ":retry", "{}"}},
		"GET /grants":                    {{"/grants", ""}},
		"POST /grants/{id}":              {{"/grants/" + list.Grants[0].ID, `{"decision":"approve","note":"ok","data":{"a":1}}`}},
		"GET /inbox":                     {{"/inbox?page_size=1", ""}, {"/inbox?kind=grant&settled=false&task=x&assignee=y&due_by=2026-01-01T00:00:00Z", ""}},
		"GET /inbox/{id}":                {{"/inbox/" + open["form"], ""}},
		"POST /inbox/{id}/answer":        {{"/inbox/" + open["form"] + "/answer", `{"text":"five","data":{"qty":5}}`}},
		"POST /inbox/{id}/decision":      {{"/inbox/" + open["pay later"] + "/decision", `{"decision":"deny","note":"no"}`}},
		"POST /inbox/{id}/assign":        {{"/inbox/" + open["pay late"] + "/assign", `{"assignee":"bob"}`}},
		"POST /inbox/{id}/due":           {{"/inbox/" + open["pay late"] + "/due", `{"due":"2027-01-01T00:00:00Z"}`}, {"/inbox/" + open["pay late"] + "/due", "{}"}},
		"POST /inbox/{id}/link":          {{"/inbox/" + open["pay late"] + "/link", `{"for":"bob","expires":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`}, {"/inbox/" + open["pay late"] + "/link", ""}},
		"GET /pushes":                    {{"/pushes", ""}},
		"POST /pushes/{id}:redeliver":    {{"/pushes/" + n.letter("a") + ":redeliver", `{"skip":true}`}, {"/pushes/" + n.letter("b") + ":redeliver", ""}},
		"DELETE /pushes/{id}":            {{"/pushes/" + n.letter("c"), ""}},
		"GET /agents":                    {{"/agents", ""}},
		"GET /config":                    {{"/config", ""}},
		"GET /mcp/servers":               {{"/mcp/servers", ""}},
		"GET /mcp/tools":                 {{"/mcp/tools", ""}, {"/mcp/tools?tool=order", ""}, {"/mcp/tools?as=alice&role=operator&tenant=acme&scopes=a%20b&server=erp", ""}},
		"GET /mcp/explain":               {{"/mcp/explain?tool=order&as=alice", ""}, {"/mcp/explain?tool=erp.post", ""}},
		"GET /mcp/held":                  {{"/mcp/held", ""}},
		"POST /mcp/held:approve":         {{"/mcp/held:approve", `{"server":"erp","tool":"order","digest":"sha256:2"}`}},
		"POST /console-links":            {{"/console-links", "{}"}, {"/console-links", ""}},
		"POST /reload":                   {{"/reload", "{}"}},
		"POST /backup":                   {{"/backup", `{"file":"` + filepath.Join(t.TempDir(), "b.db") + `"}`}},
		"GET /status":                    {{"/status", ""}},
		"GET /nodes":                     {{"/nodes", ""}},
		"GET /keys":                      {{"/keys", ""}},
		"GET /audit":                     {{"/audit?limit=1", ""}, {"/audit?limit=1&order=desc", ""}, {"/audit?action=GET*&before=0", ""}, {"/audit?since=2020-01-01T00:00:00Z&until=2099-01-01T00:00:00Z&subject=root&after=0", ""}},
		"POST /keys":                     {{"/keys", `{"subject":"erp","tenant":"acme","role":"operator","scopes":["quotes"],"expires":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`}, {"/keys", `{"subject":"erp"}`}},
		"DELETE /keys/{id}":              {{"/keys/" + n.makeKey(), "{}"}},
		"GET /metrics":                   {{"/metrics", ""}},
		"GET /openapi.json":              {{"/openapi.json", ""}},
		"GET /delegations":               {{"/delegations", ""}, {"/delegations?page_size=1&open", ""}},
		"POST /delegations":              {{"/delegations", `{"to":"supplier","message":"ask","ref":"PO-1"}`}},
		"GET /delegations/{id}":          {{"/delegations/A", ""}, {"/delegations/B", ""}},
		"POST /delegations/{id}:message": {{"/delegations/A:message", `{"message":"FOB"}`}},
		"POST /delegations/{id}:cancel":  {{"/delegations/B:cancel", "{}"}},
		"POST /delegations/{id}:resume":  {{"/delegations/C:resume", "{}"}},
		"GET /peers":                     {{"/peers", ""}},
		"GET /peers/{id}":                {{"/peers/supplier", ""}, {"/peers/added", ""}},
		"POST /peers":                    {{"/peers", `{"name":"other","config":{"card":"https://other.example/","auth":{"bearer":"t"}}}`}},
		"DELETE /peers/{id}":             {{"/peers/removed", ""}},
		"POST /peers/{id}:check":         {{"/peers/supplier:check", ""}, {"/peers/added:check", "{}"}, {"/peers/supplier:check", `{"send":"Are you there?"}`}},
		"POST /peers/{id}:pin":           {{"/peers/supplier:pin", ""}, {"/peers/supplier:pin", "{}"}},
		"POST /peers/{id}:unpin":         {{"/peers/supplier:unpin", ""}},
		"POST /peers/{id}:login":         {{"/peers/people:login", ""}},
		"POST /peers/{id}:logout":        {{"/peers/people:logout", ""}},
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			key := method + " " + path
			real := strings.NewReplacer("{id}", "nothing", "{artifact}", "nothing", "{message}", "nothing", "{part}", "0").Replace(path)
			if _, ok := d.Paths[path][strings.ToLower(method)]; !ok {
				if got := n.call(method, real, "admin//root", "{}"); got.status != http.StatusMethodNotAllowed {
					t.Errorf("%s is not described, and answers with %d", key, got.status)
				}
				continue
			}
			if len(success[key]) == 0 {
				t.Errorf("%s is not tested", key)
			}
			for _, request := range success[key] {
				got := n.call(method, request.path, "admin//root", request.body)
				if got.status >= 300 {
					t.Errorf("%s: status %d: %s", key, got.status, got.body)
				}
				d.check(t, path, method, got)
			}
			delete(success, key)
			if path == "/openapi.json" {
				continue
			}
			for _, a := range []*answer{
				n.call(method, real, "", "{}"),
				n.call(method, real, "viewer//nobody", "{}"),
				n.call(method, real+"?colour=red", "admin//root", "["),
				n.call(method, real, "admin//root", `{"colour":"red"}`, "Origin", "null", "Sec-Fetch-Site", "cross-site"),
			} {
				d.check(t, path, method, a)
			}
			o := d.operation(t, path, method)
			switch got := n.call(method, real, "none//nobody", "{}"); {
			case got.status != http.StatusForbidden:
				t.Errorf("%s answers with %d to a caller without a role", key, got.status)
			case !strings.Contains(string(got.body), "takes the role "+o.Role):
				t.Errorf("%s takes another role than the %s of its description: %s", key, o.Role, got.body)
			}
		}
	}
	for key := range success {
		t.Errorf("%s is not described", key)
	}
}

// TestReference holds docs/api.md to the description; -update writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	var b strings.Builder
	b.WriteString("# The node's API\n\n" +
		"A node has a REST API of its own below `/api/v1/`, which `handoff admin` and `handoff inbox` use. The node describes it itself: `GET /api/v1/openapi.json` (OpenAPI 3.1). This page is made from that description (`go test ./internal/api -update`).\n\n" +
		d.Info.Description + "\n" +
		"```console\n" +
		"$ curl --unix-socket handoff.db.sock http://node/api/v1/status            # on the node's machine\n" +
		"$ curl -H \"Authorization: Bearer $HANDOFF_TOKEN\" https://agents.example.com/api/v1/tasks?state=working\n" +
		"$ curl --unix-socket handoff.db.sock -H 'Content-Type: application/json' -d '{\"decision\":\"approve\"}' http://node/api/v1/grants/ID\n" +
		"```\n\n" +
		"| | | role |\n| --- | --- | --- |\n")
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if _, ok := d.Paths[path][strings.ToLower(method)]; ok {
				o := d.operation(t, path, method)
				fmt.Fprintf(&b, "| [`%s %s`](#%s) | %s | %s |\n", method, path, strings.ToLower(o.OperationID), o.Summary, o.Role)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if _, ok := d.Paths[path][strings.ToLower(method)]; ok {
				writeOperation(&b, d.operation(t, path, method), method, path)
			}
		}
	}
	b.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		writeSchema(t, &b, name, d.Components.Schemas[name])
	}
	file := filepath.FromSlash("../../docs/api.md")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), b.String()); diff != "" {
		t.Errorf("docs/api.md is not up to date; run go test ./internal/api -update: %s", diff)
	}
}

func writeOperation(b *strings.Builder, o *described, method, path string) {
	fmt.Fprintf(b, "\n## %s\n\n`%s /api/v1%s` (%s)\n\n%s", o.OperationID, method, path, o.Role, o.Summary)
	if o.Description != "" {
		b.WriteString(" " + o.Description)
	}
	b.WriteString("\n")
	if len(o.Parameters) > 0 {
		b.WriteString("\n| parameter | default | |\n| --- | --- | --- |\n")
	}
	for _, p := range o.Parameters {
		fallback := ""
		if p.Schema.Default != nil {
			fallback = fmt.Sprint(p.Schema.Default)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, fallback, p.Description)
	}
	if o.RequestBody != nil && o.RequestBody.Content != nil {
		fmt.Fprintf(b, "\nBody: %s\n", objectOf(o.RequestBody.Content["application/json"].Schema))
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if r.Ref != "" {
			continue
		}
		fmt.Fprintf(b, "\n%s: %s", status, r.Description)
		for _, mediaType := range slices.Sorted(maps.Keys(r.Content)) {
			fmt.Fprintf(b, " `%s` %s", mediaType, objectOf(r.Content[mediaType].Schema))
		}
		b.WriteString("\n")
	}
}

// objectOf returns a link to the object that a schema refers to.
func objectOf(schema json.RawMessage) string {
	var s struct {
		Ref string `json:"$ref"`
	}
	_ = json.Unmarshal(schema, &s)
	name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/")
	if !ok {
		return ""
	}
	return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
}

func writeSchema(t *testing.T, b *strings.Builder, name string, raw json.RawMessage) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(b, "\n### %s\n", name)
	if s.Description != "" {
		b.WriteString("\n" + s.Description + "\n")
	}
	if len(s.Enum) > 0 {
		b.WriteString("\n")
		for _, v := range s.Enum {
			fmt.Fprintf(b, "`%v` ", v)
		}
		b.WriteString("\n")
	}
	if len(s.Properties) == 0 {
		return
	}
	b.WriteString("\n| member | type | |\n| --- | --- | --- |\n")
	writeMembers(b, "", &s)
}

func writeMembers(b *strings.Builder, prefix string, s *jsonschema.Schema) {
	names := s.PropertyOrder
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.Properties))
	}
	for _, name := range names {
		p := s.Properties[name]
		of, nested := p, prefix+name
		kind := p.Type
		if p.Items != nil {
			of, nested, kind = p.Items, nested+"[]", "array"
		}
		if ref, ok := strings.CutPrefix(of.Ref, "#/components/schemas/"); ok {
			link := fmt.Sprintf("[%s](#%s)", ref, strings.ToLower(ref))
			if kind = link; p.Items != nil {
				kind = "array of " + link
			}
		}
		text := p.Description
		if len(p.Enum) > 0 {
			text = strings.TrimSpace(text + " One of " + strings.Trim(fmt.Sprint(p.Enum), "[]") + ".")
		}
		if !slices.Contains(s.Required, name) {
			text = strings.TrimSpace("Optional. " + text)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", prefix+name, kind, text)
		if len(of.Properties) > 0 {
			writeMembers(b, nested+".", of)
		}
	}
}
