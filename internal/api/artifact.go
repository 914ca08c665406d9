package api

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// harmless are the types that a browser may show by itself: none of them runs
// anything. PDF is shown in a frame that is a sandbox.
var harmless = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "text/plain"}

const (
	maxFilename = 200   // bytes
	maxHistory  = 1_000 // messages of a task that are looked at
)

// artifactPart returns the bytes of a part of an artifact. Whatever they are, a
// browser does not take them for a page of the node.
func (c *call) artifactPart() (any, error) {
	q := c.query("inline")
	inline := q.flag("inline")
	if err := q.err(); err != nil {
		return nil, err
	}
	row, err := c.taskRow(c.r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	record, err := c.h.opts.Engine.Record(c.context(), c.reach(), row.ID, store.Want{Artifacts: true})
	if err != nil {
		return nil, err
	}
	artifact := c.r.PathValue("artifact")
	i := slices.IndexFunc(record.Task.Artifacts, func(a a2a.Artifact) bool { return a.ArtifactID == artifact })
	if i < 0 {
		return nil, a2a.Errorf(a2a.CodeTaskNotFound, "The task has no artifact %q; GET /tasks/%s shows those it has", clip(artifact, 100), row.ID)
	}
	return nil, c.sendPart(record.Task.Artifacts[i].Parts, "artifact", artifact, inline)
}

// messagePart returns the bytes of a part of a message of a task, as artifactPart does
// of an artifact.
func (c *call) messagePart() (any, error) {
	q := c.query("inline")
	inline := q.flag("inline")
	if err := q.err(); err != nil {
		return nil, err
	}
	record, err := c.h.opts.Engine.Record(c.context(), c.reach(), c.r.PathValue("id"), store.Want{Messages: maxHistory})
	if err != nil {
		return nil, err
	}
	id := c.r.PathValue("message")
	messages := record.Task.History
	if m := record.Task.Status.Message; m != nil {
		messages = append(slices.Clip(messages), *m)
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].MessageID == id {
			return nil, c.sendPart(messages[i].Parts, "message", id, inline)
		}
	}
	return nil, a2a.Errorf(a2a.CodeTaskNotFound, "The task has no message %q among its newest; GET /tasks/%s shows those it has", clip(id, 100), record.Task.ID)
}

// sendPart answers with the bytes of the part that the path names.
func (c *call) sendPart(parts []a2a.Part, kind, of string, inline bool) error {
	part := c.r.PathValue("part")
	n, err := strconv.Atoi(part)
	if err != nil || n < 0 || n >= len(parts) {
		return a2a.Errorf(a2a.CodeTaskNotFound, "The %s has no part %q; it has %d, counted from 0", kind, clip(part, 20), len(parts))
	}
	p := &parts[n]
	body, mediaType := []byte(nil), ""
	switch p.Kind {
	case a2a.PartRaw:
		body, mediaType = p.Raw, "application/octet-stream"
	case a2a.PartText:
		body, mediaType = []byte(p.Text), "text/plain; charset=utf-8"
	case a2a.PartData:
		body, mediaType = p.Data, "application/json"
	default:
		return a2a.Errorf(a2a.CodeUnsupportedOperation, "The part is a reference to %s; it is not fetched here, open it yourself if you trust it", clip(bareURL(p.URL), 500))
	}
	if own := cleanType(p.MediaType); own != "" && (p.Kind != a2a.PartText || strings.HasPrefix(own, "text/")) {
		mediaType = own
		if p.Kind == a2a.PartText {
			mediaType += "; charset=utf-8"
		}
	}
	bare, _, _ := strings.Cut(mediaType, ";")
	header := c.w.Header()
	disposition := "attachment"
	if inline && slices.Contains(harmless, bare) {
		disposition = "inline"
	}
	name := p.Filename
	if name == "" {
		name = of + "-" + part
	}
	header.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": cleanFilename(name)}))
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.send(http.StatusOK, mediaType, body)
	return nil
}

// cleanType returns a media type without its parameters, "" for what is none.
func cleanType(text string) string {
	mediaType, _, err := mime.ParseMediaType(text)
	if err != nil || !strings.Contains(mediaType, "/") || len(mediaType) > 100 {
		return ""
	}
	return mediaType
}

// cleanFilename returns a name for a file: no path, and nothing that a shell or a
// screen could take for something else.
func cleanFilename(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '_'
		}
		return r
	}, name)
	if name = strings.Trim(clip(name, maxFilename), ". "); name == "" {
		return "part"
	}
	return name
}
