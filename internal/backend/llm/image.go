package llm

import (
	"encoding/base64"
	"net/http"
	"slices"

	"github.com/openai/openai-go/v3"

	"handoff.example/handoff/a2a"
)

// Bounds of the images that a model is given with one request. The newest ones count.
const (
	maxImages     = 20
	maxImageBytes = 20 << 20 // of all of them
)

// imageSize is about how many bytes of text an image counts for.
const imageSize = 4000

// image is one of a message of the task, which has its bytes.
type image struct {
	Message string `json:"message"`
	Part    int    `json:"part"`
}

// imageType returns the media type of an image that models take, by what it is; "" for
// other files.
func imageType(p *a2a.Part) string {
	if p.Kind != a2a.PartRaw {
		return ""
	}
	switch t := http.DetectContentType(p.Raw); t {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return t
	}
	return ""
}

// imagesOf are the images of a message of the task.
func imagesOf(m *a2a.Message) (list []image) {
	for i := range m.Parts {
		if imageType(&m.Parts[i]) != "" {
			list = append(list, image{m.MessageID, i})
		}
	}
	return list
}

// see notes the images of a message that has come: for the model, if it takes any, or
// for the task to say that they were not shown.
func (w *work) see(m *a2a.Message) []image {
	list := imagesOf(m)
	if !w.conf.Vision {
		w.unseen += len(list)
		return nil
	}
	return list
}

// shownImages returns the newest images of the conversation as data URLs, as far as the
// task still has them and as many as a request may have.
func (w *work) shownImages() (map[image]string, error) {
	var wanted []image
	for i := range w.state.Conversation {
		wanted = append(wanted, w.state.Conversation[i].Images...)
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	history, err := w.turn.History()
	if err != nil {
		return nil, err
	}
	messages := map[string]*a2a.Message{}
	for _, list := range [][]a2a.Message{history, w.turn.Messages} {
		for i := range list {
			messages[list[i].MessageID] = &list[i]
		}
	}
	shown, left := map[image]string{}, maxImageBytes
	for _, at := range slices.Backward(wanted) {
		m := messages[at.Message]
		if m == nil || at.Part < 0 || at.Part >= len(m.Parts) {
			continue
		}
		p := &m.Parts[at.Part]
		t := imageType(p)
		if t == "" {
			continue
		}
		if left -= len(p.Raw); left < 0 || len(shown) == maxImages {
			break
		}
		shown[at] = "data:" + t + ";base64," + base64.StdEncoding.EncodeToString(p.Raw)
	}
	return shown, nil
}

// userParam is a message of the user as the API has it, with those of its images that
// are shown.
func (m *message) userParam(shown map[image]string) openai.ChatCompletionMessageParamUnion {
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, at := range m.Images {
		if address := shown[at]; address != "" {
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: address}))
		}
	}
	if parts == nil {
		return openai.UserMessage(m.Text)
	}
	return openai.UserMessage(append([]openai.ChatCompletionContentPartUnionParam{openai.TextContentPart(m.Text)}, parts...))
}
