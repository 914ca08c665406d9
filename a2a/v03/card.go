package v03

import (
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
)

// AppendCard appends the card of 1.0 with what clients of 0.3 look for in it
// (A2A 0.3 §5.5): the address and the others, for those of its interfaces that
// speak 0.3, and security in the form of OpenAPI. Each version skips what the
// other has. A card without an interface of 0.3 stays as it is.
func AppendCard(dst []byte, card *a2a.AgentCard) []byte {
	var old []a2a.AgentInterface
	for _, i := range card.SupportedInterfaces {
		if v, err := a2a.ParseVersion(i.ProtocolVersion); err == nil && v == a2a.Version03 {
			old = append(old, i)
		}
	}
	if len(old) == 0 {
		return card.AppendJSON(dst)
	}
	bare := *card
	bare.SecuritySchemes, bare.Skills, bare.SupportedInterfaces = nil, nil, nil
	w := &writer{b: append(dst, '{')}
	for m := range members(bare.AppendJSON(nil)) {
		switch m.name {
		case "skills", "supportedInterfaces":
		default:
			w.key(m.name)
			w.b = append(w.b, m.value...)
		}
	}
	list(w, "supportedInterfaces", card.SupportedInterfaces, func(i *a2a.AgentInterface) { w.b = i.AppendJSON(w.b) })
	w.text("protocolVersion", ProtocolVersion)
	w.text("url", old[0].URL)
	w.text("preferredTransport", old[0].ProtocolBinding)
	list(w, "additionalInterfaces", old, func(i *a2a.AgentInterface) {
		w.open()
		w.text("url", i.URL)
		w.text("transport", i.ProtocolBinding)
		w.close()
	})
	if e := card.Capabilities.ExtendedAgentCard; e != nil {
		w.boolean("supportsAuthenticatedExtendedCard", *e)
	}
	w.security(card.SecurityRequirements)
	if len(card.SecuritySchemes) > 0 {
		w.key("securitySchemes")
		w.open()
		for _, name := range slices.Sorted(maps.Keys(card.SecuritySchemes)) {
			scheme := card.SecuritySchemes[name]
			if w.b[len(w.b)-1] != '{' {
				w.b = append(w.b, ',')
			}
			w.quoted(name)
			w.b = append(w.b, ':')
			w.scheme(&scheme)
		}
		w.close()
	}
	list(w, "skills", card.Skills, func(s *a2a.AgentSkill) {
		w.b = s.AppendJSON(w.b)
		if len(s.SecurityRequirements) > 0 {
			w.b = w.b[:len(w.b)-1]
			w.security(s.SecurityRequirements)
			w.close()
		}
	})
	w.close()
	return w.b
}

type member struct {
	name  string
	value jsontext.Value
}

// members yields the members of an object of ours.
func members(object []byte) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		d := jsontext.NewDecoder(strings.NewReader(string(object)))
		if _, err := d.ReadToken(); err != nil {
			return
		}
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				return
			}
			key := name.String()
			value, err := d.ReadValue()
			if err != nil || !yield(member{key, value}) {
				return
			}
		}
	}
}

func (w *writer) security(list []a2a.SecurityRequirement) {
	if len(list) == 0 {
		return
	}
	w.key("security")
	w.b = append(w.b, '[')
	for i, r := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.open()
		for j, name := range slices.Sorted(maps.Keys(r.Schemes)) {
			if j > 0 {
				w.b = append(w.b, ',')
			}
			w.quoted(name)
			w.b = append(w.b, ':')
			w.texts(r.Schemes[name])
		}
		w.close()
	}
	w.b = append(w.b, ']')
}

func (w *writer) texts(list []string) {
	w.b = append(w.b, '[')
	for i, text := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.quoted(text)
	}
	w.b = append(w.b, ']')
}

