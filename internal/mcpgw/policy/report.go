package policy

import (
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
)

// Question asks what becomes of calls of a tool.
type Question struct {
	Tool   string // as it is called, or as SERVER.TOOL with the name that its server has
	Server string // whose endpoint is called; "": none
	Set    string // whose endpoint is called; "": none
	Caller *auth.Principal
}

// Explanation says what becomes of calls of a tool, and why.
type Explanation struct {
	Server string `json:"server,omitzero"`
	Tool   string `json:"tool"`           // as its server has it
	Name   string `json:"name,omitempty"` // as the caller calls it; "": it cannot
	// Outcome is allowed, approve (a person has to), approve if (for some
	// arguments), denied, hidden, held, left out, or not listed.
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason,omitempty"`
	Scopes  []string `json:"scopes,omitempty"` // that a call needs
	Missing bool     `json:"scopes_missing,omitzero"`
	Steps   []Step   `json:"steps"`
}

// Step is one thing that counts, in the order in which it does.
type Step struct {
	Key    string `json:"key"`    // of the configuration
	Says   string `json:"says"`   // its value, in short
	Effect string `json:"effect"` // what comes of it
}

// ServerReport is what is known of a tool server.
type ServerReport struct {
	Name      string    `json:"name"`
	Tools     int       `json:"tools"`
	Prompts   int       `json:"prompts"`
	Resources int       `json:"resources"`
	Templates int       `json:"resource_templates"`
	Fetched   time.Time `json:"fetched,omitzero"`
	// Failing says that the list could not be fetched the last time.
	Failing bool      `json:"failing"`
	LeftOut []LeftOut `json:"left_out"`
	// State is how the connection is; filled in by who knows.
	State *ServerState `json:"state,omitzero"`
}

// ServerState is how the connection to a server is.
type ServerState struct {
	Transport string          `json:"transport"`
	Era       string          `json:"era,omitempty"`
	Revision  string          `json:"revision,omitempty"`
	Up        bool            `json:"up"`
	Since     time.Time       `json:"since,omitzero"`
	Circuit   string          `json:"circuit"`
	Calls     int64           `json:"calls"`
	Failures  int             `json:"failures"`
	Processes []ServerProcess `json:"processes"`
	Sessions  int             `json:"sessions"`
	LastError string          `json:"error,omitempty"`
	ErrorAt   time.Time       `json:"error_at,omitzero"`
}

// ServerProcess is a process that is a server.
type ServerProcess struct {
	PID     int       `json:"pid"`
	Caller  string    `json:"caller,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Calls   int       `json:"calls"`
}

var (
	// ErrNoEndpoint says that there is no such endpoint, for the caller at least.
	ErrNoEndpoint = errors.New("there is no such endpoint for this caller")
	// ErrNotHeld says that no definition of a tool waits for approval, or another one
	// than the one that is meant.
	ErrNotHeld = errors.New("no such definition waits for approval")
)

// LeftOut is something that a server lists and nobody sees.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// SeenTool is a tool that a caller sees.
type SeenTool struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	Tool        string `json:"tool"` // as its server has it
	Description string `json:"description,omitempty"`
	Outcome     string `json:"outcome"`
	// Definition is what callers are given of the tool; only of one that was asked
	// for by its name.
	Definition jsontext.Value `json:"definition,omitzero"`
}

// Held is a definition that has changed and waits for approval.
type Held struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	Digest string    `json:"digest"`
	Pinned string    `json:"pinned"` // the digest of the one that was approved
	Since  time.Time `json:"since"`
	// Old and New are the definitions; absent where they are large.
	Old jsontext.Value `json:"old,omitzero"`
	New jsontext.Value `json:"new,omitzero"`
	// Item is the id of the item in the inbox.
	Item string `json:"item,omitempty"`
}
