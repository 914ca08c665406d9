package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"handoff.example/handoff/internal/netguard"
)

// validator collects what is wrong with values that could be read.
type validator struct {
	config   *Config
	problems []Problem
	warnings []Problem
}

func (v *validator) problem(path, hint, format string, args ...any) {
	v.problems = append(v.problems, v.at(path, hint, format, args...))
}

func (v *validator) warn(path, hint, format string, args ...any) {
	v.warnings = append(v.warnings, v.at(path, hint, format, args...))
}

func (v *validator) at(path, hint, format string, args ...any) Problem {
	p := Problem{Path: path, Message: fmt.Sprintf(format, args...), Hint: hint}
	if s := v.config.source; s != nil {
		// What a flag has set is no fault of the file.
		for at := path; at != ""; at = parent(at) {
			if flag := s.flags[at]; flag != "" {
				p.Path = flag
				return p
			}
		}
		p.Line, p.Column = s.place(path)
	}
	return p
}

// Validate checks that the configuration can work. Its error is an *Error.
func (c *Config) Validate() error {
	problems := c.problems()
	if len(problems) == 0 {
		return nil
	}
	if c.source == nil {
		return &Error{Problems: sortProblems(problems)}
	}
	return c.errorOf(problems)
}

// Warnings returns what works but is probably not meant.
func (c *Config) Warnings() []Problem {
	v := c.validate()
	return sortProblems(v.warnings)
}

// Problem returns a problem at a path with its place in the file, for checks
// that other packages make. Wrap it in Refuse for an error.
func (c *Config) Problem(path, format string, args ...any) Problem {
	v := validator{config: c}
	return v.at(path, "", format, args...)
}

// Refuse returns an *Error of those problems, or nil when there are none.
func (c *Config) Refuse(problems ...Problem) error {
	if len(problems) == 0 {
		return nil
	}
	if c.source == nil {
		return &Error{Problems: sortProblems(problems)}
	}
	return c.errorOf(problems)
}

func (c *Config) problems() []Problem { return c.validate().problems }

func (c *Config) validate() *validator {
	v := &validator{config: c}
	v.listen()
	v.publicURL()
	v.store()
	v.bus()
	v.nodeURL()
	v.secretKeys()
	v.callers()
	v.roleLimits()
	v.tls()
	v.signing()
	v.webhooks()
	v.inbox()
	v.console()
	v.cors()
	v.telemetry()
	v.agents()
	v.peers()
	v.mcp()
	return v
}

const (
	minSecretKey     = 32 // characters
	maxOldSecretKeys = 4
)

func (v *validator) secretKeys() {
	key, old := v.config.SecretKey.Reveal(), v.config.OldSecretKeys
	if key != "" && len(key) < minSecretKey {
		v.problem("secret_key", "`handoff init` makes one", "has fewer than %d characters", minSecretKey)
	}
	if len(old) > maxOldSecretKeys {
		v.problem("old_secret_keys", "remove those that nothing is sealed with any more", "has more than %d keys", maxOldSecretKeys)
	}
	if key == "" && len(old) > 0 {
		v.problem("old_secret_keys", "name the key that is to seal in secret_key", "stands without secret_key")
	}
	seen := map[string]string{key: "secret_key"}
	for i, s := range old {
		path := fmt.Sprintf("old_secret_keys[%d]", i)
		text := s.Reveal()
		switch {
		case len(text) < minSecretKey:
			v.problem(path, "", "has fewer than %d characters", minSecretKey)
		case seen[text] != "":
			v.problem(path, "remove one of them", "is the same key as %s", seen[text])
		}
		seen[text] = path
	}
}

func (v *validator) listen() {
	c := v.config
	host, _, err := splitHostPort(c.Listen)
	if err != nil {
		v.problem("listen", "write it like 127.0.0.1:8080, or :8080 for every interface", "is not host:port: %v", err)
		return
	}
	if c.Callers.Anonymous == AnonymousLoopback && !c.Callers.Credentials() && !netguard.IsLoopback(host) {
		path := "listen"
		if c.source != nil && c.source.has("callers.anonymous") {
			path = "callers.anonymous"
		}
		v.problem(path, "listen on 127.0.0.1, let callers authenticate (callers.keys: true, say), or set callers.anonymous to everywhere (anybody may call) or off",
			"the node would listen beyond loopback (%s), where callers.anonymous: loopback lets nobody in", c.Listen)
	}
}

// splitHostPort splits host:port and checks the port.
func splitHostPort(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		if e, ok := err.(*net.AddrError); ok {
			return "", 0, fmt.Errorf("%s", e.Err)
		}
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("the port is not a number from 0 to 65535")
	}
	if strings.ContainsAny(host, " /\t\n@") {
		return "", 0, fmt.Errorf("the host is not a name or an address")
	}
	return host, port, nil
}

