package chat

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/form"
)

// shownForm is the form of a question as the page draws it. Its texts are the
// agent's, and not trusted.
type shownForm struct {
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	Fields      []shownField `json:"fields"`
}

// shownField is a field of a form.
type shownField struct {
	Label       string    `json:"label"`
	Description string    `json:"description,omitzero"`
	Kind        form.Kind `json:"kind"`
	Items       form.Kind `json:"items,omitzero"`
	Required    bool      `json:"required"`
	Long        bool      `json:"long,omitzero"`
	Options     []string  `json:"options,omitzero"`
	Default     string    `json:"default,omitzero"`
}

// filledForm is what somebody has written in a form: the values of each field.
type filledForm struct {
	Values [][]string `json:"values"`
}

// builtForm is the answer that a form is: data that fits the schema of the question,
// or what is wrong and in which field.
type builtForm struct {
	Data  jsontext.Value `json:"data,omitzero"`
	Field *int           `json:"field,omitzero"`
	Error string         `json:"error,omitzero"`
}

// form shows the form of the question of a task (GET), or makes an answer of what was
// written in it (POST). It sends nothing: the page does, as any client.
func (h *Handler) form(r *http.Request, s *Surface, p *auth.Principal) (any, error) {
	f, err := h.formOf(r, s, p)
	if err != nil {
		return nil, err
	}
	switch r.Method {
	case http.MethodGet:
		return show(f), nil
	case http.MethodPost:
		body, err := io.ReadAll(io.LimitReader(r.Body, form.MaxAnswer+1))
		if err != nil {
			return nil, a2a.Errorf(a2a.CodeInvalidRequest, "The request body could not be read")
		}
		var filled filledForm
		if len(body) > form.MaxAnswer || json.Unmarshal(body, &filled) != nil {
			return nil, a2a.Invalid("values", "is not the answer to a form")
		}
		return build(f, filled.Values)
	}
	return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "A form can be read and filled in, and nothing else")
}

// formOf returns the form of the question that a task waits with.
func (h *Handler) formOf(r *http.Request, s *Surface, p *auth.Principal) (*form.Form, error) {
	none := 0
	id := r.URL.Query().Get("task")
	if id == "" || len(id) > a2a.MaxIDLength {
		return nil, a2a.Invalid("task", "is not the id of a task")
	}
	task, err := h.opts.Tasks.Get(r.Context(), auth.Scope(p), s.Agent.Spec, id, &none)
	if err != nil {
		return nil, err
	}
	schema := schemaOf(task)
	if schema == nil {
		return nil, a2a.Errorf(a2a.CodeMethodNotFound, "The task asks with no form")
	}
	f, err := form.New(schema)
	if err != nil {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "The form cannot be shown: %v", err)
	}
	return f, nil
}

func schemaOf(t *a2a.Task) a2a.JSON {
	m := t.Status.Message
	if m == nil || t.Status.State != a2a.StateInputRequired {
		return nil
	}
	for i := range m.Parts {
		if part := &m.Parts[i]; part.Kind == a2a.PartData && part.MediaType == agent.SchemaMediaType {
			return part.Data
		}
	}
	return nil
}

func show(f *form.Form) *shownForm {
	v := &shownForm{Title: f.Title, Description: f.Description, Fields: make([]shownField, len(f.Fields))}
	for i := range f.Fields {
		field := &f.Fields[i]
		v.Fields[i] = shownField{
			Label: field.Label(), Description: field.Description, Kind: field.Kind, Items: field.Items,
			Required: field.Required, Long: field.Long, Default: field.Default,
		}
		for _, o := range field.Options {
			v.Fields[i].Options = append(v.Fields[i].Options, o.Label)
		}
	}
	return v
}

// build makes the answer. What does not fit is said of the field that it is in.
func build(f *form.Form, values [][]string) (any, error) {
	if len(values) != len(f.Fields) {
		return nil, a2a.Invalid("values", "has %d fields, and the form has %d", len(values), len(f.Fields))
	}
	data, err := f.Build(values)
	if err == nil {
		return &builtForm{Data: data}, nil
	}
	e, ok := errors.AsType[*form.FieldError](err)
	if !ok {
		return nil, fmt.Errorf("build answer: %w", err)
	}
	for i := range f.Fields {
		if e.Field != "" && e.In(&f.Fields[i]) {
			return &builtForm{Field: &i, Error: f.Fields[i].Label() + " " + e.Reason}, nil
		}
	}
	return &builtForm{Error: e.Error()}, nil
}
