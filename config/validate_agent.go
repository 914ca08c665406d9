package config

import (
	"bytes"
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

var (
	agentID    = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	tenantName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

func (v *validator) agents() {
	c := v.config
	if len(c.Agents) == 0 && len(c.Peers) == 0 && !c.MCPEnabled() {
		v.warn("agents", "", "has no agents")
	}
	if id := c.DefaultAgent; id != "" && c.Agents[id] == nil {
		hint := ""
		if best := closest(id, c.AgentIDs()); best != "" {
			hint = fmt.Sprintf("did you mean %q?", best)
		}
		v.problem("default_agent", hint, "there is no agent %q", shorten(id))
	}
	taken := map[string]string{}
	for _, id := range c.AgentIDs() {
		path := join("agents", id)
		if !agentID.MatchString(id) {
			v.problem(path, "", "is not an id: use a-z, 0-9 and -, begin with a letter or a digit, and up to 63 characters")
		}
		a := c.Agents[id]
		if a == nil {
			v.problem(path, "", "has no value")
			continue
		}
		v.agent(a, path)
		v.llm(id, a, path)
		v.paths(a, id, path, taken)
	}
}

func (v *validator) agent(a *Agent, path string) {
	v.agentCallers(path, a)
	v.text(path+".name", a.Name)
	v.text(path+".description", a.Description)
	v.text(path+".version", a.Version)
	if p := a.Provider; p != nil {
		v.text(path+".provider.organization", p.Organization)
		v.url(path+".provider.url", p.URL)
	}
	if a.DocumentationURL != "" {
		v.url(path+".documentation_url", a.DocumentationURL)
	}
	if a.IconURL != "" {
		v.url(path+".icon_url", a.IconURL)
	}
	v.modes(path+".default_input_modes", a.DefaultInputModes, true)
	v.modes(path+".default_output_modes", a.DefaultOutputModes, true)
	if len(a.Versions) == 0 {
		v.problem(path+".versions", "", "is empty; an agent speaks at least one version")
	}
	for i, version := range a.Versions {
		if slices.Contains(a.Versions[:i], version) {
			v.problem(fmt.Sprintf("%s.versions[%d]", path, i), "", "stands twice")
		}
	}
	if a.AssumeVersion != "" && !slices.Contains(a.Versions, a.AssumeVersion) {
		v.problem(path+".assume_version", "", "is not among the agent's versions")
	}
	if a.Run.MCP == nil || len(a.Skills) > 0 { // without any, they are the tools
		v.skills(a.Skills, path+".skills")
	}
	v.extended(a, path)
	v.chat(path+".chat", a)
	v.extensions(a.Extensions, path+".extensions")
	seen := map[string]bool{}
	for i, tenant := range a.Tenants {
		at := fmt.Sprintf("%s.tenants[%d]", path, i)
		if !tenantName.MatchString(tenant) {
			v.problem(at, "", "is not the name of a tenant: use a-z, 0-9 and -, up to 63 characters")
		}
		if seen[tenant] {
			v.problem(at, "", "stands twice")
		}
		seen[tenant] = true
	}
	switch backends := a.Run.Backends(); len(backends) {
	case 1:
	case 0:
		v.problem(path+".run", "add script, exec, http, mcp, relay or llm", "says nothing that runs the agent")
	default:
		v.problem(path+".run", "keep one", "has more than one backend: %s", strings.Join(backends, ", "))
	}
	if h := a.Run.HTTP; h != nil {
		if _, message := webURL(h.URL); message != "" {
			v.problem(path+".run.http", "", "the URL %s", message)
		}
		for name := range h.Headers {
			if !header.MatchString(name) {
				v.problem(join(path+".run.http.headers", name), "", "is not the name of a header")
			}
		}
	}
	if m := a.Run.MCP; m != nil && v.config.MCP.Servers[m.Server] == nil {
		hint := ""
		if best := closest(m.Server, v.config.MCPServerNames()); best != "" {
			hint = fmt.Sprintf("did you mean %q?", best)
		}
		v.problem(path+".run.mcp", hint, "there is no tool server %q in mcp.servers", shorten(m.Server))
	}
	if e := a.Run.Exec; e != nil && (len(e.Command) == 0 || e.Command[0] == "") {
		v.problem(path+".run.exec", "write it like [./agent, --fast]", "has no command")
	}
	total, inactivity := a.Limits.Total, a.Limits.Inactivity
	if total > 0 && inactivity > total && v.config.source != nil && v.config.source.has(path+".limits.inactivity") {
		v.warn(path+".limits.inactivity", "", "is longer than limits.total (%s), which ends the turn first", total)
	}
}

// text checks a text that the card has to have (A2A §4.4).
func (v *validator) text(path, text string) {
	if strings.TrimSpace(text) == "" {
		v.problem(path, "", "is empty; the agent card has to have it (A2A §4.4)")
	}
}

func (v *validator) url(path, text string) {
	if _, message := webURL(text); message != "" {
		v.problem(path, "", "%s", message)
	}
}

func (v *validator) modes(path string, modes []string, needed bool) {
	if needed && len(modes) == 0 {
		v.problem(path, "", "is empty; the agent card has to have it (A2A §4.4.1)")
	}
	for i, mode := range modes {
		at := fmt.Sprintf("%s[%d]", path, i)
		mediaType, _, err := mime.ParseMediaType(mode)
		if err != nil || strings.Count(mediaType, "/") != 1 {
			v.problem(at, "write it like text/plain", "is not a media type")
		} else if slices.Contains(modes[:i], mode) {
			v.problem(at, "", "stands twice")
		}
	}
}

func (v *validator) skills(skills []Skill, path string) {
	if len(skills) == 0 {
		v.problem(path, "", "is empty; the agent card has to have at least one skill (A2A §4.4.1)")
	}
	ids := map[string]int{}
	for i, s := range skills {
		at := fmt.Sprintf("%s[%d]", path, i)
		v.text(at+".id", s.ID)
		v.text(at+".name", s.Name)
		v.text(at+".description", s.Description)
		if len(s.Tags) == 0 {
			v.problem(at+".tags", "add a keyword", "is empty; the agent card has to have it (A2A §4.4.5)")
		}
		for j, tag := range s.Tags {
			if strings.TrimSpace(tag) == "" {
				v.problem(fmt.Sprintf("%s.tags[%d]", at, j), "", "is empty")
			}
		}
		if first, twice := ids[s.ID]; twice && s.ID != "" {
			v.problem(at+".id", "", "is the id of skills[%d] already", first)
		} else {
			ids[s.ID] = i
		}
		v.modes(at+".input_modes", s.InputModes, false)
		v.modes(at+".output_modes", s.OutputModes, false)
		if s.InputSchema != nil {
			if err := compiles(s.InputSchema); err != nil {
				v.problem(at+".input_schema", "", "is not a JSON Schema: %v", err)
			}
		}
	}
}

// compiles reports whether a text is a JSON Schema that needs nothing from
// elsewhere.
func compiles(text []byte) error {
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return err
	}
	_, err := schema.Resolve(nil)
	return err
}

func (v *validator) extensions(extensions []Extension, path string) {
	seen := map[string]bool{}
	for i, e := range extensions {
		at := fmt.Sprintf("%s[%d]", path, i)
		u, err := url.Parse(e.URI)
		if err != nil || u.Scheme == "" || strings.ContainsAny(e.URI, ", \t\r\n") {
			v.problem(at+".uri", "", "is not a URI")
		}
		if seen[e.URI] {
			v.problem(at+".uri", "", "stands twice")
		}
		seen[e.URI] = true
		if e.Params != nil && !bytes.HasPrefix(bytes.TrimSpace(e.Params), []byte("{")) {
			v.problem(at+".params", "", "expects keys and values")
		}
	}
}

// reservedPaths begin what the node itself answers.
var reservedPaths = []string{"/api", "/mcp", "/healthz", "/readyz", "/metrics", "/debug", "/console", "/chat", "/callbacks", JWKSPath}

// paths checks the addresses of an agent's endpoints against each other's.
func (v *validator) paths(a *Agent, id, path string, taken map[string]string) {
	endpoints := []struct{ key, path string }{
		{"jsonrpc", a.Paths.JSONRPC}, {"rest", a.Paths.REST}, {"card", a.Paths.Card},
	}
	for _, e := range endpoints {
		at := path + ".paths." + e.key
		if problem := pathProblem(e.path); problem != "" {
			v.problem(at, "", "%s", problem)
			continue
		}
		full := AgentPath(id, e.path)
		for _, reserved := range reservedPaths {
			if full == reserved || strings.HasPrefix(full, reserved+"/") {
				v.problem(at, "", "is below %s, which is the node's own", reserved)
			}
		}
		if rest, ok := strings.CutPrefix(full, "/agents/"); ok {
			if owner, _, _ := strings.Cut(rest, "/"); owner != id {
				v.problem(at, "", "is the address of another agent")
			}
		}
		if other, ok := taken[full]; ok {
			v.problem(at, "", "is the address of %s already", other)
			continue
		}
		taken[full] = at
	}
}

func pathProblem(path string) string {
	u, err := url.Parse("http://host/" + strings.TrimPrefix(path, "/"))
	switch {
	case strings.Trim(path, "/") == "":
		return "is empty"
	case err != nil, u.RawQuery != "", u.Fragment != "", u.ForceQuery, strings.ContainsAny(path, " \t\r\n{}\\%#?:"):
		return "is not a plain path"
	case strings.HasSuffix(path, "/"):
		return "ends in a slash; endpoints are given without"
	case strings.Contains(path, "//"):
		return "has an empty segment"
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "has a segment " + segment
		}
	}
	return ""
}

// AgentPath returns the path of an agent's endpoint, below the public URL: a
// path that begins with a slash is taken as it is, any other one begins at the
// agent's address.
func AgentPath(id, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/agents/" + id + "/" + path
}
