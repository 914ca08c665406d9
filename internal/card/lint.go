package card

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
)

// Level says how bad a finding is.
type Level string

// Levels.
const (
	LevelError   Level = "error"   // the card breaks the specification
	LevelWarning Level = "warning" // it is allowed and probably not meant
)

// Finding is something that a card should not be.
type Finding struct {
	Level     Level
	Field     string // the JSON path, such as skills[0].tags
	Text      string // what is wrong
	Paragraph string // of the specification, such as A2A §4.4.5; may be empty
}

// String returns the finding for people.
func (f Finding) String() string {
	text := string(f.Level) + ": "
	if f.Field != "" {
		text += f.Field + ": "
	}
	text += f.Text
	if f.Paragraph != "" {
		text += " (" + f.Paragraph + ")"
	}
	return text
}

// Bounds above which a text is reported.
const (
	maxName        = 200       // characters
	maxDescription = 4_000     // characters
	maxCard        = 256 << 10 // bytes
)

// Lint returns what is wrong with a card, errors first.
func Lint(card *a2a.AgentCard) []Finding {
	l := &linter{}
	l.required(card)
	l.interfaces(card.SupportedInterfaces)
	l.provider(card)
	l.modes("defaultInputModes", card.DefaultInputModes)
	l.modes("defaultOutputModes", card.DefaultOutputModes)
	l.skills(card)
	l.capabilities(card)
	l.security(card)
	l.texts(card)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return strings.Compare(string(a.Level), string(b.Level)) })
	return l.findings
}

type linter struct{ findings []Finding }

func (l *linter) error(field, paragraph, format string, args ...any) {
	l.findings = append(l.findings, Finding{LevelError, field, fmt.Sprintf(format, args...), paragraph})
}

func (l *linter) warn(field, paragraph, format string, args ...any) {
	l.findings = append(l.findings, Finding{LevelWarning, field, fmt.Sprintf(format, args...), paragraph})
}

// required reports what the protocol's own check finds.
func (l *linter) required(card *a2a.AgentCard) {
	e, ok := errors.AsType[*a2a.Error](card.Validate())
	if !ok {
		return
	}
	for _, v := range e.Violations {
		l.error(v.Field, paragraphOf(v.Field), "%s", v.Description)
	}
}

