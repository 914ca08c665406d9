package config

import (
	"fmt"
	"strings"

	"handoff.example/handoff/internal/netguard"
)

// Chat is the page on which people talk to an agent, at {public_url}/chat/{id}.
type Chat struct {
	// Whether there is the page.
	Enabled bool `yaml:"enabled" default:"false"`

	// What stands above the conversation. Without it that is the agent's name.
	Title string `yaml:"title"`

	// What the page says first. Without it that is the agent's description.
	Greeting string `yaml:"greeting"`

	// The origins whose pages may show this one in a frame, such as https://www.example.com. Without any, no page may.
	FrameAncestors []string `yaml:"frame_ancestors"`

	// Which visitors need no credential: off is none, callers are those from where callers.anonymous takes callers without one, everywhere is everybody who reaches the page. Each has the tasks of its own browser.
	Anonymous ChatAnonymous `yaml:"anonymous" default:"off" enum:"off,callers,everywhere"`

	// Whether files can be sent.
	Files bool `yaml:"files" default:"true"`

	// The bytes of the files of one message. limits.body bounds it too: a file takes a third more there.
	FileBytes Size `yaml:"file_bytes" default:"8MiB" min:"1KiB" max:"64MiB"`

	// The messages that a visitor without a credential may send in a minute.
	VisitorRate int `yaml:"visitor_rate" default:"20" min:"1" max:"10000"`

	// The messages that all visitors without a credential from one address may send in a minute, of IPv6 from one network of 64 bits.
	AddressRate int `yaml:"address_rate" default:"60" min:"1" max:"100000"`
}

// ChatAnonymous says which visitors of a page need no credential.
type ChatAnonymous string

// Which visitors of a page need no credential.
const (
	ChatAnonymousOff        ChatAnonymous = "off"
	ChatAnonymousCallers    ChatAnonymous = "callers"
	ChatAnonymousEverywhere ChatAnonymous = "everywhere"
)

// Bounds of what a page says, in bytes.
const (
	maxChatTitle    = 200
	maxChatGreeting = 4 << 10
	maxAncestors    = 50
)

// chat checks the page of an agent.
func (v *validator) chat(path string, a *Agent) {
	c := &a.Chat
	if len(c.Title) > maxChatTitle {
		v.problem(path+".title", "", "is longer than %d bytes", maxChatTitle)
	}
	if len(c.Greeting) > maxChatGreeting {
		v.problem(path+".greeting", "", "is longer than %d bytes", maxChatGreeting)
	}
	if len(c.FrameAncestors) > maxAncestors {
		v.problem(path+".frame_ancestors", "", "has more than %d origins", maxAncestors)
	}
	for i, origin := range c.FrameAncestors {
		if message := originProblem(origin); message != "" {
			v.problem(fmt.Sprintf("%s.frame_ancestors[%d]", path, i), "write it like https://www.example.com", "%s", message)
		}
	}
	if !c.Enabled {
		return
	}
	switch {
	case c.Anonymous == ChatAnonymousCallers && v.config.Callers.Anonymous == AnonymousOff:
		v.problem(path+".anonymous", "write everywhere to let visitors in on the page alone", "lets in whom callers.anonymous lets in, which is nobody")
	case c.Anonymous != ChatAnonymousOff && c.Anonymous != "" && (len(a.Callers.Scopes) > 0 || a.Callers.Role != "" && a.Callers.Role != RoleCaller):
		v.problem(path+".anonymous", "", "lets in visitors who have neither the role nor the scopes that callers of the agent need")
	case c.Anonymous == ChatAnonymousOff && !v.config.Callers.Credentials():
		v.warn(path, "set anonymous, or let callers authenticate (callers.keys: true, say)", "lets nobody in: visitors need a credential, and the node takes none")
	}
	if body := v.config.Limits.Body; body > 0 && c.Files && c.FileBytes/3*4 > body && v.config.source != nil && v.config.source.has(path+".file_bytes") {
		v.warn(path+".file_bytes", "", "is more than limits.body takes: files are a third larger in a request")
	}
}

// originProblem says what is wrong with an origin (RFC 6454 §6.2) that stands in a
// header of every page, "" for nothing.
func originProblem(origin string) string {
	u, message := webURL(origin)
	switch {
	case message != "":
		return message
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || strings.HasSuffix(origin, "#"):
		return "is more than an origin: scheme, host and port"
	case strings.ContainsAny(origin, "*;,'"):
		return "has characters that an origin cannot have"
	case u.Scheme == "http" && !netguard.IsLoopback(u.Hostname()):
		return "is not https"
	}
	return ""
}
