package upstream

import (
	"context"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

type Login struct{}

func isLogin(err error) bool { return false }

func (h *httpServer) orLogin(r *Request, err error) (Answer, error) { return nil, err }

type sessions struct{ h *httpServer }

func newSessions(h *httpServer, c *config.MCPServer) *sessions { return &sessions{h} }

func (s *sessions) do(ctx context.Context, r *Request) (Answer, error) {
	return nil, s.h.refused("not yet", nil)
}
func (s *sessions) close(context.Context) {}
func (s *sessions) count() int            { return 0 }
func (s *sessions) probe(ctx context.Context, caller *auth.Principal) (string, error) {
	return "", s.h.refused("not yet", nil)
}

func (s *Servers) makeProgram(t *target, c *config.MCPServer) (speaker, error) {
	return nil, t.refused("not yet", nil)
}