// scheme writes a security scheme in both forms: 1.0 has a member for each type,
// 0.3 has the fields beside a type.
func (w *writer) scheme(s *a2a.SecurityScheme) {
	w.open()
	switch {
	case s.APIKey != nil:
		w.text("type", "apiKey")
		w.optText("description", s.APIKey.Description)
		w.text("in", s.APIKey.Location)
		w.text("name", s.APIKey.Name)
	case s.HTTPAuth != nil:
		w.text("type", "http")
		w.optText("description", s.HTTPAuth.Description)
		w.text("scheme", s.HTTPAuth.Scheme)
		w.optText("bearerFormat", s.HTTPAuth.BearerFormat)
	case s.OAuth2 != nil:
		w.text("type", "oauth2")
		w.optText("description", s.OAuth2.Description)
		w.optText("oauth2MetadataUrl", s.OAuth2.OAuth2MetadataURL)
		w.key("flows")
		if s.OAuth2.Flows.DeviceCode != nil { // 0.3 does not have it
			w.b = append(w.b, "{}"...)
		} else {
			w.b = s.OAuth2.Flows.AppendJSON(w.b)
		}
	case s.OpenIDConnect != nil:
		w.text("type", "openIdConnect")
		w.optText("description", s.OpenIDConnect.Description)
		w.text("openIdConnectUrl", s.OpenIDConnect.OpenIDConnectURL)
	case s.MutualTLS != nil:
		w.text("type", "mutualTLS")
		w.optText("description", s.MutualTLS.Description)
	}
	for m := range members(s.AppendJSON(nil)) {
		w.key(m.name)
		w.b = append(w.b, m.value...)
	}
	w.close()
}

// card is a card of 0.3, as far as it differs from one of 1.0.
type card struct {
	SupportedInterfaces  []jsontext.Value          `json:"supportedInterfaces"`
	ProtocolVersion      string                    `json:"protocolVersion"`
	URL                  string                    `json:"url"`
	PreferredTransport   string                    `json:"preferredTransport"`
	AdditionalInterfaces []cardInterface           `json:"additionalInterfaces"`
	Security             []map[string][]string     `json:"security"`
	SecuritySchemes      map[string]jsontext.Value `json:"securitySchemes"`
	Extended             *bool                     `json:"supportsAuthenticatedExtendedCard"`
	Skills               []struct {
		Security []map[string][]string `json:"security"`
	} `json:"skills"`
}

type cardInterface struct {
	URL       string `json:"url"`
	Transport string `json:"transport"`
}

type scheme struct {
	Type         string         `json:"type"`
	Description  string         `json:"description"`
	In           string         `json:"in"`
	Name         string         `json:"name"`
	Scheme       string         `json:"scheme"`
	BearerFormat string         `json:"bearerFormat"`
	Flows        jsontext.Value `json:"flows"`
	MetadataURL  string         `json:"oauth2MetadataUrl"`
	ConnectURL   string         `json:"openIdConnectUrl"`
}

// IsCard reports whether data is a card of 0.3 only: it has an address of its own
// and no interfaces of 1.0.
func IsCard(data []byte) bool {
	var c struct {
		Interfaces []jsontext.Value `json:"supportedInterfaces"`
		URL        string           `json:"url"`
	}
	return json.Unmarshal(data, &c, json.RejectUnknownMembers(false)) == nil && len(c.Interfaces) == 0 && c.URL != ""
}

