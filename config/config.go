// Package config holds every struct of the one YAML file that a node is
// configured by. A component takes its part and nothing else.
//
// The structs are the single source of the file's form: their yaml tags name
// the keys, their default, enum, min and max tags bound the values, and their
// doc comments become the descriptions of the JSON Schema and of
// docs/configuration.md (go generate ./config).
//
// The tags are these:
//
//	yaml:"key"            the key; a field without one is not part of the file
//	default:"15s"         the value of an absent key, written as in the file
//	                      (commas separate the elements of a list)
//	enum:"a,b"            the only values of a string, or of a list's elements
//	min:"1" max:"65536"   bounds of a number, a Duration or a Size
//	later:"c,d"           values that a later version will have
//	required:"true"       an absent key is an error
//	restart:"true"        a change needs a restart and is refused by a reload
//	conceal:"true"        an address whose credentials are not shown
package config

//go:generate go run ./schemagen

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"handoff.example/handoff/internal/netguard"
)

// Config is the whole file.
type Config struct {
	// The address to listen on, host:port. Without a host it listens on every interface.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" restart:"true"`

	// The URL at which clients reach the node, such as https://agents.example.com, with the path prefix under which a proxy publishes it, if any. Agent cards and callback URLs begin with it. Without it they follow the request.
	PublicURL string `yaml:"public_url"`

	// Addresses or networks (CIDR) of reverse proxies. Only what they say in Forwarded and X-Forwarded-* headers about the client and the public address is believed.
	TrustedProxies []Prefix `yaml:"trusted_proxies"`

	// Where tasks are kept: sqlite: and the path of a file, relative to the configuration file, for one node; sqlite::memory: for a node that forgets; postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full for any number of nodes. What is special in the password is escaped, as in %40 for @; ${ENV} in it keeps it out of the file. It is never shown.
	Store string `yaml:"store" default:"sqlite:handoff.db" restart:"true" conceal:"true"`

	// Over what nodes of one PostgreSQL database tell each other what has happened: postgres (the default there) for the database itself, or NATS servers such as nats://HOST:4222, with commas between several, and tls:// for TLS. It only makes nodes notice sooner: nothing depends on it.
	Bus string `yaml:"bus" restart:"true" conceal:"true"`

	// The credentials of NATS: file: and the path of a .creds file, relative to the configuration file. It is read whenever the node connects.
	BusCredentials string `yaml:"bus_credentials" restart:"true"`

	// A file with the certificates (PEM) that NATS servers are verified with, in place of the system's. Relative to the configuration file.
	BusCA string `yaml:"bus_ca" restart:"true"`

	// Where the admin socket is. Without it, beside the SQLite file with .sock at its end; with PostgreSQL handoff.sock beside the configuration file. Several nodes on one machine need one each. Relative to the configuration file.
	Socket string `yaml:"socket" restart:"true"`

	// The URL at which this one node is reached, for callbacks of its http agents, such as http://10.0.0.7:8080. Without it, public_url.
	NodeURL string `yaml:"node_url" restart:"true"`

	// How long the node counts as alive without a sign of life. After that, other nodes of the database take over its tasks.
	Lease Duration `yaml:"lease" default:"10s" min:"500ms" max:"10m" restart:"true"`

	// The key that encrypts credentials at rest: file: and a path, or ${ENV}. At least 32 characters. `handoff init` makes one.
	SecretKey Secret `yaml:"secret_key" restart:"true"`

	// Keys that secret_key was before, or will be next: what they have sealed can be opened, and nothing is sealed with them. Each like secret_key, and at most 4. The node seals again what they have sealed, and says when they are not needed any more.
	OldSecretKeys []Secret `yaml:"old_secret_keys" restart:"true"`

	// Who may call.
	Callers Callers `yaml:"callers"`

	// TLS from files. Without it the node speaks plain HTTP, for a proxy that speaks TLS.
	TLS *TLS `yaml:"tls" restart:"true"`

	// What agent cards are signed with. Without it they are not.
	Signing *Signing `yaml:"signing"`

	// The id of the agent whose card is also at /.well-known/agent-card.json. If there is one agent, it is that.
	DefaultAgent string `yaml:"default_agent"`

	// What the node may connect to.
	Outbound Outbound `yaml:"outbound"`

	// What is sent to the webhooks that callers hang on their tasks.
	Webhooks Webhooks `yaml:"webhooks"`

	// What waits for a person.
	Inbox Inbox `yaml:"inbox"`

	// The web pages for the people of the node, at /console/.
	Console Console `yaml:"console"`

	// Which web pages may call the node from a browser.
	CORS CORS `yaml:"cors"`

	// Limits of the node. Limits of an agent's work are the agent's.
	Limits Limits `yaml:"limits"`

	// Bounds of the trees of tasks that agents make by handing work to each other and to peers.
	Delegation Delegation `yaml:"delegation"`

	// How long things are kept.
	Retention Retention `yaml:"retention"`

	// The record of who did what.
	Audit Audit `yaml:"audit"`

	// A task that is not finished and to which nothing has happened for this long is shown as stale to operators. 0 turns it off.
	StaleAfter Duration `yaml:"stale_after" default:"24h" min:"0s"`

	// How long a node that is told to stop lets requests and turns finish.
	ShutdownGrace Duration `yaml:"shutdown_grace" default:"20s" min:"0s"`

	// The log, on standard error.
	Log Log `yaml:"log"`

	// Metrics, profiles and traces.
	Telemetry Telemetry `yaml:"telemetry"`

	// The agents, by id. An id ([a-z0-9][a-z0-9-]*, up to 63 characters) is part of the agent's address, {public_url}/agents/{id}/.
	Agents map[string]*Agent `yaml:"agents"`

	// The gateway in front of tool servers.
	MCP MCP `yaml:"mcp"`

	// Other agents that work is handed to, by name. A name has the form of an agent's id, and is none.
	Peers map[string]*Peer `yaml:"peers"`

	source *source
}

