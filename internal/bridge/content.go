package bridge

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/mcp"
)

// resultOf is what a task that is over has come to, as the result of a tool: its
// artifacts as content, their data as structured content, or what its status says
// (TOL-07, TOL-08).
func resultOf(t *a2a.Task) jsontext.Value {
	var blocks, data []jsontext.Value
	for i := range t.Artifacts {
		for j := range t.Artifacts[i].Parts {
			p := &t.Artifacts[i].Parts[j]
			blocks = append(blocks, blockOf(p, t.Artifacts[i].Name, t.Artifacts[i].Description))
			if p.Kind == a2a.PartData {
				data = append(data, jsontext.Value(p.Data))
			}
		}
	}
	failed := t.Status.State == a2a.StateFailed || t.Status.State == a2a.StateRejected
	if m := t.Status.Message; m != nil && (failed || len(blocks) == 0) {
		said := make([]jsontext.Value, 0, len(m.Parts))
		for j := range m.Parts {
			p := &m.Parts[j]
			said = append(said, blockOf(p, "", ""))
			if p.Kind == a2a.PartData && len(t.Artifacts) == 0 {
				data = append(data, jsontext.Value(p.Data))
			}
		}
		blocks = append(said, blocks...) // why it has failed comes first (row 129)
	}
	if len(blocks) == 0 {
		text := "Done."
		if failed {
			text = "The task has failed, and the agent has not said why."
		}
		blocks = append(blocks, textBlock(text))
	}
	out := []member{{"resultType", quoted(mcp.ResultComplete)}, {"content", array(blocks)}}
	switch len(data) {
	case 0:
	case 1:
		out = append(out, member{"structuredContent", data[0]})
	default:
		out = append(out, member{"structuredContent", array(data)})
	}
	if failed {
		out = append(out, member{"isError", jsontext.Value("true")})
	}
	return object(out)
}

func array(list []jsontext.Value) jsontext.Value {
	out := []byte{'['}
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

func textBlock(text string) jsontext.Value {
	return object([]member{{"type", jsontext.Value(`"text"`)}, {"text", quoted(text)}})
}

// blockOf is a part as content.
func blockOf(p *a2a.Part, artifact, description string) jsontext.Value {
	name := p.Filename
	if name == "" {
		name = artifact
	}
	switch p.Kind {
	case a2a.PartText:
		return textBlock(p.Text)
	case a2a.PartData:
		return textBlock(string(p.Data))
	case a2a.PartURL:
		if name == "" {
			name = p.URL
		}
		link := []member{{"type", jsontext.Value(`"resource_link"`)}, {"uri", quoted(p.URL)}, {"name", quoted(name)}}
		if description != "" {
			link = append(link, member{"description", quoted(description)})
		}
		if p.MediaType != "" {
			link = append(link, member{"mimeType", quoted(p.MediaType)})
		}
		return object(link)
	}
	return rawBlock(p, name)
}

// rawBlock is the content of a file: an image, a sound, or a resource that is in
// the answer.
func rawBlock(p *a2a.Part, name string) jsontext.Value {
	content := quoted(base64.StdEncoding.EncodeToString(p.Raw))
	media, _, _ := strings.Cut(p.MediaType, ";")
	for _, kind := range []string{"image", "audio"} {
		if strings.HasPrefix(media, kind+"/") {
			return object([]member{{"type", quoted(kind)}, {"data", content}, {"mimeType", quoted(media)}})
		}
	}
	if name == "" {
		name = "file"
	}
	if media == "" {
		media = "application/octet-stream"
	}
	return object([]member{{"type", jsontext.Value(`"resource"`)}, {"resource", object([]member{
		{"uri", quoted("artifact:///" + strings.ReplaceAll(name, " ", "%20"))}, {"mimeType", quoted(media)}, {"blob", content},
	})}})
}

// partOf is a file that a client sends along.
func partOf(file jsontext.Value) (a2a.Part, bool) {
	name, media := textOf(file, "name"), textOf(file, "mimeType")
	if url := textOf(file, "uri"); url != "" {
		return a2a.URL(url, media, name), true
	}
	content, err := base64.StdEncoding.DecodeString(textOf(file, "data"))
	if err != nil || len(content) == 0 {
		return a2a.Part{}, false
	}
	return a2a.Raw(content, media, name), true
}
