package bridge

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/form"
	"handoff.example/handoff/internal/mcp"
)

// Gate is what a caller has of the tools of one server: what policy shows and
// allows, as at the gateway.
type Gate interface {
	// Tools returns the definitions of the tools that a caller may know, as
	// tools/list has them.
	Tools(ctx context.Context, p *auth.Principal) ([]jsontext.Value, error)
	// Admit lets a call through, or refuses it with an *mcp.Error. Release is called
	// when the call is over. The key is one under which the call can be made again.
	Admit(ctx context.Context, p *auth.Principal, tool string, arguments jsontext.Value, key string) (t *Admitted, err error)
}

// Admitted is how an allowed call is made.
type Admitted struct {
	Server     string // as it is configured
	Tool       string // as the server has it
	Approve    string // why a person has to approve; "": nobody has to
	Key        string // the idempotency key, where policy takes one; "": none
	Idempotent bool
	Timeout    time.Duration
	Release    func()
}

// ToolAgentOptions is what an agent whose skills are tools works with.
type ToolAgentOptions struct {
	Calls *Calls
	Gate  Gate
	// Tools names the tools that are skills, by the names that Gate has for them;
	// nil: all.
	Tools []string
	// Version is that of the program.
	Version string
}

// AnyTool is the id of a skill that stands for all tools, while they are not known.
const AnyTool = "tools"

// toolAgent is an agent whose skills are tools.
type toolAgent struct{ opts ToolAgentOptions }

// NewToolAgent returns an agent whose skills are the tools of a server. Arguments
// come from the data of a message, from its text when a tool takes a single text, or
// are asked for. What the tool asks is asked of whoever has sent the message.
func NewToolAgent(opts ToolAgentOptions) agent.Agent { return &toolAgent{opts: opts} }

// definition is what a tool says of itself.
type definition struct {
	Name        string         `json:"name"`
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Input       jsontext.Value `json:"inputSchema"`
}

// definitions returns the tools that are skills and that a caller may know.
func (a *toolAgent) definitions(ctx context.Context, p *auth.Principal) ([]definition, error) {
	defined, err := a.opts.Gate.Tools(ctx, p)
	if err != nil {
		return nil, err
	}
	var list []definition
	for _, text := range defined {
		var d definition
		if json.Unmarshal(text, &d) != nil || d.Name == "" {
			continue
		}
		if a.opts.Tools == nil || slices.Contains(a.opts.Tools, d.Name) {
			list = append(list, d)
		}
	}
	return list, nil
}

// SkillsOf returns the skills that tools are, and what they take as data, by their
// ids.
func SkillsOf(tools []jsontext.Value, only []string, server string) (skills []a2a.AgentSkill, inputs map[string]a2a.JSON) {
	inputs = map[string]a2a.JSON{}
	for _, text := range tools {
		var d definition
		if json.Unmarshal(text, &d) != nil || d.Name == "" || only != nil && !slices.Contains(only, d.Name) {
			continue
		}
		name := clean(cmp.Or(d.Title, d.Name), 200)
		skills = append(skills, a2a.AgentSkill{
			ID: d.Name, Name: name, Description: clean(cmp.Or(d.Description, name), maxShown), Tags: []string{"mcp", server},
			InputModes: []string{"application/json", "text/plain"}, OutputModes: []string{"application/json", "text/plain"},
		})
		if d.Input != nil {
			inputs[d.Name] = a2a.JSON(d.Input)
		}
	}
	return skills, inputs
}

// Run goes on with a task: it finds out what to call, has it allowed, and calls it.
func (a *toolAgent) Run(ctx context.Context, t *agent.Turn) error {
	s, err := decodeState(t.State)
	if err != nil {
		return err
	}
	w := &work{ctx: ctx, turn: t, state: s, call: s.Call, rim: agentRim{}}
	if s.Call == nil {
		if done, err := a.prepare(w); done || err != nil {
			return err
		}
	}
	w.caller = &caller{calls: a.opts.Calls, server: w.call.Server}
	if s.Stage != stageNew {
		return w.run()
	}
	if t.Grant == nil || w.call.Approve == "" || s.Approved {
		return w.beginAllowed(a.opts.Gate, t.TaskID)
	}
	return w.begin()
}

