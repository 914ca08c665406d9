package auth

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// ResourcePath is where the metadata of the node as a protected resource is
// (RFC 9728 §3.1); the path of a resource may follow.
const ResourcePath = "/.well-known/oauth-protected-resource"

// Resource describes the node to clients of OAuth 2.0.
type Resource struct {
	Issuers []string // of tokens
	Scopes  []string // that something here asks for
	Name    string   // for people
}

type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"`
}

const resourceAge = 5 * time.Minute

// Serve answers a request below ResourcePath. Base is the URL below which the
// node is reached, without a slash at its end.
func (m *Resource) Serve(w http.ResponseWriter, r *http.Request, base string) {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), ResourcePath)
	if !ok || len(m.Issuers) == 0 || path != "" && path[0] != '/' {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Use GET", http.StatusMethodNotAllowed)
		return
	}
	if scheme, rest, _ := strings.Cut(base, "://"); path != "" {
		// The path of the base stands in that of the request already.
		host, below, _ := strings.Cut(rest, "/")
		if below != "" && strings.HasPrefix(path, "/"+below) {
			base = scheme + "://" + host
		}
	}
	body, err := json.Marshal(resourceMetadata{base + path, m.Issuers, m.Scopes, []string{"header"}, m.Name})
	if err != nil {
		http.NotFound(w, r) // the path is not UTF-8
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(resourceAge/time.Second)))
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

// ResourceURL returns the URL of the metadata of what a request is for. Base is
// that of Serve.
func ResourceURL(base string) string {
	// The path of the base comes after the well-known one (RFC 9728 §3.1).
	scheme, rest, _ := strings.Cut(base, "://")
	host, path, found := strings.Cut(rest, "/")
	if found {
		path = "/" + path
	}
	return scheme + "://" + host + ResourcePath + path
}
