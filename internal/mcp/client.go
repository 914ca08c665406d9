package mcp

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Capabilities are what a client has declared with a request.
type Capabilities struct {
	ElicitForm  bool
	ElicitURL   bool
	Sampling    bool
	SampleTools bool
	Roots       bool
	Tasks       bool // the extension
	// Raw is the declaration as it was written; nil: none.
	Raw jsontext.Value
}

// ParseCapabilities reads the ClientCapabilities of a request, or of an
// initialize. An empty elicitation is that of forms (ELI-01).
func ParseCapabilities(value jsontext.Value) Capabilities {
	var raw struct {
		Elicitation *struct {
			Form *struct{} `json:"form"`
			URL  *struct{} `json:"url"`
		} `json:"elicitation"`
		Sampling *struct {
			Tools *struct{} `json:"tools"`
		} `json:"sampling"`
		Roots      *struct{}                 `json:"roots"`
		Extensions map[string]jsontext.Value `json:"extensions"`
	}
	c := Capabilities{Raw: value}
	if value == nil || string(value) == "{}" || json.Unmarshal(value, &raw) != nil {
		return c
	}
	if e := raw.Elicitation; e != nil {
		c.ElicitForm, c.ElicitURL = e.Form != nil || e.URL == nil, e.URL != nil
	}
	if s := raw.Sampling; s != nil {
		c.Sampling, c.SampleTools = true, s.Tools != nil
	}
	c.Roots = raw.Roots != nil
	_, c.Tasks = raw.Extensions[ExtensionTasks]
	return c
}

// AppendJSON appends the capabilities as a client declares them. It is made anew,
// so that nothing is declared that is not understood here (MRT-08).
func (c Capabilities) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	begin := len(dst)
	add := func(text string) {
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = append(dst, text...)
	}
	switch {
	case c.ElicitForm && c.ElicitURL:
		add(`"elicitation":{"form":{},"url":{}}`)
	case c.ElicitForm:
		add(`"elicitation":{"form":{}}`)
	case c.ElicitURL:
		add(`"elicitation":{"url":{}}`)
	}
	switch {
	case c.SampleTools:
		add(`"sampling":{"tools":{}}`)
	case c.Sampling:
		add(`"sampling":{}`)
	}
	if c.Roots {
		add(`"roots":{}`)
	}
	if c.Tasks {
		add(`"extensions":{"` + ExtensionTasks + `":{}}`)
	}
	return append(dst, '}')
}

// Meta is what a client says of itself with each request (MET-03).
type Meta struct {
	Version      string // "": Modern
	Client       jsontext.Value
	Capabilities jsontext.Value // nil: none
	Progress     jsontext.Value // nil: none
}

// NewRequest returns a request. The params are an object without _meta, or nil.
func NewRequest(id jsontext.Value, method string, params jsontext.Value, meta Meta) *Message {
	if meta.Version == "" {
		meta.Version = Modern
	}
	if meta.Capabilities == nil {
		meta.Capabilities = jsontext.Value("{}")
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"method":`...), appendString(nil, method)...)
	body = append(body, `,"params":{"_meta":{"`+MetaVersion+`":`...)
	body = appendString(body, meta.Version)
	body = append(append(body, `,"`+MetaCapabilities+`":`...), meta.Capabilities...)
	if meta.Client != nil {
		body = append(append(body, `,"`+MetaClient+`":`...), meta.Client...)
	}
	if meta.Progress != nil {
		body = append(append(body, `,"`+MetaProgress+`":`...), meta.Progress...)
	}
	body = append(body, '}')
	if inner := trimObject(params); len(inner) > 0 {
		body = append(append(body, ','), inner...)
	}
	m, err := Scan(append(body, "}}"...), Limits{Depth: 1 << 20})
	if err != nil { // the caller has given what is no JSON, or an id or _meta
		panic("mcp: " + err.Error())
	}
	return m
}

// trimObject returns what is between the braces of an object.
func trimObject(object jsontext.Value) []byte {
	object = trimSpace(object)
	if len(object) < 2 {
		return nil
	}
	return trimSpace(object[1 : len(object)-1])
}

func trimSpace(text []byte) []byte {
	for len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && isSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