// ParseCard reads a card of 0.3 as one of 1.0 whose interfaces speak 0.3, in the
// order in which a client prefers them (A2A 0.3 §5.6.3). The errors are those of
// Unmarshal.
func ParseCard(data []byte) (*a2a.AgentCard, error) {
	if err := checkDepth(data); err != nil {
		return nil, err
	}
	var c card
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, protocolError(err, data)
	}
	// What both versions have is read as 1.0 does, without the rest.
	w := &writer{b: []byte{'{'}}
	for m := range members(data) {
		switch m.name {
		case "supportedInterfaces", "security", "securitySchemes", "securityRequirements", "url":
		default:
			if w.b[len(w.b)-1] != '{' {
				w.b = append(w.b, ',')
			}
			w.quoted(m.name)
			w.b = append(append(w.b, ':'), m.value...)
		}
	}
	w.close()
	v := new(a2a.AgentCard)
	if err := a2a.Unmarshal(w.b, v); err != nil {
		return nil, err
	}
	v.SupportedInterfaces = c.interfaces()
	v.SecurityRequirements = requirements(c.Security)
	for i := range v.Skills {
		if i < len(c.Skills) {
			v.Skills[i].SecurityRequirements = requirements(c.Skills[i].Security)
		}
	}
	if v.Capabilities.ExtendedAgentCard == nil {
		v.Capabilities.ExtendedAgentCard = c.Extended
	}
	for name, value := range c.SecuritySchemes {
		s, err := parseScheme(value, name)
		if err != nil {
			return nil, err
		}
		if v.SecuritySchemes == nil {
			v.SecuritySchemes = map[string]a2a.SecurityScheme{}
		}
		v.SecuritySchemes[name] = s
	}
	return v, nil
}

func (c *card) interfaces() []a2a.AgentInterface {
	version := a2a.Version03.String()
	transport := c.PreferredTransport
	if transport == "" {
		transport = a2a.BindingJSONRPC
	}
	list := []a2a.AgentInterface{{URL: c.URL, ProtocolBinding: transport, ProtocolVersion: version}}
	for _, i := range c.AdditionalInterfaces {
		next := a2a.AgentInterface{URL: i.URL, ProtocolBinding: i.Transport, ProtocolVersion: version}
		if i.URL != "" && i.Transport != "" && !slices.Contains(list, next) {
			list = append(list, next)
		}
	}
	return list
}

func requirements(list []map[string][]string) []a2a.SecurityRequirement {
	var requirements []a2a.SecurityRequirement
	for _, schemes := range list {
		requirements = append(requirements, a2a.SecurityRequirement{Schemes: schemes})
	}
	return requirements
}

// flowNames are the flows of OAuth 2.0, of which 1.0 has one: the first that a
// program can go through.
var flowNames = [...]string{"clientCredentials", "authorizationCode", "deviceCode", "password", "implicit"}

func parseFlows(value jsontext.Value, v *a2a.OAuthFlows) error {
	var flows map[string]jsontext.Value
	if err := json.Unmarshal(value, &flows); err != nil {
		return protocolError(err, value)
	}
	for _, name := range flowNames {
		if flow := flows[name]; flow.Kind() == '{' {
			return a2a.Unmarshal([]byte(`{"`+name+`":`+string(flow)+`}`), v)
		}
	}
	return nil
}

func parseScheme(value jsontext.Value, name string) (v a2a.SecurityScheme, err error) {
	var s scheme
	if err := json.Unmarshal(value, &s); err != nil {
		return v, a2a.Invalid("securitySchemes."+name, "is no security scheme")
	}
	switch s.Type {
	case "apiKey":
		v.APIKey = &a2a.APIKeySecurityScheme{Description: s.Description, Location: s.In, Name: s.Name}
	case "http":
		v.HTTPAuth = &a2a.HTTPAuthSecurityScheme{Description: s.Description, Scheme: s.Scheme, BearerFormat: s.BearerFormat}
	case "oauth2":
		v.OAuth2 = &a2a.OAuth2SecurityScheme{Description: s.Description, OAuth2MetadataURL: s.MetadataURL}
		if len(s.Flows) > 0 {
			err = parseFlows(s.Flows, &v.OAuth2.Flows)
		}
	case "openIdConnect":
		v.OpenIDConnect = &a2a.OpenIDConnectSecurityScheme{Description: s.Description, OpenIDConnectURL: s.ConnectURL}
	case "mutualTLS":
		v.MutualTLS = &a2a.MutualTLSSecurityScheme{Description: s.Description}
	default:
		err = a2a.Unmarshal(value, &v) // of 1.0, in a card of both
	}
	return v, err
}
