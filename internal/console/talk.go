package console

import (
	"encoding/base64"
	"html/template"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/console/content"
)

// shownBytes bounds each part of a message or an artifact on a page.
const shownBytes = "1048576"

// said is one message of a conversation.
type said struct {
	ID    string
	User  bool   // from whoever asked
	Who   string // wrote it
	Parts []template.HTML
}

// talk makes a conversation of messages between an agent and the owner of its task.
func talk(messages []a2a.Message, who, owner string) []said {
	if owner == "" {
		owner = "anonymous"
	}
	list := make([]said, len(messages))
	for i := range messages {
		m := &messages[i]
		list[i] = said{ID: m.MessageID, User: m.Role == a2a.RoleUser, Who: who, Parts: partsOf(m)}
		if list[i].User {
			list[i].Who = owner
		}
	}
	return list
}

// partsOf shows the parts of a message.
func partsOf(m *a2a.Message) []template.HTML {
	parts := make([]template.HTML, 0, len(m.Parts))
	for i := range m.Parts {
		if m.Parts[i].MediaType == agent.SchemaMediaType {
			continue // it is for the form of the answer
		}
		parts = append(parts, content.Part(&m.Parts[i], inlined(&m.Parts[i])))
	}
	return parts
}

// maxInlined bounds the files of messages that are within the page, in bytes.
const maxInlined = 256 << 10

// inlined is an address that holds the bytes of a file itself. The files of
// messages have no other.
func inlined(p *a2a.Part) content.Address {
	if p.Kind != a2a.PartRaw || len(p.Raw) > maxInlined {
		return content.Address{}
	}
	mediaType := content.Sniff(p.Raw)
	if mediaType == "" || mediaType == "application/pdf" {
		return content.Address{Keep: "data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(p.Raw)}
	}
	address := "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Raw)
	return content.Address{Show: address, Keep: address}
}
