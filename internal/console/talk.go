package console

import (
	"encoding/base64"
	"html/template"
	"net/url"
	"regexp"
	"strconv"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/content"
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

// talk makes a conversation of the messages of a task, between its agent and its owner.
// Messages none of whose parts are shown are left out.
func talk(messages []a2a.Message, task, who, owner string, shown *shownParts) []said {
	if owner == "" {
		owner = "anonymous"
	}
	list := make([]said, 0, min(len(messages), maxParts))
	for i := range messages {
		m := &messages[i]
		s := said{ID: m.MessageID, User: m.Role == a2a.RoleUser, Who: who, Parts: partsOf(m, task, shown)}
		if s.User {
			s.Who = owner
		}
		if len(s.Parts) > 0 || len(m.Parts) == 0 {
			list = append(list, s)
		}
	}
	return list
}

// partsOf shows the parts of a message of a task; "" for a message that is of none.
func partsOf(m *a2a.Message, task string, shown *shownParts) []template.HTML {
	var parts []template.HTML
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.MediaType == agent.SchemaMediaType {
			continue // it is for the form of the answer
		}
		if shown.next() {
			parts = append(parts, content.Part(p, addressOf(p, task, m.MessageID, i)))
		}
	}
	return parts
}

// maxParts is how many parts of messages, and of artifacts, one page shows.
const maxParts = 200

// shownParts chooses the parts that a page shows: the first ones, or those that follow
// so many.
type shownParts struct {
	path, name string // of the page, and of its parameter that says what it begins with
	from, seen int
}

// shownParts reads with which part a page begins.
func (v *view) shownParts(path, name string) *shownParts {
	from, err := strconv.Atoi(v.query().Get(name))
	if err != nil || from < 0 {
		from = 0
	}
	return &shownParts{path: path, name: name, from: from}
}

// next reports whether the next part is shown.
func (s *shownParts) next() bool {
	s.seen++
	return s.seen > s.from && s.seen <= s.from+maxParts
}

// Before is how many parts there are before those that are shown.
func (s *shownParts) Before() int { return min(s.from, s.seen) }

// After is how many there are after them.
func (s *shownParts) After() int { return max(s.seen-s.from-maxParts, 0) }

// Earlier is where the parts before are.
func (s *shownParts) Earlier() string { return s.at(max(s.from-maxParts, 0)) }

// Later is where the parts after are.
func (s *shownParts) Later() string { return s.at(s.from + maxParts) }

func (s *shownParts) at(from int) string {
	if from == 0 {
		return s.path
	}
	return s.path + "?" + s.name + "=" + strconv.Itoa(from)
}

// leftOut is what the API has in place of the bytes of a part.
var leftOut = regexp.MustCompile(`^\[[0-9]+ bytes that are left out here\]$`)

// addressOf is where the bytes of a part of a message are: small ones within the page,
// others at the API, if the message is one of a task.
func addressOf(p *a2a.Part, task, message string, part int) content.Address {
	if at := inlined(p); at != (content.Address{}) || task == "" || message == "" {
		return at
	}
	isFile := p.Kind == a2a.PartRaw || p.Filename != "" && p.Kind != a2a.PartURL || p.Kind == a2a.PartText && leftOut.MatchString(p.Text)
	if !isFile {
		return content.Address{}
	}
	at := content.Address{Keep: apiPrefix + "/tasks/" + url.PathEscape(task) + "/messages/" + url.PathEscape(message) + "/" + strconv.Itoa(part)}
	if p.Kind == a2a.PartRaw && p.MediaType == content.Sniff(p.Raw) {
		at.Show = at.Keep + "?inline=true"
	}
	return at
}

// maxInlined bounds the files of messages that are within the page, in bytes.
const maxInlined = 256 << 10

// inlined is an address that holds the bytes of a file itself, if it is small.
func inlined(p *a2a.Part) content.Address { return inlinedWithin(p, maxInlined) }

func inlinedWithin(p *a2a.Part, limit int) content.Address {
	if p.Kind != a2a.PartRaw || len(p.Raw) > limit {
		return content.Address{}
	}
	mediaType := content.Sniff(p.Raw)
	if mediaType == "" || mediaType == "application/pdf" {
		return content.Address{Keep: "data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(p.Raw)}
	}
	address := "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(p.Raw)
	return content.Address{Show: address, Keep: address}
}
