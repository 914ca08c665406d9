// Package bridge joins the two protocols. Calls of tools that have to outlast their
// request are tasks of the engine, agents and peers are tools of an MCP server, and
// tools are skills of an agent.
package bridge

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/mcp"
	"handoff.example/handoff/internal/upstream"
)

// AgentPrefix begins the ids of the agents that call the tools of a server:
// mcp:SERVER.
const AgentPrefix = "mcp:"

// Call is a call of a tool that is kept as a task.
type Call struct {
	Endpoint string // where it came in, for the record
	Server   string // as it is configured
	Tool     string // as the server has it
	Exposed  string // as the client has called it
	Caller   *auth.Principal
	Request  *upstream.Request // a modern tools/call
	// Capabilities are those of the client.
	Capabilities mcp.Capabilities
	// Key is the idempotency key; "": none.
	Key string
	// Approve says why a person has to approve the call; "": nobody has to.
	Approve string
	// Idempotent says that the call may be made again when nobody knows what has
	// become of it.
	Idempotent bool
	TTL        time.Duration // for which the client is told that the task is kept; 0: the default
	// UpstreamTask is the id of the task that the server has made already, which
	// is followed; "": the call is still to be made.
	UpstreamTask string
}

// keptCall is a call as it is kept with its task. It never changes, and nobody is
// shown it.
type keptCall struct {
	Endpoint string      `json:"endpoint,omitempty"`
	Server   string      `json:"server"`
	Tool     string      `json:"tool"`
	Exposed  string      `json:"exposed,omitempty"`
	Tenant   string      `json:"tenant,omitempty"`
	Issuer   string      `json:"issuer,omitempty"`
	Subject  string      `json:"subject,omitempty"`
	Scopes   []string    `json:"scopes,omitempty"`
	Role     auth.Role   `json:"role,omitempty"`
	Body     []byte      `json:"body"` // of the request, byte by byte
	Header   http.Header `json:"header,omitempty"`
	Timeout  int64       `json:"timeout,omitzero"` // ms
	Key      string      `json:"key,omitempty"`
	Approve  string      `json:"approve,omitempty"`
	Again    bool        `json:"again,omitempty"` // it may be made again
	TTL      int64       `json:"ttl,omitzero"`    // ms
	Task     string      `json:"task,omitempty"`  // of the server, from the beginning
}

func keptOf(c *Call) *keptCall {
	k := &keptCall{
		Endpoint: c.Endpoint, Server: c.Server, Tool: c.Tool, Exposed: c.Exposed,
		Tenant: c.Caller.Tenant, Issuer: c.Caller.Issuer, Subject: c.Caller.Subject, Scopes: c.Caller.Scopes, Role: c.Caller.Role,
		Body: c.Request.Message.Body, Header: c.Request.Header, Timeout: c.Request.Timeout.Milliseconds(),
		Key: c.Key, Approve: c.Approve, Again: c.Idempotent, TTL: c.TTL.Milliseconds(), Task: c.UpstreamTask,
	}
	if k.Exposed == "" {
		k.Exposed = k.Tool
	}
	return k
}

func (k *keptCall) encode() (a2a.JSON, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode call: %w", err)
	}
	return text, nil
}

func decodeKept(text a2a.JSON) (*keptCall, error) {
	k := &keptCall{}
	if text == nil {
		return nil, errors.New("decode call: there is none")
	}
	if err := json.Unmarshal(text, k); err != nil {
		return nil, fmt.Errorf("decode call: %w", err)
	}
	return k, nil
}

// principal is for whom the call is made.
func (k *keptCall) principal() *auth.Principal {
	return &auth.Principal{Tenant: k.Tenant, Issuer: k.Issuer, Subject: k.Subject, Scopes: k.Scopes, Role: k.Role}
}

// ttl is how long the client was told that the task is kept; 0: nothing.
func (k *keptCall) ttl() time.Duration { return time.Duration(k.TTL) * time.Millisecond }

// mayRepeat reports whether the call may be made again when nobody knows what has
// become of it: the tool does not mind. A key alone does not say so: it is the
// gateway's, and the server may not know it.
func (k *keptCall) mayRepeat() bool { return k.Again }

// message returns the request. A server that knows keys is told it.
func (k *keptCall) message(task string) (*mcp.Message, error) {
	m, err := mcp.Scan(k.Body, mcp.Limits{})
	if err != nil {
		return nil, fmt.Errorf("read call: %w", err)
	}
	// Progress is for the status of the task, whatever token the client had.
	m = m.WithMeta(mcp.MetaProgress, quoted(task))
	if k.Key != "" {
		m = m.WithMeta(mcp.MetaKey, quoted(k.Key))
	}
	return m, nil
}

// What can be asked of the client that has made a call is the first letter of its
// handle, so that nobody is asked in a way that he has not declared (MRT-01).
const (
	asksNothing = 'n'
	asksForms   = 'f'
	asksURLs    = 'u'
	asksBoth    = 'b'
)

