package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
	"handoff.example/handoff/internal/form"
)

var toolsPages = []page{
	{path: "tools", nav: "tools", title: "Tools", role: auth.RoleOperator, node: true, get: showTools, post: approveTool},
	{path: "tools/{server}/{tool}", nav: "tools", title: "Tool", role: auth.RoleOperator, node: true, get: showTool, post: callTool},
}

// roleNames are the roles, the least first.
var roleNames = []string{"none", "viewer", "caller", "operator", "admin"}

// toolServer is a server of tools, as the API has it.
type toolServer struct {
	Name      string    `json:"name"`
	Tools     int       `json:"tools"`
	Prompts   int       `json:"prompts"`
	Resources int       `json:"resources"`
	Fetched   time.Time `json:"fetched"`
	Failing   bool      `json:"failing"`
	LeftOut   []struct {
		Name   string `json:"name"`
		Reason string `json:"reason"`
	} `json:"left_out"`
	State *struct {
		Transport string    `json:"transport"`
		Revision  string    `json:"revision"`
		Up        bool      `json:"up"`
		Since     time.Time `json:"since"`
		Circuit   string    `json:"circuit"`
		Calls     int64     `json:"calls"`
		Failures  int       `json:"failures"`
		Error     string    `json:"error"`
		ErrorAt   time.Time `json:"error_at"`
	} `json:"state"`
}

// Up says in one word how the server is.
func (s *toolServer) Up() string {
	switch {
	case s.State == nil || s.State.Since.IsZero() && s.State.Calls == 0:
		return "unknown"
	case s.State.Up && !s.Failing:
		return "up"
	}
	return "down"
}

// seenTool is a tool that somebody sees.
type seenTool struct {
	Name        string         `json:"name"`
	Server      string         `json:"server"`
	Tool        string         `json:"tool"`
	Description string         `json:"description"`
	Outcome     string         `json:"outcome"`
	Definition  jsontext.Value `json:"definition"`
}

// State is a state that stands for the outcome of a call.
func (t *seenTool) State() string { return outcomeState(t.Outcome) }

func outcomeState(outcome string) string { return "outcome " + outcome }

// heldTool is a definition that waits for an approval.
type heldTool struct {
	Server string         `json:"server"`
	Tool   string         `json:"tool"`
	Digest string         `json:"digest"`
	Since  time.Time      `json:"since"`
	Old    jsontext.Value `json:"old"`
	New    jsontext.Value `json:"new"`
	Item   string         `json:"item"`
}

// toolTask is a call of a tool that has become a task.
type toolTask struct {
	ID      string    `json:"id"`
	Server  string    `json:"server"`
	Tool    string    `json:"tool"`
	State   string    `json:"state"`
	Owner   string    `json:"owner"`
	Created time.Time `json:"created"`
	Text    string    `json:"text"`
}

// asked is for whom the page of tools shows what there is.
type asked struct {
	As, Role string
}

// query is the caller as the API takes it.
func (a *asked) query() url.Values {
	return valuesOf("as", a.As, "role", a.Role)
}

// askedOf reads for whom somebody wants to see the tools: himself, until he says
// otherwise.
func (v *view) askedOf(given url.Values) asked {
	if !given.Has("as") && !given.Has("role") {
		return asked{v.Principal.Subject, v.Principal.Role.String()}
	}
	return asked{given.Get("as"), given.Get("role")}
}

func showTools(v *view) error {
	var d struct {
		asked
		Roles   []string
		Servers []toolServer `json:"servers"`
		Tools   []seenTool   `json:"tools"`
		Held    []heldTool   `json:"held"`
		Tasks   []toolTask   `json:"tasks"`
		None    string
	}
	d.asked, d.Roles = v.askedOf(v.query()), roleNames
	err := v.get("/mcp/servers", &d)
	if e, ok := errors.AsType[*apiError](err); ok && e.Code == "UNIMPLEMENTED" {
		d.None = e.Message
		return v.render("tools", &d)
	}
	if err != nil {
		return err
	}
	q := d.query()
	if err := v.get("/mcp/tools?"+q.Encode(), &d); err != nil {
		return err
	}
	if err := v.get("/mcp/held", &d); err != nil {
		return err
	}
	if err := v.get("/mcp/tasks?page_size=20", &d); err != nil {
		return err
	}
	return v.render("tools", &d)
}

// approveTool takes the changed definition of a tool.
func approveTool(v *view) error {
	if v.form.Get("do") != "approve" {
		return errNoAction()
	}
	body := map[string]string{"server": v.form.Get("server"), "tool": v.form.Get("tool"), "digest": v.form.Get("digest")}
	if err := v.post("/mcp/held:approve", body, nil); err != nil {
		return v.refuse(Prefix+"tools", err)
	}
	return v.redirect(Prefix+"tools", "The definition is approved.")
}

