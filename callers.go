package handoff

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/auth"
)

// newCallers returns what finds out who is calling: the Authenticator of the
// program, or what the configuration says.
func (n *Node) newCallers(c *config.Config) (auth.Authenticator, error) {
	if n.opts.Authenticator != nil {
		if c.Callers.Credentials() {
			return nil, errors.New("callers: the program has an Authenticator of its own, so that the configuration cannot say which credentials are accepted")
		}
		return n.opts.Authenticator, nil
	}
	o := auth.ChainOptions{
		OIDC: c.Callers.OIDC, Basic: c.Callers.Basic, MTLS: c.Callers.MTLS, Client: n.outbound, Logger: n.log,
		Anonymous: auth.Anonymous{Policy: auth.Policy(c.Callers.Anonymous), Proxies: c.TrustedPrefixes(), Hosts: hostsOf(c.PublicURL)},
		Resource:  resourceURL(c), Audiences: audiences(c), Scopes: scopes(c),
		Before: n.chain,
	}
	if c.Callers.Keys {
		o.Keys = n.apiKeys
	}
	chain, err := auth.NewChain(o)
	if err != nil {
		return nil, err
	}
	n.chain = chain
	return chain, nil
}

// resource describes the node, or what is at a path of it, to clients of OAuth 2.0
// (RFC 9728). The configuration is that with the agents of the program.
func resource(c *config.Config, path string) *auth.Resource {
	m := &auth.Resource{Name: "Handoff"}
	for i := range c.Callers.OIDC {
		m.Issuers = append(m.Issuers, c.Callers.OIDC[i].Issuer)
	}
	if isMCP(strings.TrimPrefix(path, auth.ResourcePath)) {
		m.Scopes = c.MCP.Scopes // what basic use takes; more is asked for when it is needed (MCP AUT-13)
		return m
	}
	for _, id := range c.AgentIDs() {
		a := c.Agents[id]
		m.Scopes = append(m.Scopes, a.Callers.Scopes...)
		for i := range a.Skills {
			m.Scopes = append(m.Scopes, a.Skills[i].Scopes...)
		}
	}
	slices.Sort(m.Scopes)
	m.Scopes = slices.Compact(m.Scopes)
	return m
}

// checkCallers returns what is wrong with the credentials of a configuration.
func checkCallers(c *config.Config) []config.Problem {
	var problems []config.Problem
	for i := range c.Callers.Basic {
		if err := auth.CheckPasswordHash(c.Callers.Basic[i].PasswordHash.Reveal()); err != nil {
			problems = append(problems, c.Problem(fmt.Sprintf("callers.basic[%d].password_hash", i), "%v", err))
		}
	}
	if files, ok := c.TLSFiles(); ok {
		if _, err := auth.NewServerTLS(files, nil); err != nil {
			problems = append(problems, c.Problem("tls", "cannot be used: %v", errors.Unwrap(err)))
		}
	}
	return problems
}

// requirement is what an agent asks of its callers.
func requirement(a *config.Agent) auth.Requirement {
	role, _ := auth.ParseRole(string(a.Callers.Role)) // the configuration has checked it
	return auth.Requirement{Role: role, Scopes: a.Callers.Scopes}
}

// skillScopes are the scopes that callers need for the skills of an agent.
func skillScopes(a *config.Agent) map[string][]string {
	scopes := map[string][]string{}
	for _, s := range a.AllSkills() {
		if len(s.Scopes) > 0 {
			scopes[s.ID] = s.Scopes
		}
	}
	return scopes
}

// strict tells browsers to insist on TLS (RFC 6797).
func strict(c *config.Config, next http.Handler) http.Handler {
	if c.TLS == nil || c.TLS.HSTS == 0 {
		return next
	}
	value := "max-age=" + strconv.FormatInt(int64(c.TLS.HSTS.Std()/time.Second), 10)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", value)
		}
		next.ServeHTTP(w, r)
	})
}

// serverTLS returns the TLS of the public listener, nil for none.
func (n *Node) serverTLS(c *config.Config) (*tls.Config, error) {
	files, ok := c.TLSFiles()
	if !ok {
		return nil, nil
	}
	s, err := auth.NewServerTLS(files, n.log)
	if err != nil {
		return nil, err
	}
	return s.Config(), nil
}

// isResource reports whether a path is that of the metadata of a resource.
func isResource(path string) bool {
	return path == auth.ResourcePath || strings.HasPrefix(path, auth.ResourcePath+"/")
}