func (v *validator) publicURL() {
	c := v.config
	if c.PublicURL == "" {
		return
	}
	u, message := webURL(c.PublicURL)
	switch {
	case message != "":
		v.problem("public_url", "write it like https://agents.example.com", "%s", message)
		return
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		v.problem("public_url", "", "has a query or a fragment")
		return
	}
	if u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()) {
		v.warn("public_url", "", "is not https; A2A §7.1 asks for it in production")
	}
	if c.TLS != nil && u.Scheme == "http" {
		v.warn("public_url", "write https://", "is not https, though the node speaks TLS")
	}
	if c.Callers.Anonymous == AnonymousLoopback && !c.Callers.Credentials() && !netguard.IsLoopback(u.Hostname()) {
		v.warn("public_url", "let callers authenticate (callers.keys: true, say), or set callers.anonymous to everywhere if anybody may call",
			"is public, while callers.anonymous: loopback refuses every caller that came through a proxy")
	}
}

func (v *validator) nodeURL() {
	if v.config.NodeURL == "" {
		for _, id := range v.config.AgentIDs() {
			if a := v.config.Agents[id]; a != nil && a.Run.HTTP != nil && v.config.UsesPostgres() {
				v.warn(join(join("agents", id), "run.http"), "set node_url to where this one node is reached, or let the service post again after a 503",
					"may answer later by a callback, which a balancer brings to the wrong node now and then: node_url is not set")
				break
			}
		}
		return
	}
	u, message := webURL(v.config.NodeURL)
	switch {
	case message != "":
		v.problem("node_url", "write it like http://10.0.0.7:8080", "%s", message)
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		v.problem("node_url", "", "has a query or a fragment")
	}
}

// webURL parses an absolute http or https URL. The message says what is wrong
// with it.
func webURL(text string) (u *url.URL, message string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "is not an http or https URL"
	case u.Hostname() == "":
		return nil, "has no host"
	case u.User != nil:
		return nil, "holds credentials, which everybody would see"
	case strings.ContainsAny(text, " \t\r\n\"<>\\"):
		return nil, "has characters that a URL cannot have"
	}
	return u, ""
}

func (v *validator) store() {
	c := v.config
	scheme, path, ok := strings.Cut(c.Store, ":")
	switch {
	case v.storeAddress():
	case !ok || scheme != "sqlite":
		hint := hintStore
		if near := closest(scheme, []string{"sqlite", "postgres", "postgresql"}); ok && near != "" {
			if hint = "did you mean sqlite:FILE?"; near != "sqlite" {
				hint = fmt.Sprintf("did you mean %s://?", near)
			}
		}
		v.problem("store", hint, "is not a store that handoff knows")
	case path == "" || strings.HasSuffix(path, "/"):
		v.problem("store", "write it like sqlite:handoff.db", "names no file")
	case strings.ContainsAny(path, "?#\x00"):
		v.problem("store", "", "has characters that the name of a store cannot have")
	case path == memoryStore:
	default:
		v.directory("store", c.StorePath())
	}
	if c.Socket != "" {
		v.directory("socket", c.SocketPath())
	}
}

// directory checks that the directory of a file is there.
func (v *validator) directory(key, file string) {
	if s := v.config.source; s == nil || s.dir == "" {
		return
	}
	dir := filepath.Dir(file)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		v.problem(key, "make it first", "the directory %s does not exist", dir)
	}
}

// header is a field name of HTTP (RFC 9110 §5.1).
var header = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func (v *validator) cors() {
	for i, origin := range v.config.CORS.Origins {
		path := fmt.Sprintf("cors.origins[%d]", i)
		if origin == "*" {
			continue
		}
		u, message := webURL(origin)
		switch {
		case message != "":
			v.problem(path, "write it like https://app.example.com, or *", "%s", message)
		case u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			v.problem(path, fmt.Sprintf("write %s://%s", u.Scheme, u.Host), "is more than an origin")
		}
	}
	for i, name := range v.config.CORS.Headers {
		if !header.MatchString(name) {
			v.problem(fmt.Sprintf("cors.headers[%d]", i), "", "is not the name of a header")
		}
	}
}

func (v *validator) telemetry() {
	t := v.config.Telemetry
	if t.Listen != "" {
		host, _, err := splitHostPort(t.Listen)
		switch {
		case err != nil:
			v.problem("telemetry.listen", "write it like 127.0.0.1:9464", "is not host:port: %v", err)
		case t.Listen == v.config.Listen && !strings.HasSuffix(t.Listen, ":0"):
			v.problem("telemetry.listen", "", "is the address of listen")
		case t.Pprof && !netguard.IsLoopback(host):
			v.warn("telemetry.listen", "", "shows profiles beyond loopback, to everybody")
		}
	}
	if t.OTLP.Endpoint != "" {
		if _, message := webURL(t.OTLP.Endpoint); message != "" {
			v.problem("telemetry.otlp.endpoint", "write it like http://127.0.0.1:4318", "%s", message)
		}
	}
	for name := range t.OTLP.Headers {
		if !header.MatchString(name) {
			v.problem(join("telemetry.otlp.headers", name), "", "is not the name of a header")
		}
	}
}

// roleLimits checks that limits are of roles that there are.
func (v *validator) roleLimits() {
	for _, role := range slices.Sorted(maps.Keys(v.config.Limits.Roles)) {
		switch Role(role) {
		case RoleViewer, RoleCaller, RoleOperator, RoleAdmin:
		default:
			v.problem("limits.roles."+role, "", "is no role: viewer, caller, operator, admin")
		}
	}
}
