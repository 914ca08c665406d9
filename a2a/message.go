package a2a

// Message is one turn of a conversation (A2A §4.1.4).
type Message struct {
	MessageID        string // made by the sender
	ContextID        string
	TaskID           string
	Role             Role
	Parts            []Part
	Metadata         JSON // an object, or nil
	Extensions       []string
	ReferenceTaskIDs []string
}

// Text returns the text of the first text part, or "".
func (m *Message) Text() string {
	for i := range m.Parts {
		if m.Parts[i].Kind == PartText {
			return m.Parts[i].Text
		}
	}
	return ""
}

// Role says who wrote a message (A2A §4.1.5). Its values are those of the
// protocol's enum.
type Role int8

// The roles of a message.
const (
	RoleUnspecified Role = 0
	RoleUser        Role = 1
	RoleAgent       Role = 2
)

// String returns the name of the role as it goes over the wire, such as
// ROLE_USER.
func (r Role) String() string {
	switch r {
	case RoleUser:
		return "ROLE_USER"
	case RoleAgent:
		return "ROLE_AGENT"
	}
	return "ROLE_UNSPECIFIED"
}

// ParseRole returns the role of that wire name, and false for a name that is
// none.
func ParseRole(name string) (Role, bool) {
	switch name {
	case "ROLE_UNSPECIFIED":
		return RoleUnspecified, true
	case "ROLE_USER":
		return RoleUser, true
	case "ROLE_AGENT":
		return RoleAgent, true
	}
	return RoleUnspecified, false
}

// Part is a piece of content (A2A §4.1.6). Kind says which one of Text, Raw,
// URL and Data it holds; the others are unset.
type Part struct {
	Kind      PartKind
	Text      string
	Raw       []byte // base64 on the wire
	URL       string
	Data      JSON   // any JSON value, null included
	MediaType string // such as text/plain; optional for every kind
	Filename  string
	Metadata  JSON // an object, or nil
}

// PartKind is the kind of content that a part holds.
type PartKind uint8

// The kinds of content. A part has exactly one; PartNone marks a part that was
// never filled in and is not valid.
const (
	PartNone PartKind = iota
	PartText
	PartRaw
	PartURL
	PartData
)

// String returns the name of the field that holds this kind of content.
func (k PartKind) String() string {
	switch k {
	case PartText:
		return "text"
	case PartRaw:
		return "raw"
	case PartURL:
		return "url"
	case PartData:
		return "data"
	}
	return "none"
}

// Text returns a text part.
func Text(text string) Part { return Part{Kind: PartText, Text: text} }

// Raw returns a part with the bytes of a file. The media type and the file name
// may be empty.
func Raw(content []byte, mediaType, filename string) Part {
	return Part{Kind: PartRaw, Raw: content, MediaType: mediaType, Filename: filename}
}

// URL returns a part that points to a file.
func URL(url, mediaType, filename string) Part {
	return Part{Kind: PartURL, URL: url, MediaType: mediaType, Filename: filename}
}

// Data returns a part that holds a JSON value. The value must be valid JSON.
func Data(value JSON) Part { return Part{Kind: PartData, Data: value} }