// Delegation bounds the trees of tasks that agents make by delegating.
type Delegation struct {
	// The hops from the task at the root to the farthest one, over all nodes that tell each other. A delegation beyond is refused. 0 is no limit.
	MaxDepth int `yaml:"max_depth" default:"8" min:"0" max:"100"`

	// The tasks below one root. Delegations beyond are refused. 0 is no limit.
	MaxTasks int `yaml:"max_tasks" default:"100" min:"0" max:"100000"`

	// How long a root and all that is below it may take. Delegated tasks that are not over by then are FAILED. 0 is no limit.
	MaxTime Duration `yaml:"max_time" default:"30d" min:"0s"`
}

// Callers says who may call.
type Callers struct {
	// Callers without credentials: off refuses them, loopback accepts those on this machine that did not come through a proxy, everywhere accepts all. A credential that is wrong is refused in any case.
	Anonymous Anonymous `yaml:"anonymous" default:"loopback" enum:"off,loopback,everywhere"`

	// Whether API keys are accepted, as Authorization: Bearer hk_… or in X-API-Key. `handoff keys create` makes one.
	Keys bool `yaml:"keys" default:"false"`

	// Issuers whose tokens (JWT) are accepted.
	OIDC []OIDC `yaml:"oidc"`

	// Callers with a name and a password (HTTP Basic).
	Basic []BasicUser `yaml:"basic"`

	// Accepts client certificates as credentials. They are verified with tls.client_ca.
	MTLS *MTLS `yaml:"mtls"`
}

// Anonymous says from where callers without credentials are accepted.
type Anonymous string

// From where callers without credentials are accepted.
const (
	AnonymousOff        Anonymous = "off"
	AnonymousLoopback   Anonymous = "loopback"
	AnonymousEverywhere Anonymous = "everywhere"
)

// Outbound bounds what the node connects to.
type Outbound struct {
	// Destinations named by others (a webhook, a URL in a card, a redirect) that are allowed though they are private: networks (10.1.0.0/16), addresses, host names (hooks.corp.example), or names below a domain (*.corp.example); each may end in :port.
	Allow []netguard.Destination `yaml:"allow"`
}

// Webhooks configures what is sent to the webhooks of tasks (A2A §4.3).
type Webhooks struct {
	// Whether the events of tasks are sent to webhooks. An agent can turn it off for itself.
	Enabled bool `yaml:"enabled" default:"true" restart:"true"`

	// Whether webhooks may have URLs of http. Otherwise they are https, but for hosts that outbound.allow names.
	AllowHTTP bool `yaml:"allow_http" default:"false" restart:"true"`

	// How long an event is tried that cannot be delivered. After that its webhook is given up, and waits for `handoff admin push redeliver`.
	Retry Duration `yaml:"retry" default:"24h" min:"1m" max:"30d" restart:"true"`

	// How long a receiver may take to answer.
	Timeout Duration `yaml:"timeout" default:"15s" min:"1s" max:"2m" restart:"true"`

	// Whether each event is signed (JWT) with the first of signing.keys, so that receivers can verify who sent it.
	Sign bool `yaml:"sign" default:"false"`

	// The webhooks that a task may have.
	PerTask int `yaml:"per_task" default:"10" min:"1" max:"1000" restart:"true"`

	// The deliveries to one host and port at once, on each node. One owner of webhooks alone gets half of them.
	PerTarget int `yaml:"per_target" default:"8" min:"1" max:"1000" restart:"true"`
}

