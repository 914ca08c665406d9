package chat

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

//go:embed assets
var assets embed.FS

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// assetPrefix begins the paths of assets. No agent is called so.
const assetPrefix = "_/"

// assetTypes are the media types of assets.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// assetHash names the assets as they are, so that browsers can keep them.
var assetHash = func() string {
	sum := sha256.New()
	err := fs.WalkDir(assets, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := assets.ReadFile(name)
		_, _ = sum.Write(b) // never fails
		return err
	})
	if err != nil {
		panic(err) // they are in the program
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}()

// serveAsset serves a file of the page.
func (h *Handler) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	hash, name, _ := strings.Cut(name, "/")
	body, err := assets.ReadFile(path.Join("assets", path.Base(name)))
	if err != nil || hash != assetHash || path.Base(name) != name {
		h.nothing(w)
		return
	}
	header := w.Header()
	header.Set("Content-Type", assetTypes[path.Ext(name)])
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(body) // when it fails, nobody is there to hear of it
}

// page is what the shell shows.
type page struct {
	Agent, Title, Greeting, Assets string
	Examples                       []string
	Files                          bool
	FileBytes                      int64
	Accept                         string // of files
	JSON                           bool   // the agent takes data
	Streaming, Idempotent, Decides bool
	SignIn, Grant                  string
}

// maxExamples bounds how many messages a page offers to begin with.
const maxExamples = 4

// servePage serves the shell. What is in it is the same for everybody.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, id string, s *Surface) {
	header := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "This page can be read, and nothing else.", http.StatusMethodNotAllowed)
		return
	}
	header.Set("Content-Security-Policy", policy(&s.Config))
	header.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	header.Set("X-Robots-Tag", "noindex")
	if len(s.Config.FrameAncestors) == 0 {
		header.Set("X-Frame-Options", "DENY")
	}
	if s.Config.Anonymous == config.ChatAnonymousCallers || s.Config.Anonymous == config.ChatAnonymousEverywhere {
		h.welcome(w, r, s)
	}
	p := &page{
		Agent: id, Title: cmp.Or(s.Config.Title, s.Name), Greeting: cmp.Or(s.Config.Greeting, s.Description), Assets: assetHash,
		Examples: s.Examples[:min(len(s.Examples), maxExamples)],
		Files:    s.Config.Files, FileBytes: int64(s.Config.FileBytes), Accept: accept(s), JSON: takesJSON(s),
		Streaming: s.Agent.Streaming, Idempotent: s.Idempotent, Decides: s.CallerDecides,
		Grant: a2a.GrantExtension,
	}
	if s.SignIn != "" {
		p.SignIn = ".." + s.SignIn
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		h.refuse(w, r, err)
		return
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(b.Bytes()) // when it fails, nobody is there to hear of it
}

// policy lets a page do what it has to: run our script, talk to us, and show images
// that it has made of bytes.
func policy(c *config.Chat) string {
	ancestors := "'none'"
	if len(c.FrameAncestors) > 0 {
		ancestors = strings.Join(c.FrameAncestors, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob: data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors " + ancestors
}

// accept lists the types of files that the agent takes, for the browser's picker.
func accept(s *Surface) string {
	var types []string
	for _, mode := range inputModes(s) {
		if mode == "*/*" || mode == "*" {
			return ""
		}
		types = append(types, mode)
	}
	return strings.Join(types, ",")
}

func takesJSON(s *Surface) bool {
	for _, mode := range inputModes(s) {
		switch mode {
		case "application/json", "application/*", "*/*", "*":
			return true
		}
	}
	return false
}

func inputModes(s *Surface) []string {
	modes := s.Agent.InputModes
	for i := range s.Agent.Spec.Skills {
		modes = append(modes[:len(modes):len(modes)], s.Agent.Spec.Skills[i].InputModes...)
	}
	return modes
}