// paragraphOf returns the paragraph that defines a field.
func paragraphOf(field string) string {
	for _, p := range []struct{ prefix, paragraph string }{
		{"provider.", "A2A §4.4.2"},
		{"capabilities.extensions[", "A2A §4.4.4"},
		{"capabilities", "A2A §4.4.3"},
		{"skills[", "A2A §4.4.5"},
		{"supportedInterfaces[", "A2A §4.4.6"},
		{"signatures[", "A2A §4.4.7"},
		{"securitySchemes", "A2A §4.5"},
	} {
		if strings.HasPrefix(field, p.prefix) {
			return p.paragraph
		}
	}
	return "A2A §4.4.1"
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

func (l *linter) interfaces(interfaces []a2a.AgentInterface) {
	seen := map[a2a.AgentInterface]int{}
	for i, f := range interfaces {
		at := "supportedInterfaces[" + strconv.Itoa(i) + "]"
		switch f.ProtocolBinding {
		case "":
		case a2a.BindingJSONRPC, a2a.BindingREST:
			l.url(at+".url", f.URL, "A2A §4.4.6")
		case a2a.BindingGRPC:
			// A gRPC target may be host:port (a2a.proto, AgentInterface.url).
			if _, _, err := net.SplitHostPort(f.URL); err != nil {
				l.url(at+".url", f.URL, "A2A §4.4.6")
			}
		default:
			if u, err := url.Parse(f.ProtocolBinding); err != nil || u.Scheme == "" {
				l.error(at+".protocolBinding", "A2A §4.4.6", "%q is none of JSONRPC, HTTP+JSON and GRPC; any other binding is named by a URI", shorten(f.ProtocolBinding))
			}
		}
		if f.ProtocolVersion != "" && !versionForm.MatchString(f.ProtocolVersion) {
			l.error(at+".protocolVersion", "A2A §4.4.6", "%q is not Major.Minor, such as 1.0", shorten(f.ProtocolVersion))
		}
		if first, twice := seen[f]; twice {
			l.warn(at, "", "says the same as supportedInterfaces[%d]", first)
		} else {
			seen[f] = i
		}
	}
}

// url checks an absolute URL of a web resource.
func (l *linter) url(field, text, paragraph string) {
	if text == "" {
		return // reported as missing where it is required
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsAny(text, " \t\r\n\"<>\\"):
		l.error(field, paragraph, "is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		l.error(field, paragraph, "is not an absolute http or https URL")
	case u.Hostname() == "":
		l.error(field, paragraph, "has no host")
	case u.User != nil:
		l.error(field, paragraph, "holds credentials, which everybody sees")
	case u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()):
		l.warn(field, "A2A §7.1", "is http; production needs https")
	case u.Fragment != "":
		l.warn(field, paragraph, "has a fragment, which no client sends")
	}
}

func (l *linter) provider(card *a2a.AgentCard) {
	if card.Provider != nil {
		l.url("provider.url", card.Provider.URL, "A2A §4.4.2")
	}
	if card.DocumentationURL != nil {
		l.optionalURL("documentationUrl", *card.DocumentationURL)
	}
	if card.IconURL != nil {
		l.optionalURL("iconUrl", *card.IconURL)
	}
}

func (l *linter) optionalURL(field, text string) {
	if text == "" {
		l.error(field, "A2A §4.4.1", "is empty; leave it out")
		return
	}
	l.url(field, text, "A2A §4.4.1")
}

func (l *linter) modes(field string, modes []string) {
	for i, mode := range modes {
		at := field + "[" + strconv.Itoa(i) + "]"
		mediaType, _, err := mime.ParseMediaType(mode)
		switch {
		case err != nil || strings.Count(mediaType, "/") != 1:
			l.error(at, paragraphOf(field), "%q is not a media type, such as text/plain", shorten(mode))
		case slices.Contains(modes[:i], mode):
			l.warn(at, "", "stands twice")
		}
	}
}

func (l *linter) skills(card *a2a.AgentCard) {
	if len(card.Skills) == 0 {
		l.warn("skills", "A2A §4.4.1", "is empty; nobody learns what the agent is for")
	}
	ids := map[string]int{}
	for i, s := range card.Skills {
		at := "skills[" + strconv.Itoa(i) + "]"
		if first, twice := ids[s.ID]; twice && s.ID != "" {
			l.error(at+".id", "A2A §4.4.5", "%q is the id of skills[%d] already", shorten(s.ID), first)
		} else {
			ids[s.ID] = i
		}
		for j, tag := range s.Tags {
			if strings.TrimSpace(tag) == "" {
				l.warn(at+".tags["+strconv.Itoa(j)+"]", "", "is empty")
			}
		}
		l.modes(at+".inputModes", s.InputModes)
		l.modes(at+".outputModes", s.OutputModes)
		l.requirements(at+".securityRequirements", s.SecurityRequirements, card.SecuritySchemes)
	}
}

func (l *linter) capabilities(card *a2a.AgentCard) {
	seen := map[string]int{}
	for i, e := range card.Capabilities.Extensions {
		at := "capabilities.extensions[" + strconv.Itoa(i) + "]"
		if u, err := url.Parse(e.URI); e.URI != "" && (err != nil || u.Scheme == "") {
			l.error(at+".uri", "A2A §4.4.4", "%q is not a URI", shorten(e.URI))
		}
		if first, twice := seen[e.URI]; twice {
			l.warn(at+".uri", "", "stands in extensions[%d] already", first)
		} else {
			seen[e.URI] = i
		}
	}
	if c := card.Capabilities.ExtendedAgentCard; c != nil && *c && len(card.SecuritySchemes) == 0 {
		l.warn("capabilities.extendedAgentCard", "A2A §3.1.11", "is true, while no security scheme says how to authenticate for it")
	}
}

func (l *linter) security(card *a2a.AgentCard) {
	l.requirements("securityRequirements", card.SecurityRequirements, card.SecuritySchemes)
	for _, name := range slices.Sorted(maps.Keys(card.SecuritySchemes)) {
		scheme, at := card.SecuritySchemes[name], "securitySchemes."+shorten(name)
		if o := scheme.OpenIDConnect; o != nil {
			l.url(at+".openIdConnectSecurityScheme.openIdConnectUrl", o.OpenIDConnectURL, "A2A §4.5.5")
		}
		o := scheme.OAuth2
		if o == nil {
			continue
		}
		at += ".oauth2SecurityScheme"
		l.url(at+".oauth2MetadataUrl", o.OAuth2MetadataURL, "A2A §4.5.4")
		if f := o.Flows.AuthorizationCode; f != nil {
			l.url(at+".flows.authorizationCode.authorizationUrl", f.AuthorizationURL, "A2A §4.5.8")
			l.url(at+".flows.authorizationCode.tokenUrl", f.TokenURL, "A2A §4.5.8")
		}
		if f := o.Flows.ClientCredentials; f != nil {
			l.url(at+".flows.clientCredentials.tokenUrl", f.TokenURL, "A2A §4.5.9")
		}
		if f := o.Flows.DeviceCode; f != nil {
			l.url(at+".flows.deviceCode.deviceAuthorizationUrl", f.DeviceAuthorizationURL, "A2A §4.5.10")
			l.url(at+".flows.deviceCode.tokenUrl", f.TokenURL, "A2A §4.5.10")
		}
		if o.Flows.Implicit != nil || o.Flows.Password != nil {
			l.warn(at+".flows", "A2A §4.5.7", "uses a flow that is deprecated")
		}
	}
}

func (l *linter) requirements(field string, requirements []a2a.SecurityRequirement, schemes map[string]a2a.SecurityScheme) {
	for i, r := range requirements {
		for _, name := range slices.Sorted(maps.Keys(r.Schemes)) {
			if _, ok := schemes[name]; !ok {
				l.error(field+"["+strconv.Itoa(i)+"]", "A2A §4.4.1", "names a scheme, %q, that securitySchemes does not have", shorten(name))
			}
		}
	}
}

// secrets recognise credentials by their form.
var secrets = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`), "a private key"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`), "a JSON Web Token"},
	{regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`), "a cloud access key"},
	{regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b`), "an API key"},
	{regexp.MustCompile(`\b(sk|pk|rk)[-_][A-Za-z0-9_-]{20,}`), "an API key"},
	{regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50,})`), "an access token"},
	{regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`), "an access token"},
	{regexp.MustCompile(`(?i)\b(password|passwd|secret|api[_-]?key|token)\s*[=:]\s*[^\s,;"'{}<>]{8,}`), "a credential"},
	{regexp.MustCompile(`(?i)\bBearer\s+[A-Za-z0-9._~+/-]{16,}=*`), "a bearer token"},
}

