package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"time"
)

//go:embed templates/*.html assets/*
var files embed.FS

// assets are the files that pages load. All have the hash of them together in
// their path, so that a browser may keep them for good.
type assets struct {
	hash  string
	files map[string][]byte
}

func loadAssets() (*assets, error) {
	entries, err := files.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("list assets: %w", err)
	}
	a := &assets{files: map[string][]byte{}}
	sum := sha256.New()
	for _, e := range entries {
		content, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read asset: %w", err)
		}
		a.files[e.Name()] = content
		_, _ = fmt.Fprintf(sum, "%s\x00%d\x00", e.Name(), len(content))
		_, _ = sum.Write(content)
	}
	a.hash = hex.EncodeToString(sum.Sum(nil))[:16]
	return a, nil
}

// mediaTypes are those of the files that there are, on any machine.
var mediaTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
}

// ServeHTTP serves a file. One of another version is served too, for a page that
// was loaded before the node was replaced, but not to be kept.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, ok := a.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.PathValue("hash") == a.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	mediaType := mediaTypes[path.Ext(name)]
	if mediaType == "" {
		mediaType = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", mediaType)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