// principalOf is for whom a turn works.
func principalOf(t *agent.Turn) *auth.Principal {
	return &auth.Principal{Tenant: t.Caller.Tenant, Subject: t.Caller.Subject, Issuer: t.Caller.Issuer, Scopes: t.Caller.Scopes, Role: auth.RoleCaller}
}

// prepare finds out what to call with which arguments, and asks for what is
// missing. It reports whether the turn is over.
func (a *toolAgent) prepare(w *work) (done bool, err error) {
	tools, err := a.definitions(w.ctx, principalOf(w.turn))
	if err != nil {
		return true, w.fail(mcp.AsError(err))
	}
	a.read(w, tools)
	i := slices.IndexFunc(tools, func(d definition) bool { return d.Name == w.state.Tool })
	if i < 0 {
		return true, a.askTool(w, tools)
	}
	d := &tools[i]
	arguments := w.state.Arguments
	if arguments == nil {
		arguments = jsontext.Value(`{}`)
	}
	if schema, text := missing(d.Input, arguments); schema != nil {
		return true, w.askFor("The tool "+d.Name+" needs more to go on: "+text, schema)
	} else if text != "" {
		return true, w.turn.Reject("The arguments of the tool " + d.Name + " do not fit: " + text)
	}
	w.state.Arguments = nil
	w.state.Call = a.keep(w, arguments)
	w.call = w.state.Call
	return false, nil
}

// keep is the call that is to be made.
func (a *toolAgent) keep(w *work, arguments jsontext.Value) *keptCall {
	return newKept(w.turn, w.state.Tool, arguments, a.opts.Version)
}

// newKept is a call that a turn is to make for whom it works.
func newKept(t *agent.Turn, tool string, arguments jsontext.Value, version string) *keptCall {
	p := principalOf(t)
	params := object([]member{{"name", quoted(tool)}, {"arguments", arguments}})
	client := mcp.Capabilities{ElicitForm: true, ElicitURL: true, Tasks: true}
	m := mcp.NewRequest(quoted(t.TaskID), mcp.MethodCallTool, params, mcp.Meta{
		Version: mcp.Modern, Capabilities: jsontext.Value(client.AppendJSON(nil)),
		Client: object([]member{{"name", quoted("handoff")}, {"version", quoted(cmp.Or(version, "0"))}}),
	})
	return &keptCall{
		Endpoint: "agent " + t.Agent, Tool: tool, Exposed: tool,
		Tenant: p.Tenant, Issuer: p.Issuer, Subject: p.Subject, Scopes: p.Scopes, Role: p.Role, Body: m.Body,
	}
}

// beginAllowed makes the call by what policy says of it now. The key is one under
// which it can be made again.
func (w *work) beginAllowed(gate Gate, key string) error {
	m, err := mcp.Scan(w.call.Body, mcp.Limits{})
	if err != nil {
		return err
	}
	t, err := gate.Admit(w.ctx, w.call.principal(), w.call.Exposed, m.Text(m.Args).Clone(), key)
	if err != nil {
		w.refused = err
		return w.fail(mcp.AsError(err))
	}
	if t.Release != nil {
		defer t.Release()
	}
	w.call.Server, w.call.Tool, w.call.Again = t.Server, t.Tool, t.Idempotent
	w.call.Key = t.Key
	w.call.Timeout, w.call.Approve = t.Timeout.Milliseconds(), t.Approve
	w.call.Body = m.WithName(t.Tool).Body
	w.server = t.Server
	if t.Approve != "" && !w.state.Approved { // kept with the question, and with its answer
		if err := w.save(); err != nil {
			return err
		}
	}
	return w.begin()
}