// newHandle returns the id of a new task, with at least 128 bits of randomness
// (TSK-18). The task is kept under it, so that whoever has it finds the task.
func newHandle(c mcp.Capabilities) string {
	letter := asksNothing
	switch {
	case c.ElicitForm && c.ElicitURL:
		letter = asksBoth
	case c.ElicitForm:
		letter = asksForms
	case c.ElicitURL:
		letter = asksURLs
	}
	return string(letter) + rand.Text()
}

// asks returns what may be asked of the client of a task. Tasks that were not made
// here belong to clients of whom nothing is known; a form is the least.
func asks(handle string) mcp.Capabilities {
	if len(handle) != 1+len(rand.Text()) {
		return mcp.Capabilities{ElicitForm: true}
	}
	return mcp.Capabilities{
		ElicitForm: handle[0] == asksForms || handle[0] == asksBoth,
		ElicitURL:  handle[0] == asksURLs || handle[0] == asksBoth,
	}
}

// keyOf is the idempotency key under which a call is claimed: a key belongs to a
// tool. Each try after one that came to nothing has a key of its own (GWY-03).
// Anonymous callers have one owner; those at different addresses do not share keys.
func (k *keptCall) keyOf(p *auth.Principal, try int) string {
	from := ""
	if p.Anonymous() && !p.Local {
		from = p.Address
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%s", k.Tool, k.Key, try, from))
	return hex.EncodeToString(sum[:])
}

// digest tells the arguments of calls apart, however their JSON is written.
func digest(arguments jsontext.Value) string {
	text := arguments.Clone()
	if text == nil {
		text = jsontext.Value(`{}`)
	}
	if err := text.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		text = arguments
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// describe is the call as people see it: what is called, and with which arguments.
func (k *keptCall) describe(arguments jsontext.Value) []a2a.Part {
	text := a2a.Text("Call of the tool " + k.Tool + " of " + k.Server)
	shown := a2a.Data(a2a.JSON(masked(arguments)))
	shown.MediaType = "application/json"
	return []a2a.Part{text, shown}
}

// question is what a person is asked who has to approve the call (ELI-06).
func (k *keptCall) question(arguments jsontext.Value) agent.Content {
	who := k.Subject
	if who == "" {
		who = "an anonymous caller"
	}
	text := fmt.Sprintf("May %s call the tool %s of %s? %s", who, k.Tool, k.Server, k.Approve)
	c := agent.Content{Parts: append([]a2a.Part{a2a.Text(strings.TrimSpace(text) + "\nArguments: " + short(string(masked(arguments)), maxShown))}, k.describe(arguments)[1])}
	return c
}

// maxShown bounds the arguments that a question quotes, in bytes.
const maxShown = 4 << 10

func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// secretWords are in the names of arguments that are not shown.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "authorization", "credential", "private_key", "privatekey"}

// masked returns JSON without the values of members whose names say that they are
// secret, and without what looks like a key or a token.
func masked(value jsontext.Value) jsontext.Value {
	if value == nil {
		return jsontext.Value(`{}`)
	}
	var out bytes.Buffer
	d, e := jsontext.NewDecoder(bytes.NewReader(value)), jsontext.NewEncoder(&out)
	for {
		kind := d.PeekKind()
		if _, n := d.StackIndex(d.StackDepth()); n%2 == 1 && kind != '}' && isSecret(d) {
			if d.SkipValue() != nil || e.WriteToken(jsontext.String("•••")) != nil {
				return jsontext.Value(`"•••"`)
			}
			continue
		}
		token, err := d.ReadToken()
		if err != nil { // io.EOF: that was all
			break
		}
		if token.Kind() == '"' {
			if text := token.String(); auth.Redact(text) != text {
				token = jsontext.String(auth.Redact(text))
			}
		}
		if e.WriteToken(token) != nil {
			return jsontext.Value(`"•••"`)
		}
	}
	text := bytes.TrimSpace(out.Bytes())
	if len(text) == 0 || !jsontext.Value(text).IsValid() {
		return jsontext.Value(`"•••"`)
	}
	return text
}

// isSecret reports whether the value that comes next belongs to such a name.
func isSecret(d *jsontext.Decoder) bool {
	if kind, _ := d.StackIndex(d.StackDepth()); kind != '{' {
		return false
	}
	pointer := d.StackPointer()
	name := strings.ToLower(pointer.LastToken())
	for _, word := range secretWords {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func quoted(text string) jsontext.Value {
	text = strings.ToValidUTF8(text, "\uFFFD")
	out, _ := jsontext.AppendQuote(nil, text)
	return out
}

// cameToNothing reports whether a call may be made anew under its key: it was
// refused, by a person or by the server. Of one that may have been made, the key
// gives what is known of it again.
func (k *keptCall) cameToNothing(t *mcp.Task) bool {
	if t.Status != mcp.TaskFailed && t.Status != mcp.TaskCancelled {
		return false
	}
	if k.mayRepeat() {
		return true
	}
	if t.Status == mcp.TaskCancelled {
		return false
	}
	switch mcp.ParseError(t.Error).Code {
	case mcp.CodeOutcomeUnknown, mcp.CodeTimeout, mcp.CodeBadAnswer:
		return false
	}
	return true
}
