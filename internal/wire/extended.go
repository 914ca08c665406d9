package wire

import (
	"cmp"
	"net/http"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/card"
)

// Extended returns the extended card of an agent for a caller, with the tenant
// that the request names, and false when there is none. An old one is for
// clients of version 0.3.
type Extended func(r *http.Request, tenant string, caller *auth.Principal, old bool) (card.Document, bool, error)

// extendedCard is the answer of GetExtendedAgentCard: a card as it was signed.
type extendedCard struct{ card.Document }

// AppendJSON appends the bytes of the card.
func (c *extendedCard) AppendJSON(dst []byte) []byte { return append(dst, c.Body()...) }

// decoded returns the card.
func (c *extendedCard) decoded() (*a2a.AgentCard, error) {
	v := new(a2a.AgentCard)
	return v, a2a.Unmarshal(c.Body(), v)
}

// extended returns the card of the agent for the caller, who has to have shown
// a credential (A2A §13.3).
func (s *service) extended(c *call, q *cardRequest) (*extendedCard, error) {
	if err := c.route(q.Tenant); err != nil {
		return nil, err
	}
	if err := s.authenticated(c, "the extended card"); err != nil {
		return nil, err
	}
	document, ok, err := c.agent.Extended(c.request, cmp.Or(q.Tenant, c.tenant), &c.caller, c.old)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoExtended
	}
	return &extendedCard{document}, nil
}

var errNoExtended = a2a.Errorf(a2a.CodeExtendedAgentCardNotConfigured, "This agent has no extended card configured")

// How clients may keep an extended card: for themselves, and as long as they use
// the same credential.
var (
	privately    = []string{"private, max-age=300"}
	byCredential = []string{"Authorization, X-API-Key"}
)

// answerCard sends an extended card. Where it is read with GET, a client may
// keep it, and ask whether it has changed (A2A §13.3).
func (x *exchange) answerCard(v *extendedCard, err error) {
	if err == nil && (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead) {
		header := x.w.Header()
		header["Cache-Control"] = privately
		header["Etag"] = []string{v.ETag()}
		header["Vary"] = append(header["Vary"], byCredential...)
		if v.Matches(x.r) {
			x.code = codeOK
			x.send(http.StatusNotModified, nil)
			return
		}
	}
	answer(x, v, err)
}
