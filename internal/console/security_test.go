package console_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// inline is what the Content-Security-Policy does not let a page do.
var inline = regexp.MustCompile(`(?i)<style|<script(?:\s[^>]*)?>[^<]|\sstyle\s*=|\son[a-z]+\s*=|javascript:|<base|<iframe[^>]*srcdoc`)

// TestEveryAnswerHasThePolicy looks at pages, errors, redirects and files alike.
func TestEveryAnswerHasThePolicy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.admin.send("quote", "ask")
	css := regexp.MustCompile(`/console/assets/[0-9a-f]+/console\.css`).FindString(f.admin.get("/console/").ok().body)
	if got := f.nobody().get(css).ok(); got.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || !strings.HasPrefix(got.header.Get("Content-Type"), "text/css") {
		t.Errorf("a file has Cache-Control %q and Content-Type %q", got.header.Get("Cache-Control"), got.header.Get("Content-Type"))
	}
	if got := f.nobody().get("/console/assets/0000/console.css").ok(); got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a file of another version has Cache-Control %q", got.header.Get("Cache-Control"))
	}
	pages := []string{
		"/console/", "/console/inbox", "/console/tasks", "/console/tasks/" + task.ID, "/console/tasks/nothing", "/console/delegations", "/console/agents", "/console/agents/quote",
		"/console/tools", "/console/webhooks", "/console/audit", "/console/settings", "/console/settings/configuration?all", "/console/settings/keys",
		"/console/nothing", "/console/login", css, "/console/assets/x/nothing", "/console",
	}
	for _, path := range pages {
		for _, p := range []*person{f.admin, f.nobody()} {
			got := p.get(path)
			policy := got.header.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s: the policy %q has no %q", path, policy, part)
				}
			}
			if strings.Contains(policy, "unsafe") || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Referrer-Policy") == "" {
				t.Errorf("%s: headers %v", path, got.header)
			}
			if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
				if found := inline.FindString(got.body); found != "" {
					t.Errorf("%s has %q", path, found)
				}
				if outside := regexp.MustCompile(`(?:src|action)="(?:https?:)?//`).FindString(got.main()); outside != "" && got.status == http.StatusOK {
					t.Errorf("%s has %q", path, outside)
				}
			}
		}
	}
}

// TestTemplatesHaveNothingInline looks at what no test may have shown.
func TestTemplatesHaveNothingInline(t *testing.T) {
	t.Parallel()
	templates, err := filepath.Glob("templates/*.html")
	if err != nil || len(templates) < 8 {
		t.Fatalf("%d templates, %v", len(templates), err)
	}
	for _, file := range templates {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := inline.FindString(string(content)); found != "" {
			t.Errorf("%s has %q", file, found)
		}
	}
}

func TestWhatPagesDoNotTake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS"} {
		if got := f.admin.do(method, "/console/settings", "text/plain", ""); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("%s: status %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	if got := f.admin.post("/console/settings", nil); got.status != http.StatusMethodNotAllowed {
		t.Errorf("a page without forms: status %d", got.status)
	}
	if got := f.admin.do("POST", "/console/settings/keys", "application/x-www-form-urlencoded", "x="+strings.Repeat("y", 2<<20)); got.status != http.StatusBadRequest {
		t.Errorf("a form that is too large: status %d", got.status)
	}
	if got := f.admin.post("/console/settings/keys", nil); got.status != http.StatusBadRequest {
		t.Errorf("a form that says nothing: status %d", got.status)
	}
	if got := f.admin.do("HEAD", "/console/", "", ""); got.status != http.StatusOK || got.body != "" {
		t.Errorf("HEAD: status %d", got.status)
	}
}

// A name of somebody else is text, on every page that shows it.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	const name = `<img src=x onerror=alert(1)>"'`
	f := newFixture(t, "console: {title: '<b>x</b>'}")
	p := f.as("operator", name, "")
	p.get("/console/settings").ok().lacks("<img src=x", "<b>x</b>").has("&lt;img src=x onerror=alert(1)&gt;")
	f.admin.get("/console/settings/keys").ok().lacks("<img src=x")
	f.admin.get("/console/settings/configuration?q=%3Cscript%3E").ok().lacks("<script>").says("No value is like that.")
	// A flash is text too, whoever has set the cookie.
	f.nobody().get("/console/", "Cookie", f.sessionCookie()+"="+f.admin.session()+"; handoff_flash=CjxpbWcgc3JjPXg-").ok().lacks("<img src=x").has("&lt;img src=x&gt;")
}