// texts checks what people and models read.
func (l *linter) texts(card *a2a.AgentCard) {
	l.text("name", card.Name, maxName)
	l.text("description", card.Description, maxDescription)
	for i, s := range card.Skills {
		at := "skills[" + strconv.Itoa(i) + "]"
		l.text(at+".name", s.Name, maxName)
		l.text(at+".description", s.Description, maxDescription)
		for j, example := range s.Examples {
			l.text(at+".examples["+strconv.Itoa(j)+"]", example, maxDescription)
		}
	}
	for i, e := range card.Capabilities.Extensions {
		at := "capabilities.extensions[" + strconv.Itoa(i) + "]"
		l.text(at+".description", e.Description, maxDescription)
		l.secret(at+".params", string(e.Params))
	}
	if n := len(card.AppendJSON(nil)); n > maxCard {
		l.warn("", "", "the card has %d bytes; clients refuse cards that are large", n)
	}
}

func (l *linter) text(field, text string, limit int) {
	if n := utf8.RuneCountInString(text); n > limit {
		l.warn(field, "", "has %d characters; more than %d are cut or refused by clients", n, limit)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }) {
		l.warn(field, "", "has control characters")
	}
	l.secret(field, text)
}

func (l *linter) secret(field, text string) {
	for _, s := range secrets {
		if s.form.MatchString(text) {
			l.warn(field, "A2A §14.3", "looks like it holds %s, which everybody sees", s.name)
			return
		}
	}
}

// shorten bounds a text that is quoted in a finding.
func shorten(s string) string {
	if runes := []rune(s); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return s
}