// toolDetail is what the page of a tool shows.
type toolDetail struct {
	asked
	seenTool
	Roles        []string
	Seen         bool // by whom the page is for
	Input        jsontext.Value
	Output       jsontext.Value
	Form         *form.Form
	Fields       []form.Input
	Raw          string // arguments as JSON
	Key          string
	Explanations []explanation `json:"explanations"`
	Result       *toolResult
	Problem      string
}

type explanation struct {
	Server  string   `json:"server"`
	Tool    string   `json:"tool"`
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason"`
	Scopes  []string `json:"scopes"`
	Missing bool     `json:"scopes_missing"`
	Steps   []struct {
		Key    string `json:"key"`
		Says   string `json:"says"`
		Effect string `json:"effect"`
	} `json:"steps"`
}

// State is a state that stands for the outcome.
func (e *explanation) State() string { return outcomeState(e.Outcome) }

// toolResult is what a call has come to.
type toolResult struct {
	Took   float64        `json:"took_ms"`
	Result jsontext.Value `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	} `json:"error"`
	Task *struct {
		Handle string `json:"handle"`
		Status string `json:"status"`
		Task   string `json:"task"`
	} `json:"task"`
}

func (v *view) tool() (*toolDetail, error) {
	d := &toolDetail{asked: v.askedOf(v.query()), Roles: roleNames}
	d.Server, d.Tool = v.param("server"), v.param("tool")
	v.title = content.Visible(d.Tool)
	q := d.query()
	var list struct {
		Tools []seenTool `json:"tools"`
	}
	q.Set("server", d.Server)
	q.Set("tool", d.Tool)
	if err := v.get("/mcp/tools?"+q.Encode(), &list); err != nil {
		return nil, err
	}
	for i := range list.Tools {
		if t := &list.Tools[i]; t.Server == d.Server && t.Tool == d.Tool {
			d.seenTool, d.Seen = *t, true
		}
	}
	q.Del("server")
	q.Set("tool", d.Server+"."+d.Tool)
	if err := v.get("/mcp/explain?"+q.Encode(), d); err != nil {
		return nil, err
	}
	d.Explanations = slices.DeleteFunc(d.Explanations, func(e explanation) bool { return e.Server != d.Server || e.Tool != d.Tool })
	var definition struct {
		Input  jsontext.Value `json:"inputSchema"`
		Output jsontext.Value `json:"outputSchema"`
	}
	if d.Definition != nil {
		if err := json.Unmarshal(d.Definition, &definition); err == nil {
			d.Input, d.Output = definition.Input, definition.Output
		}
	}
	// A tool without parameters, and a schema that makes no form, take JSON.
	if f, err := form.New(d.Input); d.Input != nil && err == nil && hasFields(f) {
		d.Form, d.Fields = f, f.Inputs(nil, nil)
	}
	return d, nil
}

// hasFields reports whether a form is one of an object, which arguments are.
func hasFields(f *form.Form) bool { return len(f.Fields) > 0 && f.Fields[0].Name != "" }

func showTool(v *view) error {
	d, err := v.tool()
	if err != nil {
		return err
	}
	return v.render("tool", d)
}

// callTool calls a tool through the gateway, with its policy, as whoever has signed
// in.
func callTool(v *view) error {
	d, err := v.tool()
	if err != nil {
		return err
	}
	arguments := jsontext.Value("{}")
	d.Raw = strings.TrimSpace(v.form.Get("arguments"))
	switch {
	case d.Raw != "":
		if arguments = jsontext.Value(d.Raw); !arguments.IsValid() || arguments.Kind() != '{' {
			d.Problem, v.status = "The arguments are not a JSON object.", http.StatusUnprocessableEntity
			return v.render("tool", d)
		}
	case d.Form != nil:
		written := d.Form.Written(v.form)
		built, err := d.Form.Build(written)
		wrong, _ := errors.AsType[*form.FieldError](err)
		d.Fields = d.Form.Inputs(written, wrong)
		if err != nil {
			d.Problem, v.status = err.Error(), http.StatusUnprocessableEntity
			return v.render("tool", d)
		}
		arguments = built
	}
	body := struct {
		Server    string         `json:"server"`
		Tool      string         `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
	}{d.Server, d.Name, arguments}
	if err := v.post("/mcp/call", body, &d.Result); err != nil {
		return v.again("tool", d, &d.Problem, err)
	}
	return v.render("tool", d)
}
