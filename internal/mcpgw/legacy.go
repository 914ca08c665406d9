package mcpgw

import (
	"net/http"

	"handoff.example/handoff/internal/mcp"
)

// forClient returns an error as the revision of the client has it.
func (x *exchange) forClient(e *mcp.Error) *mcp.Error { return e }

// errorStatus returns the HTTP status of an error for the client.
func (x *exchange) errorStatus(e *mcp.Error) int { return e.HTTPStatus() }

// downTo returns a response as the revision of the client has it.
func (x *exchange) downTo(m *mcp.Message) []byte { return m.Body }

type sessions struct{}

func newSessions(*Handler) *sessions { return &sessions{} }

func (s *sessions) close() {}

// legacyPost takes a message of a client of an old revision.
func (x *exchange) legacyPost(version string) {
	body, err := x.read(nil)
	if err != nil {
		x.refuse(err)
		return
	}
	m, err := mcp.Scan(body, mcp.Limits{Depth: x.h.opts.Depth})
	if err != nil {
		x.refuse(err)
		return
	}
	x.message = m
	x.method = clip(m.Method, 100)
	if said := m.MetaString(mcp.MetaVersion); said != "" { // modern, but for its headers
		x.refuse(mcp.Errorf(mcp.CodeHeaderMismatch, "The header %s does not say what the message says", mcp.HeaderVersion))
		return
	}
	x.refuse(mcp.UnsupportedVersion(version, x.h.opts.Revisions))
}

// legacyMethod serves GET and DELETE, which only sessions have.
func (x *exchange) legacyMethod() { x.notAllowed() }

type listens struct{}

func newListens(*Handler) *listens { return &listens{} }

func (l *listens) close() {}

// listen opens a subscription.
func (x *exchange) listen() {
	x.refuse(&mcp.Error{Code: mcp.CodeMethodNotFound, Message: "There are no subscriptions", Status: http.StatusNotFound})
}
