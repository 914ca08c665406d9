package upstream

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/mcp"
)

// CheckParamHeaders holds the headers of a client against the arguments of its call,
// as the tool has them (XMH-06). A header that is missing, that stands
// where there is no argument, or that says something else is CodeHeaderMismatch.
func CheckParamHeaders(params []mcp.Param, args jsontext.Value, header http.Header) error {
	for i := range params {
		p := &params[i]
		given := header.Values(p.Header())
		want, there := p.Argument(args)
		if !there && len(given) == 0 {
			continue
		}
		if there && len(given) == 1 {
			if got, err := mcp.UnescapeHeader(given[0]); err == nil && got == want {
				continue
			}
		}
		return mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s does not say what the arguments say", p.Header())
	}
	return nil
}
