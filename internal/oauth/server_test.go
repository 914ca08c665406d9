package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"handoff.example/handoff/internal/oauth"
)

// server is an authorization server that keeps what it was asked.
type server struct {
	*httptest.Server
	mu        sync.Mutex
	documents map[string]string // by path, with %s for the URL of the server
	asked     []string          // paths of metadata
	forms     []url.Values
	basic     []string // names and secrets in the headers
	answer    string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{documents: map[string]string{}, answer: `{"access_token":"a","token_type":"Bearer","expires_in":60}`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/token" {
		_ = r.ParseForm()
		id, secret, _ := r.BasicAuth()
		s.forms, s.basic = append(s.forms, r.PostForm), append(s.basic, id+":"+secret)
		fmt.Fprint(w, s.answer)
		return
	}
	s.asked = append(s.asked, r.URL.EscapedPath())
	document, ok := s.documents[r.URL.EscapedPath()]
	switch {
	case !ok:
		http.NotFound(w, r)
	case strings.HasPrefix(document, "-> "):
		http.Redirect(w, r, strings.TrimPrefix(document, "-> "), http.StatusFound)
	case document == "500":
		http.Error(w, "no", http.StatusInternalServerError)
	default:
		fmt.Fprint(w, strings.ReplaceAll(document, "%s", s.URL))
	}
}

func (s *server) client(change func(*oauth.Client)) *oauth.Client {
	c := &oauth.Client{ID: "me", Secret: "a secret", HTTP: s.Client(), Server: oauth.Server{
		Issuer: s.URL, TokenURL: s.URL + "/token", AuthorizationURL: s.URL + "/authorize?kept=1",
	}}
	if change != nil {
		change(c)
	}
	return c
}