// read takes what the messages of the turn say: which tool, and arguments for it.
func (a *toolAgent) read(w *work, tools []definition) {
	if w.turn.Skill != "" && w.turn.Skill != AnyTool && w.state.Tool == "" {
		w.state.Tool = w.turn.Skill
	}
	if w.state.Tool == "" && len(tools) == 1 {
		w.state.Tool = tools[0].Name
	}
	asked := w.turn.Number > 1
	for i := range w.turn.Messages {
		m := &w.turn.Messages[i]
		if asked && w.state.Tool == "" {
			w.state.Tool = toolIn(m, tools)
			continue
		}
		data := false
		for j := range m.Parts {
			if m.Parts[j].Kind == a2a.PartData {
				w.state.Arguments = merged(w.state.Arguments, jsontext.Value(m.Parts[j].Data))
				data = true
			}
		}
		if data || strings.TrimSpace(m.Text()) == "" {
			continue
		}
		if k := slices.IndexFunc(tools, func(d definition) bool { return d.Name == w.state.Tool }); k >= 0 {
			if name, value := oneText(tools[k].Input, w.state.Arguments, m.Text()); name != "" {
				w.state.Arguments = merged(w.state.Arguments, object([]member{{name, value}}))
			}
		}
	}
}

// toolIn is the tool that an answer names.
func toolIn(m *a2a.Message, tools []definition) string {
	names := []string{strings.TrimSpace(m.Text())}
	for i := range m.Parts {
		if v := jsontext.Value(m.Parts[i].Data); v.Kind() == '{' {
			names = append(names, textOf(v, "tool"))
		}
	}
	for _, d := range tools {
		if slices.Contains(names, d.Name) {
			return d.Name
		}
	}
	return ""
}

// oneText is the argument that a text is: the one that is required and missing.
func oneText(schema, so jsontext.Value, text string) (string, jsontext.Value) {
	var required []string
	if v := valueOf(schema, "required"); v == nil || json.Unmarshal(v, &required) != nil {
		return "", nil
	}
	required = slices.DeleteFunc(required, func(name string) bool { return valueOf(so, name) != nil })
	if len(required) != 1 {
		return "", nil
	}
	one := valueOf(valueOf(schema, "properties"), required[0])
	if textOf(one, "type") == "string" {
		return required[0], quoted(text)
	}
	f, err := form.New(object([]member{{"type", quoted("object")}, {"properties", object([]member{{required[0], one}})}}))
	if err != nil || one == nil || len(f.Fields) != 1 {
		return "", nil
	}
	value, err := f.Fields[0].Read([]string{text})
	if err != nil || value == nil {
		return "", nil
	}
	return required[0], value
}

// merged returns an object with the members of another one on top.
func merged(below, above jsontext.Value) jsontext.Value {
	list, _ := membersOf(below)
	more, ok := membersOf(above)
	if !ok {
		return below
	}
	for _, m := range more {
		if i := slices.IndexFunc(list, func(o member) bool { return o.name == m.name }); i >= 0 {
			list[i] = m
		} else {
			list = append(list, m)
		}
	}
	return object(list)
}

// askTool asks which of several tools is meant.
func (a *toolAgent) askTool(w *work, tools []definition) error {
	if len(tools) == 0 {
		return w.turn.Reject("There is no tool that you may call here.")
	}
	if w.state.Tool != "" {
		return w.turn.Reject(fmt.Sprintf("There is no tool %q.", short(w.state.Tool, maxName)))
	}
	names := make([]jsontext.Value, len(tools))
	for i := range tools {
		names[i] = quoted(tools[i].Name)
	}
	return w.askFor("Which tool is meant? Name it, or name it as the skill of the message.", object([]member{
		{"type", quoted("object")},
		{"properties", object([]member{{"tool", object([]member{{"type", quoted("string")}, {"enum", array(names)}})}})},
		{"required", jsontext.Value(`["tool"]`)},
	}))
}

// askFor asks the client, and keeps what is known so far.
func (w *work) askFor(text string, schema jsontext.Value) error {
	state, err := w.state.encode()
	if err != nil {
		return err
	}
	if err := w.turn.SetState(state); err != nil {
		return err
	}
	return w.turn.Ask(text, a2a.JSON(schema))
}