// CORS says which web pages may call the node from a browser.
type CORS struct {
	// Origins such as https://app.example.com, or * for any. Pages of origins that are named count as local callers on this machine; * only lets pages read.
	Origins []string `yaml:"origins"`

	// Request headers that pages may send besides those of the protocol.
	Headers []string `yaml:"headers"`

	// How long a browser may remember the answer to a preflight request.
	MaxAge Duration `yaml:"max_age" default:"10m" min:"0s" max:"24h"`
}

// Limits bounds what the node takes on.
type Limits struct {
	// The largest request body.
	Body Size `yaml:"body" default:"16MiB" min:"1KiB" max:"1GiB"`

	// The largest request header.
	HeaderBytes Size `yaml:"header_bytes" default:"64KiB" min:"4KiB" max:"16MiB" restart:"true"`

	// The time a client has to send a request's header.
	HeaderTimeout Duration `yaml:"header_timeout" default:"10s" min:"100ms" restart:"true"`

	// The time a client has to send a request's body.
	BodyTimeout Duration `yaml:"body_timeout" default:"60s" min:"100ms"`

	// How long an idle connection stays open.
	IdleTimeout Duration `yaml:"idle_timeout" default:"2m" min:"1s" restart:"true"`

	// The deepest nesting of JSON in a request, with what stands around the data of a message. More than 100 counts as 100.
	JSONDepth int `yaml:"json_depth" default:"64" min:"8" max:"1000"`

	// The requests that one caller may send to this node in a second: one with credentials by its tenant and subject, one without by its address, an IPv6 one by its network of 64 bits. Further ones are refused with 429. Callers on this machine have no limit. 0 is no limit.
	RequestsPerSecond int `yaml:"requests_per_second" default:"100" min:"0" max:"1000000"`

	// The requests that one caller may send at once before requests_per_second counts.
	RequestBurst int `yaml:"request_burst" default:"200" min:"1" max:"1000000"`

	// Limits of requests of callers with a role (viewer, caller, operator, admin), in place of requests_per_second and request_burst. They hold on this machine too.
	Roles map[string]*RequestLimit `yaml:"roles"`

	// The tasks that one caller may have that are not finished. Messages that would begin further ones are refused with 429. All callers without credentials count as one. 0 is no limit.
	OpenTasks int `yaml:"open_tasks" default:"0" min:"0"`

	// The tasks that one caller may have that wait for it: for input or an authorization. As long as there are so many, messages that would begin a task are refused with 429. 0 is no limit.
	ParkedTasks int `yaml:"parked_tasks" default:"0" min:"0"`

	// The streams that one caller may have open on this node; one without credentials is counted by its address, an IPv6 one by its network of 64 bits. 0 is no limit.
	Streams int `yaml:"streams" default:"100" min:"0"`

	// The turns that run at once. Further ones wait, and their tasks are SUBMITTED.
	Turns int `yaml:"turns" default:"256" min:"1" max:"100000" restart:"true"`

	// The turns that may wait for one to end. Messages beyond are refused with 429.
	Queue int `yaml:"queue" default:"10000" min:"0" restart:"true"`

	// The part of the queue, in percent, that one tenant may fill, or one caller that has no tenant. Workers that become free take the turns of tenants in turn.
	QueueShare int `yaml:"queue_share" default:"50" min:"1" max:"100" restart:"true"`
}

// RequestLimit bounds how often a caller may call.
type RequestLimit struct {
	// The requests that one caller may send to this node in a second. 0 is no limit.
	RequestsPerSecond int `yaml:"requests_per_second" default:"100" min:"0" max:"1000000"`

	// The requests that one caller may send at once before that counts.
	RequestBurst int `yaml:"request_burst" default:"200" min:"1" max:"1000000"`
}

// Audit configures the record of who did what.
type Audit struct {
	// What is recorded: off is nothing, changes is what changes something, and all is also what reads.
	Level AuditLevel `yaml:"level" default:"changes" enum:"off,changes,all"`

	// Whether the messages that callers send are recorded too.
	Content bool `yaml:"content" default:"false"`

	// How long entries are kept. 0 keeps them for ever.
	Retention Duration `yaml:"retention" default:"90d" min:"0s"`
}

// AuditLevel says what is recorded.
type AuditLevel string

// What is recorded.
const (
	AuditOff     AuditLevel = "off"
	AuditChanges AuditLevel = "changes"
	AuditAll     AuditLevel = "all"
)

