package wire

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/a2a/v03"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/engine"
)

// Agent is what the bindings have to know of an agent. It is immutable.
type Agent struct {
	// Spec is what the engine runs. Its skills are those that messages may
	// name.
	Spec *engine.Spec
	// InputModes are the media types that the agent takes; a skill may have its
	// own. The whole of a type can be given as image/*.
	InputModes []string
	Extensions []a2a.AgentExtension
	Streaming  bool
	// Pushes says that events of the agent's tasks are sent to webhooks.
	Pushes bool
	// GRPC says that the agent is reached over gRPC too.
	GRPC bool
	// ExtendedCard says that the card declares an extended card.
	ExtendedCard bool
	// Extended hands it out. Nil: there is none.
	Extended Extended
	Versions []a2a.Version // that it speaks; nil: 1.0
	// Assume is the version of requests that name none; 0: 0.3, as the protocol
	// has it (A2A §3.6.2).
	Assume  a2a.Version
	Tenants []string
	// Requires is what callers need: the scopes for every operation, the role for
	// those that change something.
	Requires auth.Requirement
	Paths    Paths
	// LastEventID lets SubscribeToTask go on after the event that the header of
	// that name tells.
	LastEventID bool
	// Retired refuses messages; the tasks of the agent can be read and canceled.
	Retired bool
	// Card serves the agent card of a tenant, "" for none. Nil: no card.
	Card func(w http.ResponseWriter, r *http.Request, tenant string)
}

// Paths are the places of an agent's endpoints. One that begins with a slash
// stands alone, any other begins at the agent's address. Empty is the default.
type Paths struct {
	JSONRPC string // "rpc"
	REST    string // "v1"
	Card    string // ".well-known/agent-card.json"
}

func (p Paths) withDefaults() Paths {
	if p.JSONRPC == "" {
		p.JSONRPC = "rpc"
	}
	if p.REST == "" {
		p.REST = "v1"
	}
	if p.Card == "" {
		p.Card = strings.TrimPrefix(a2a.WellKnownCardPath, "/")
	}
	return p
}

// Set is the agents of a node as of one moment. It is immutable; a reload makes
// a new one.
type Set struct {
	agents map[string]*Agent
	exact  map[string]endpoint // by path
	rest   map[string]endpoint // by the path before the operation
	root   *Agent              // the default one; nil: none
}

// endpoint is what stands at a path.
type endpoint struct {
	agent  *Agent
	kind   endpointKind
	tenant string
}

type endpointKind uint8

const (
	endpointNone endpointKind = iota
	endpointHome
	endpointCard
	endpointRPC
	endpointREST
	endpointOldREST // of version 0.3 only
	endpointOldHome // the address of a tenant in version 0.3
	endpointGRPC
)

// NewSet returns the set of those agents. The card of the agent called byDefault
// is also at the root; "" is the only agent, if there is just one. The error
// names two endpoints that are at the same place, or a default that does not
// exist.
func NewSet(agents []*Agent, byDefault string) (*Set, error) {
	s := &Set{agents: map[string]*Agent{}, exact: map[string]endpoint{}, rest: map[string]endpoint{}}
	for _, a := range agents {
		if s.agents[a.Spec.ID] != nil {
			return nil, fmt.Errorf("agent %q is there twice", a.Spec.ID)
		}
		s.agents[a.Spec.ID] = a
		if err := s.place(a); err != nil {
			return nil, err
		}
	}
	root := s.agents[byDefault]
	switch {
	case byDefault != "" && root == nil:
		return nil, fmt.Errorf("there is no agent %q to be the default one", byDefault)
	case byDefault == "" && len(agents) == 1:
		root = agents[0]
	}
	s.root = root
	for _, path := range root.rootCards() {
		if _, taken := s.exact[path]; !taken {
			s.exact[path] = endpoint{agent: root, kind: endpointCard}
		}
	}
	return s, nil
}

// named returns the agent that the tenant of a request over gRPC leads to, and the
// tenant that remains: the tenant is the id of an agent, or the id and a tenant of
// it with a slash between them; "" is the default agent. It returns nil for what
// is no agent that is reached over gRPC.
func (s *Set) named(tenant string) (a *Agent, remains string) {
	a = s.root
	if tenant != "" {
		id, rest, cut := strings.Cut(tenant, "/")
		if cut && rest == "" {
			return nil, ""
		}
		a, remains = s.agents[id], rest
	}
	if a == nil || !a.GRPC {
		return nil, ""
	}
	return a, remains
}

// servesOldGRPC reports whether an agent is reached over gRPC of version 0.3.
func (s *Set) servesOldGRPC() bool { return s.rest["/"+serviceOld].kind == endpointGRPC }

// Agent returns the agent with that id, or nil.
func (s *Set) Agent(id string) *Agent { return s.agents[id] }

