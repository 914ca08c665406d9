package console

import (
	"encoding/base64"
	"html/template"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/content"
)

// maxToolFile bounds the files of a result that are within the page, in bytes: they
// are nowhere else.
const maxToolFile = 4 << 20

// toolContent is an item of what a tool has answered (MCP server/tools §Tool Result).
type toolContent struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Data        string `json:"data"` // in base64
	MediaType   string `json:"mimeType"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Resource    *struct {
		URI       string  `json:"uri"`
		MediaType string  `json:"mimeType"`
		Text      *string `json:"text"`
		Blob      string  `json:"blob"` // in base64
	} `json:"resource"`
}

// readResult is the result of a tool as people read it.
type readResult struct {
	Failed     bool
	Parts      []template.HTML
	More       int // parts that are not shown
	Structured jsontext.Value
}

// Read returns the result as people read it, nil for what is none as MCP has it.
func (r *toolResult) Read() *readResult {
	var result struct {
		Content    []jsontext.Value `json:"content"`
		Structured jsontext.Value   `json:"structuredContent"`
		IsError    bool             `json:"isError"`
	}
	if json.Unmarshal(r.Result, &result) != nil || len(result.Content) == 0 && len(result.Structured) == 0 {
		return nil
	}
	read := &readResult{Failed: result.IsError, Structured: result.Structured}
	for i, item := range result.Content {
		if i == maxParts {
			read.More = len(result.Content) - maxParts
			break
		}
		p := partOfTool(item)
		read.Parts = append(read.Parts, content.Part(p, inlinedWithin(p, maxToolFile)))
	}
	return read
}

// partOfTool makes an item a part, so that it is shown as those of artifacts are. What
// is not understood is shown as it came.
func partOfTool(item jsontext.Value) *a2a.Part {
	asItIs := &a2a.Part{Kind: a2a.PartData, Data: a2a.JSON(item)}
	var c toolContent
	if json.Unmarshal(item, &c) != nil {
		return asItIs
	}
	switch {
	case c.Type == "text":
		p := a2a.Text(c.Text)
		return &p
	case c.Type == "image" || c.Type == "audio":
		return fileOfTool(c.Data, c.MediaType, "", asItIs)
	case c.Type == "resource_link":
		name := c.Title
		if name == "" {
			name = c.Name
		}
		return &a2a.Part{Kind: a2a.PartURL, URL: c.URI, MediaType: c.MediaType, Filename: name}
	case c.Type == "resource" && c.Resource != nil && c.Resource.Text != nil:
		return &a2a.Part{Kind: a2a.PartText, Text: *c.Resource.Text, MediaType: c.Resource.MediaType, Filename: c.Resource.URI}
	case c.Type == "resource" && c.Resource != nil:
		return fileOfTool(c.Resource.Blob, c.Resource.MediaType, c.Resource.URI, asItIs)
	}
	return asItIs
}

func fileOfTool(encoded, mediaType, name string, otherwise *a2a.Part) *a2a.Part {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) == 0 {
		return otherwise
	}
	return &a2a.Part{Kind: a2a.PartRaw, Raw: b, MediaType: mediaType, Filename: name}
}