// Retention says how long things are kept.
type Retention struct {
	// How long a finished task is kept, with its events and artifacts. After that it is not found any more, and removed within seconds. 0 keeps it for ever.
	Tasks Duration `yaml:"tasks" default:"30d" min:"0s"`

	// How long the id of a message is remembered, so that the same message sent again gets the same answer.
	Claims Duration `yaml:"claims" default:"24h" min:"1m"`
}

// Log configures the log.
type Log struct {
	// The least severe level that is written.
	Level string `yaml:"level" default:"info" enum:"debug,info,warn,error"`

	// The form of a line.
	Format string `yaml:"format" default:"text" enum:"text,json" restart:"true"`
}

// Telemetry configures metrics, profiles and traces.
type Telemetry struct {
	// The address, host:port, of a listener of its own for /metrics and /debug/pprof. Without it they are on the admin socket only.
	Listen string `yaml:"listen" restart:"true"`

	// Whether /metrics is served, in the Prometheus format.
	Metrics bool `yaml:"metrics" default:"true" restart:"true"`

	// Whether /debug/pprof is served.
	Pprof bool `yaml:"pprof" default:"false" restart:"true"`

	// Where traces go.
	OTLP OTLP `yaml:"otlp"`
}

// OTLP says where traces go.
type OTLP struct {
	// The URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318. Without it no traces are made.
	Endpoint string `yaml:"endpoint" restart:"true"`

	// Headers to send to it.
	Headers map[string]Secret `yaml:"headers" restart:"true"`

	// The name under which the node reports.
	ServiceName string `yaml:"service_name" default:"handoff" restart:"true"`

	// The part of traces that is kept, from 0 to 1. A caller's sampling decision is followed.
	Ratio float64 `yaml:"ratio" default:"1" min:"0" max:"1" restart:"true"`
}

// Default returns a configuration with every default and no agents.
func Default() *Config {
	c := &Config{Agents: map[string]*Agent{}}
	setDefaults(c)
	c.source = newSource("", "")
	return c
}

// AgentIDs returns the ids of the agents in order.
func (c *Config) AgentIDs() []string {
	ids := make([]string, 0, len(c.Agents))
	for id := range c.Agents {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// DefaultAgentID returns the id of the agent whose card is also at
// /.well-known/agent-card.json, or "" when there is none.
func (c *Config) DefaultAgentID() string {
	if c.DefaultAgent != "" {
		return c.DefaultAgent
	}
	if ids := c.AgentIDs(); len(ids) == 1 {
		return ids[0]
	}
	return ""
}

// Dir returns the directory of the file, which relative paths in it begin at,
// or "" when the configuration came from no file.
func (c *Config) Dir() string {
	if c.source == nil {
		return ""
	}
	return c.source.dir
}

// File returns the path of the file as it was given to Load, or "".
func (c *Config) File() string {
	if c.source == nil {
		return ""
	}
	return c.source.name
}

// memoryStore is the SQLite name of a database without a file.
const memoryStore = ":memory:"

// StorePath returns the path of the SQLite file, ":memory:" for a store that
// forgets, or "" for one that has no file of this machine.
func (c *Config) StorePath() string {
	path, ok := strings.CutPrefix(c.Store, "sqlite:")
	if !ok {
		return ""
	}
	if path == memoryStore || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir(), path)
}

// SocketPath returns where the admin socket is, or "" when there is none: for a
// store in memory whose configuration does not name one.
func (c *Config) SocketPath() string {
	switch path := c.StorePath(); {
	case c.Socket != "":
		return c.path(c.Socket)
	case path == memoryStore:
		return ""
	case path == "":
		return filepath.Join(c.Dir(), "handoff.sock")
	default:
		return path + ".sock"
	}
}

// BusCredentialsPath returns the path of the credentials of NATS, or "".
func (c *Config) BusCredentialsPath() string {
	if path := strings.TrimPrefix(c.BusCredentials, "file:"); path != "" {
		return c.path(path)
	}
	return ""
}

// BusCAPath returns the path of the certificates of NATS, or "".
func (c *Config) BusCAPath() string {
	if c.BusCA == "" {
		return ""
	}
	return c.path(c.BusCA)
}

// path returns a path of the file as one that is not relative to it.
func (c *Config) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir(), path)
}

// TrustedPrefixes returns the networks of the trusted proxies.
func (c *Config) TrustedPrefixes() []netip.Prefix {
	prefixes := make([]netip.Prefix, len(c.TrustedProxies))
	for i, p := range c.TrustedProxies {
		prefixes[i] = p.Prefix
	}
	return prefixes
}
