package llm

import (
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
	"handoff.example/handoff/internal/bridge"
	"handoff.example/handoff/internal/mcp"
)

// textOf is what the model is given of parts: texts and data as they are, text files
// with their names, and of others that they are there.
func textOf(parts []a2a.Part) string { return wordsOf(parts, false) }

// wordsOf is textOf for a model that is shown images or is not.
func wordsOf(parts []a2a.Part, images bool) string {
	texts := make([]string, 0, len(parts))
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case a2a.PartText:
			texts = append(texts, p.Text)
		case a2a.PartData:
			texts = append(texts, string(p.Data))
		case a2a.PartURL:
			texts = append(texts, fmt.Sprintf("[File %s at %s]", named(p.Filename, p.MediaType), p.URL))
		default:
			if images && imageType(p) != "" {
				texts = append(texts, fmt.Sprintf("[Image %s]", named(p.Filename, p.MediaType)))
				continue
			}
			if media, _, err := mime.ParseMediaType(p.MediaType); err == nil && isText(media) && utf8.Valid(p.Raw) {
				texts = append(texts, fmt.Sprintf("[File %s]\n%s", named(p.Filename, p.MediaType), p.Raw))
				continue
			}
			texts = append(texts, fmt.Sprintf("[File %s of %d bytes, which cannot be read here]", named(p.Filename, p.MediaType), len(p.Raw)))
		}
	}
	return strings.ToValidUTF8(strings.Join(texts, "\n"), "\uFFFD")
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || media == "application/json" || media == "application/xml" || media == "application/yaml"
}

func named(name, media string) string {
	switch {
	case name == "":
		name = "without a name"
	default:
		name = clean(name, 200)
	}
	if media != "" {
		name += " (" + clean(media, 100) + ")"
	}
	return name
}

// resultText is what the model is given of the result of a tool, and in a word what
// has come of the call.
func resultText(r *bridge.Result) (text, outcome string) {
	if r.Error != nil {
		e := mcp.ParseError(r.Error)
		switch e.Code {
		case mcp.CodeOutcomeUnknown, mcp.CodeTimeout:
			return "Outcome unknown: the call may have been made, or may not have been. " + e.Message, "unknown"
		case mcp.CodeBadAnswer:
			return "Outcome unknown: the tool has answered with something that is not understood. " + e.Message, "unknown"
		case mcp.CodeDenied, mcp.CodeRateLimited, mcp.CodeBudget, mcp.CodeKeyRequired:
			return "The call was refused: " + e.Message, "refused"
		}
		return "The call has failed: " + e.Message, "error"
	}
	var result struct {
		Content    []block        `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
		Failed     bool           `json:"isError"`
	}
	if err := json.Unmarshal(r.Result, &result); err != nil {
		return "Outcome unknown: the tool has answered with something that is not understood.", "unknown"
	}
	var texts []string
	for i := range result.Content {
		texts = append(texts, result.Content[i].text())
	}
	text = strings.Join(texts, "\n")
	if result.Structured != nil && !sameJSON(text, result.Structured) {
		if text != "" {
			text += "\n"
		}
		text += string(result.Structured)
	}
	outcome = "ok"
	if result.Failed {
		text, outcome = "The tool reports an error: "+text, "error"
	}
	if text == "" {
		text = "Done. The tool has returned nothing."
	}
	return text, outcome
}

// block is a block of content of a tool.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	MIME     string `json:"mimeType"`
	Data     string `json:"data"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType"`
		Text string `json:"text"`
		Blob string `json:"blob"`
	} `json:"resource"`
}

func (b *block) text() string {
	switch {
	case b.Type == "text":
		return b.Text
	case b.Type == "resource_link":
		return fmt.Sprintf("[File %s at %s]", named(b.Name, b.MIME), b.URI)
	case b.Type == "resource" && b.Resource.Text != "":
		return fmt.Sprintf("[File %s]\n%s", named(b.Resource.URI, b.Resource.MIME), b.Resource.Text)
	case b.Type == "resource":
		return fmt.Sprintf("[File %s of about %d bytes, which cannot be read here]", named(b.Resource.URI, b.Resource.MIME), len(b.Resource.Blob)*3/4)
	}
	return fmt.Sprintf("[Content %s of about %d bytes, which cannot be read here]", named(b.Type, b.MIME), len(b.Data)*3/4)
}

// sameJSON reports whether a text is a value once more.
func sameJSON(text string, value jsontext.Value) bool {
	one, other := jsontext.Value(text), value.Clone()
	return one.Canonicalize() == nil && other.Canonicalize() == nil && string(one) == string(other)
}

// outcomeText is what the model is given of a task that it has handed on.
func outcomeText(o *agent.Outcome) string {
	said := ""
	if o.Task != nil && o.Task.Status.Message != nil {
		said = textOf(o.Task.Status.Message.Parts)
	}
	var b strings.Builder
	switch o.State {
	case a2a.StateCompleted:
		b.WriteString("The agent has completed the work.")
	case a2a.StateRejected:
		b.WriteString("The agent has refused the work.")
	case a2a.StateCanceled:
		b.WriteString("The work was canceled.")
	default:
		b.WriteString("The work has failed.")
	}
	if said != "" {
		b.WriteString("\n" + said)
	}
	if o.Task != nil {
		for i := range o.Task.Artifacts {
			a := &o.Task.Artifacts[i]
			name := a.Name
			if name == "" {
				name = a.ArtifactID
			}
			b.WriteString("\n[" + clean(name, 200) + "]\n" + textOf(a.Parts))
		}
	}
	return b.String()
}