// missing returns the part of a schema that arguments lack, with what it is in
// words; or, with a nil schema, what is wrong that cannot be asked for; or neither.
func missing(schema, arguments jsontext.Value) (part jsontext.Value, text string) {
	properties, _ := membersOf(valueOf(schema, "properties"))
	var required, names []string
	if v := valueOf(schema, "required"); v != nil {
		_ = json.Unmarshal(v, &required)
	}
	for _, name := range required {
		if valueOf(arguments, name) == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		f, err := form.New(schema)
		if err != nil {
			return nil, "" // the server checks it itself
		}
		err = f.Check(arguments)
		if err == nil {
			return nil, ""
		}
		wrong, ok := errors.AsType[*form.FieldError](err)
		if !ok || !slices.ContainsFunc(properties, func(m member) bool { return m.name == wrong.Field }) {
			return nil, err.Error()
		}
		names, text = []string{wrong.Field}, err.Error()
	}
	if text == "" {
		text = strings.Join(names, ", ")
	}
	var wanted []member
	for _, p := range properties {
		if slices.Contains(names, p.name) {
			wanted = append(wanted, p)
		}
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, err.Error()
	}
	out := []member{{"type", quoted("object")}, {"properties", object(wanted)}, {"required", list}}
	for _, defs := range []string{"$defs", "definitions"} {
		out = append(out, member{defs, valueOf(schema, defs)})
	}
	return object(out), text
}

// agentRim shows a call as the work of an agent.
type agentRim struct{}

// complete makes artifacts of a result: its content, and what is structured of it.
func (agentRim) complete(w *work, result jsontext.Value) error {
	var blocks []jsontext.Value
	if v := valueOf(result, "content"); v.Kind() == '[' {
		_ = json.Unmarshal(v, &blocks)
	}
	structured := valueOf(result, "structuredContent")
	var parts []a2a.Part
	for _, block := range blocks {
		if p, ok := contentPart(block); ok && !sameAs(p, structured) {
			parts = append(parts, p)
		}
	}
	if string(valueOf(result, "isError")) == "true" {
		if len(parts) == 0 {
			parts = []a2a.Part{a2a.Text("The tool has failed, and has not said why.")}
		}
		return w.turn.Emit(agent.Step{Fail: &agent.Content{Parts: parts}})
	}
	if len(parts) > 0 {
		if err := w.turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "content", Name: w.call.Exposed, Parts: parts, Last: true}}); err != nil {
			return err
		}
	}
	if structured != nil {
		data := a2a.Data(a2a.JSON(structured))
		data.MediaType = "application/json"
		if err := w.turn.Emit(agent.Step{Artifact: &agent.Artifact{ID: "data", Name: w.call.Exposed, Parts: []a2a.Part{data}, Last: true}}); err != nil {
			return err
		}
	}
	return w.turn.Complete()
}

// sameAs reports whether a part is structured content once more, as a text
// (TOL-07).
func sameAs(p a2a.Part, structured jsontext.Value) bool {
	if structured == nil || p.Kind != a2a.PartText {
		return false
	}
	text, same := jsontext.Value(p.Text), structured.Clone()
	return text.Canonicalize() == nil && same.Canonicalize() == nil && string(text) == string(same)
}

// contentPart is a block of content as a part.
func contentPart(block jsontext.Value) (a2a.Part, bool) {
	media := textOf(block, "mimeType")
	decode := func(of jsontext.Value, name string) ([]byte, bool) {
		content, err := base64.StdEncoding.DecodeString(textOf(of, name))
		return content, err == nil && len(content) > 0
	}
	switch textOf(block, "type") {
	case "text":
		return a2a.Text(textOf(block, "text")), true
	case "image", "audio":
		content, ok := decode(block, "data")
		return a2a.Raw(content, media, ""), ok
	case "resource_link":
		return a2a.URL(textOf(block, "uri"), media, textOf(block, "name")), textOf(block, "uri") != ""
	case "resource":
		of := valueOf(block, "resource")
		media = textOf(of, "mimeType")
		if content, ok := decode(of, "blob"); ok {
			return a2a.Raw(content, media, ""), true
		}
		p := a2a.Text(textOf(of, "text"))
		p.MediaType = media
		return p, p.Text != ""
	}
	return a2a.Part{}, false
}

func (agentRim) fail(w *work, e jsontext.Value, text string) error {
	return w.turn.Emit(agent.Step{Fail: &agent.Content{
		Parts: []a2a.Part{a2a.Text(text)}, Metadata: a2a.JSON(object([]member{{metaError, e}})),
	}})
}

func (agentRim) canceled(w *work, text string) error { return canceledTask(w, text) }

// ask asks for one thing after the other, as a question that people can answer.
func (agentRim) ask(w *work, open []input) error {
	open = open[:min(len(open), 1)]
	return w.turn.Ask(questionOf(open), schemaOf(open))
}
