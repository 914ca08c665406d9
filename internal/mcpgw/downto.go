package mcpgw

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// Revisions in which legacy clients have got something new (LEG-09).
const (
	revision202506 = "2025-06-18"
	revision202503 = "2025-03-26"
)

// forClient returns an error as the revision of the client has it: legacy clients
// know none of the codes that revision 2026-07-28 has brought, and another one for
// a resource that is not there (RSC-01, LEG-10).
func (x *exchange) forClient(e *mcp.Error) *mcp.Error {
	if !x.old {
		return e
	}
	told := *e
	switch {
	case e.Code == mcp.CodeInvalidParams && x.method == mcp.MethodReadResource:
		told.Code = mcp.CodeResourceNotFound
	case e.Code == mcp.CodeMissingCapability, e.Code == mcp.CodeHeaderMismatch:
		told.Code = mcp.CodeInvalidRequest
		told.Status = http.StatusOK
	}
	return &told
}

// errorStatus returns the HTTP status of an error for the client. Legacy clients
// take 404 for the end of their session, and 400 for a message that was no good, so
// that both are kept for these.
func (x *exchange) errorStatus(e *mcp.Error) int {
	if x.old && e.Status == 0 {
		switch e.Code {
		case mcp.CodeParseError, mcp.CodeInvalidRequest:
			return http.StatusBadRequest
		case mcp.CodeRateLimited:
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	}
	return e.HTTPStatus()
}

// downTo returns a response as the revision of the client has it (LEG-10).
func (x *exchange) downTo(m *mcp.Message) []byte {
	if !x.old {
		return m.Body
	}
	if e := m.Error(); e != nil {
		told := x.forClient(e)
		if told.Code == e.Code {
			return m.Body
		}
		return mcp.AppendError(nil, m.ID, told)
	}
	m = m.WithParam("resultType", nil)
	if mcp.IsCacheable(x.method) {
		m = m.WithParam("ttlMs", nil).WithParam("cacheScope", nil)
	}
	m = m.WithMeta(mcp.MetaServer, nil)
	switch x.method {
	case mcp.MethodCallTool:
		m = downResult(m, x.version)
	case mcp.MethodListTools:
		m = downTools(m, x.version)
	}
	return m.Body
}

// downResult takes out of the result of a tool what the revision does not have:
// structured content that is no object, or any; the text beside it says the same.
func downResult(m *mcp.Message, version string) *mcp.Message {
	if s := m.Param("structuredContent"); s != nil && (s.Kind() != '{' || version < revision202506) {
		m = m.WithParam("structuredContent", nil)
	}
	if version >= revision202506 {
		return m
	}
	var blocks []jsontext.Value
	if json.Unmarshal(m.Param("content"), &blocks) != nil {
		return m
	}
	changed := false
	for i, block := range blocks {
		var link struct {
			Type string `json:"type"`
			URI  string `json:"uri"`
		}
		if json.Unmarshal(block, &link) == nil && link.Type == "resource_link" {
			blocks[i] = append(mustQuote(jsontext.Value(`{"type":"text","text":`), link.URI), '}')
			changed = true
		}
	}
	if !changed {
		return m
	}
	content, err := json.Marshal(blocks)
	if err != nil {
		return m
	}
	return m.WithParam("content", content)
}

// downTools takes out of a list of tools the output schemas that the revision does
// not have: those that are not of objects, or all.
func downTools(m *mcp.Message, version string) *mcp.Message {
	var tools []jsontext.Value
	if json.Unmarshal(m.Param("tools"), &tools) != nil {
		return m
	}
	changed := false
	for i, tool := range tools {
		var said struct {
			Output jsontext.Value `json:"outputSchema"`
		}
		if json.Unmarshal(tool, &said) != nil || said.Output == nil {
			continue
		}
		var schema struct {
			Type jsontext.Value `json:"type"`
		}
		if version >= revision202506 && json.Unmarshal(said.Output, &schema) == nil && string(schema.Type) == `"object"` {
			continue
		}
		if slim, err := without(tool, "outputSchema"); err == nil {
			tools[i], changed = slim, true
		}
	}
	if !changed {
		return m
	}
	list, err := json.Marshal(tools)
	if err != nil {
		return m
	}
	return m.WithParam("tools", list)
}

// without returns an object without one of its members. The others stay as they are.
func without(object jsontext.Value, key string) (jsontext.Value, error) {
	m, err := mcp.Scan(mcp.AppendResult(nil, jsontext.Value("0"), object), mcp.Limits{Depth: 1 << 20})
	if err != nil {
		return nil, err
	}
	m = m.WithParam(key, nil)
	return m.Text(m.Result), nil
}
