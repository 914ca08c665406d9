package chat

import (
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/content"
)

// Bounds of the texts that one request makes HTML of.
const (
	maxMarkdownTexts = 50
	maxMarkdownBytes = 256 << 10 // of all of them
)

// markdown makes texts of the agent that are Markdown HTML, as the console shows them:
// HTML in them is text, and links lead to the web alone. What is no Markdown has none.
func (h *Handler) markdown(r *http.Request, _ *Surface, _ *auth.Principal) (any, error) {
	if r.Method != http.MethodPost {
		return nil, a2a.Errorf(a2a.CodeUnsupportedOperation, "Texts are sent with POST, and nothing else")
	}
	var q struct {
		Texts []string `json:"texts"`
	}
	if err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, textBytes), &q); err != nil {
		return nil, a2a.Errorf(a2a.CodeInvalidRequest, "The body is not {\"texts\": [...]}")
	}
	size := 0
	for _, text := range q.Texts {
		size += len(text)
	}
	if len(q.Texts) > maxMarkdownTexts || size > maxMarkdownBytes {
		return nil, a2a.Errorf(a2a.CodeTooLarge, "At most %d texts of %d bytes together are formatted at once", maxMarkdownTexts, maxMarkdownBytes)
	}
	v := struct {
		HTML []string `json:"html"`
	}{make([]string, len(q.Texts))}
	for i, text := range q.Texts {
		if content.IsMarkdown(text) {
			v.HTML[i] = fmt.Sprint(content.FormatMarkdown(text))
		}
	}
	return v, nil
}