// place enters the endpoints of an agent.
func (s *Set) place(a *Agent) error {
	paths := a.Paths.withDefaults()
	home := "/agents/" + a.Spec.ID + "/"
	at := func(path string) string {
		if strings.HasPrefix(path, "/") {
			return path
		}
		return home + path
	}
	var taken error
	put := func(m map[string]endpoint, path string, kind endpointKind, tenant string) {
		if other, ok := m[path]; ok {
			taken = fmt.Errorf("agents %q and %q both have an endpoint at %s", other.agent.Spec.ID, a.Spec.ID, path)
			return
		}
		m[path] = endpoint{agent: a, kind: kind, tenant: tenant}
	}
	put(s.exact, home, endpointHome, "")
	put(s.exact, home[:len(home)-1], endpointHome, "")
	put(s.exact, at(paths.Card), endpointCard, "")
	rpc := at(paths.JSONRPC)
	put(s.exact, rpc, endpointRPC, "")
	put(s.exact, rpc+"/", endpointRPC, "")
	for _, tenant := range a.Tenants {
		put(s.exact, rpc+"/"+tenant, endpointRPC, tenant)
		put(s.exact, rpc+"/"+tenant+"/", endpointRPC, tenant)
		put(s.exact, home+"t/"+tenant+a2a.WellKnownCardPath, endpointCard, tenant)
	}
	put(s.rest, at(paths.REST), endpointREST, "")
	if slices.Contains(a.Versions, a2a.Version03) {
		s.placeOld(a, put)
	}
	if a.GRPC {
		for _, service := range grpcServices {
			s.rest[service] = endpoint{kind: endpointGRPC}
		}
	}
	if a.GRPC && slices.Contains(a.Versions, a2a.Version03) {
		s.rest["/"+serviceOld] = endpoint{kind: endpointGRPC}
	}
	return taken
}

// placeOld enters the endpoints that only version 0.3 has: its cards under the
// name before, and HTTP+JSON below v1 at the agent's address and at that of each
// tenant, which 0.3 does not have.
func (s *Set) placeOld(a *Agent, put func(m map[string]endpoint, path string, kind endpointKind, tenant string)) {
	home := "/agents/" + a.Spec.ID + "/"
	if s.rest[home+"v1"].agent != a {
		put(s.rest, home+"v1", endpointOldREST, "")
	}
	put(s.exact, home+strings.TrimPrefix(v03.WellKnownCardPath, "/"), endpointCard, "")
	for _, tenant := range a.Tenants {
		put(s.exact, home+"t/"+tenant+"/", endpointOldHome, tenant)
		put(s.rest, home+"t/"+tenant+"/v1", endpointOldREST, tenant)
		put(s.exact, home+"t/"+tenant+v03.WellKnownCardPath, endpointCard, tenant)
	}
}

// rootCards returns where the card of the default agent is at the root.
func (a *Agent) rootCards() []string {
	switch {
	case a == nil:
		return nil
	case slices.Contains(a.Versions, a2a.Version03):
		return []string{a2a.WellKnownCardPath, v03.WellKnownCardPath}
	}
	return []string{a2a.WellKnownCardPath}
}

// route returns the endpoint at a path, and what follows it. The path has its
// percent escapes still.
func (s *Set) route(path string) (e endpoint, rest string) {
	if e, ok := s.exact[path]; ok {
		return e, ""
	}
	for i := len(path); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if e, ok := s.rest[path[:i]]; ok {
			return e, strings.TrimPrefix(path[i:], "/")
		}
	}
	return endpoint{}, ""
}

// skill returns the skill with that id, or nil.
func (a *Agent) skill(id string) *a2a.AgentSkill {
	for i := range a.Spec.Skills {
		if a.Spec.Skills[i].ID == id {
			return &a.Spec.Skills[i]
		}
	}
	return nil
}

// speaks checks the version of a request (A2A §3.6.2).
func (a *Agent) speaks(text string) error {
	if text == "1.0" && a.Versions == nil {
		return nil
	}
	version := a.Assume
	if text != "" || version == 0 {
		var err error
		if version, err = a2a.ParseVersion(text); err != nil {
			return err
		}
	}
	if a.Versions == nil && version == a2a.Version10 || slices.Contains(a.Versions, version) {
		return nil
	}
	supported := a.versionList()
	e := a2a.Errorf(a2a.CodeVersionNotSupported, "Protocol version %s is not supported by this agent; send A2A-Version: %s", version, supported[len(supported)-1])
	if text == "" {
		e.Message = "The request names no protocol version, which means 0.3 and is not supported by this agent; send A2A-Version: " + supported[len(supported)-1]
	}
	e.Metadata = map[string]string{"supportedVersions": strings.Join(supported, ",")}
	return e
}

// versionList returns the versions that the agent speaks, the newest last.
func (a *Agent) versionList() []string {
	versions := slices.Sorted(slices.Values(a.Versions))
	if len(versions) == 0 {
		versions = []a2a.Version{a2a.Version10}
	}
	list := make([]string, len(versions))
	for i, v := range versions {
		list[i] = v.String()
	}
	return list
}

// activate returns the extensions among the requested ones that the agent
// declares, or the error for a required one that is missing (A2A §4.6).
func (a *Agent) activate(requested []string) ([]string, error) {
	var active []string
	for i := range a.Extensions {
		e := &a.Extensions[i]
		switch {
		case slices.Contains(requested, e.URI):
			active = append(active, e.URI)
		case e.Required:
			return nil, &a2a.Error{
				Code:     a2a.CodeExtensionSupportRequired,
				Message:  "This agent requires the extension " + e.URI + "; send A2A-Extensions: " + e.URI,
				Metadata: map[string]string{"extension": e.URI},
			}
		}
	}
	return active, nil
}
