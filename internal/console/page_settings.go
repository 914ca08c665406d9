package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"handoff.example/handoff/internal/auth"
)

var settingsPages = []page{
	{path: "/settings", nav: "settings", title: "Settings", role: auth.RoleViewer, get: showSettings},
	{path: "/settings/configuration", nav: "settings", title: "Configuration", role: auth.RoleOperator, node: true, get: showConfiguration, post: reloadConfiguration},
	{path: "/settings/keys", nav: "settings", title: "API keys", role: auth.RoleAdmin, node: true, get: showKeys, post: changeKeys},
}

// settingsTab is one of the pages of the settings.
type settingsTab struct {
	Path, Name string
	Current    bool
}

func settingsTabs(v *view) []settingsTab {
	tabs := []settingsTab{{Path: "/console/settings", Name: "You and the node"}}
	if v.mayNode(auth.RoleOperator) {
		tabs = append(tabs, settingsTab{Path: "/console/settings/configuration", Name: "Configuration"})
	}
	if v.mayNode(auth.RoleAdmin) {
		tabs = append(tabs, settingsTab{Path: "/console/settings/keys", Name: "API keys"})
	}
	for i := range tabs {
		tabs[i].Current = tabs[i].Path == v.r.URL.Path
	}
	return tabs
}

// nodeStatus is what GET /status says.
type nodeStatus struct {
	Version    string    `json:"version"`
	Started    time.Time `json:"started"`
	Draining   bool      `json:"draining"`
	Agents     int       `json:"agents"`
	Store      string    `json:"store"`
	StoreBytes int64     `json:"store_bytes"`
	StoreError string    `json:"store_error"`
	Bus        *struct {
		Kind      string `json:"kind"`
		Server    string `json:"server"`
		Connected bool   `json:"connected"`
	} `json:"bus"`
	Seals *struct {
		Old     int      `json:"old"`
		Unknown int      `json:"unknown"`
		Waiting []string `json:"waiting"`
		Spare   bool     `json:"spare"`
	} `json:"seals"`
}

// neighbor is a node of the store.
type neighbor struct {
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	URL         string    `json:"url"`
	Started     time.Time `json:"started"`
	Seen        time.Time `json:"seen"`
	Alive       bool      `json:"alive"`
	This        bool      `json:"this"`
	Differences []string  `json:"differences"`
}

type settingsPage struct {
	Tabs []settingsTab
	Me   struct {
		Subject string `json:"subject"`
		Tenant  string `json:"tenant"`
		Issuer  string `json:"issuer"`
		Role    string `json:"role"`
		Key     string `json:"key"`
		Sees    string `json:"sees"`
	}
	How    string
	Began  time.Time
	Ends   time.Time
	Status *nodeStatus
	Nodes  []neighbor
}

func showSettings(v *view) error {
	d := settingsPage{Tabs: settingsTabs(v)}
	if err := v.get("/me", &d.Me); err != nil {
		return err
	}
	d.How = map[string]string{auth.ByKey: "with an API key", auth.ByOIDC: "at an issuer of accounts", auth.ByLink: "by a link of the node"}[v.Principal.Session]
	if d.How == "" {
		d.How = "by what the browser sends with each request"
	} else if s, err := v.c.opts.Sessions.Find(v.r.Context(), v.c.opts.Browser.SessionID(v.r)); err == nil {
		d.Began, d.Ends = s.Begun, s.Ends
	}
	if v.mayNode(auth.RoleOperator) {
		d.Status = &nodeStatus{}
		var answer struct {
			Nodes []neighbor `json:"nodes"`
		}
		if err := errors.Join(v.get("/status", d.Status), v.get("/nodes", &answer)); err != nil {
			return err
		}
		d.Nodes = answer.Nodes
	}
	return v.render("settings", &d)
}

// configValue is a value of the configuration.
type configValue struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// configGroup is what the configuration has below one key.
type configGroup struct {
	Name   string
	Values []configValue
}

type configurationPage struct {
	Tabs    []settingsTab
	File    string        `json:"file"`
	Values  []configValue `json:"values"`
	Groups  []configGroup
	Search  string
	All     bool // and not only what is not the default
	Shown   int
	Problem *apiError // of a reload
}

func showConfiguration(v *view) error { return v.configuration(nil) }

func (v *view) configuration(problem *apiError) error {
	d := configurationPage{Tabs: settingsTabs(v), Search: strings.TrimSpace(v.query().Get("q")), All: v.query().Has("all"), Problem: problem}
	if err := v.get("/config", &d); err != nil {
		return err
	}
	d.group()
	return v.render("configuration", &d)
}

// group gathers the values that are shown by their first key.
func (d *configurationPage) group() {
	search := strings.ToLower(d.Search)
	for _, value := range d.Values {
		set := value.Origin != "default"
		if !set && !d.All && search == "" || search != "" && !strings.Contains(strings.ToLower(value.Path+" "+value.Value), search) {
			continue
		}
		if line, ok := strings.CutPrefix(value.Origin, d.File+":"); ok && d.File != "" {
			value.Origin = "line " + line
		}
		name := value.Path[:strings.IndexAny(value.Path+".", ".[")]
		if n := len(d.Groups); n == 0 || d.Groups[n-1].Name != name {
			d.Groups = append(d.Groups, configGroup{Name: name})
		}
		g := &d.Groups[len(d.Groups)-1]
		g.Values = append(g.Values, value)
		d.Shown++
	}
}

func reloadConfiguration(v *view) error {
	if v.form.Get("action") != "reload" {
		return errNoAction()
	}
	var answer struct {
		Changes []struct {
			Path string `json:"path"`
		} `json:"changes"`
	}
	err := v.post("/reload", nil, &answer)
	if e, ok := errors.AsType[*apiError](err); ok && e.Status < 500 && e.Status != http.StatusForbidden {
		v.status = http.StatusUnprocessableEntity
		return v.configuration(e)
	}
	if err != nil {
		return err
	}
	text := "The configuration was read again; nothing has changed."
	if n := len(answer.Changes); n > 0 {
		paths := make([]string, 0, n)
		for _, c := range answer.Changes {
			paths = append(paths, c.Path)
		}
		text = "The configuration was read again. In effect now: " + strings.Join(paths, ", ")
	}
	return v.redirect("/console/settings/configuration", text)
}

// apiKey is an API key without what is secret.
type apiKey struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Tenant  string    `json:"tenant"`
	Role    string    `json:"role"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created"`
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked"`
	Used    time.Time `json:"used"`
}

// State says whether the key can be used.
func (k *apiKey) State() string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !time.Now().Before(k.Expires):
		return "expired"
	}
	return "good"
}

type keysPage struct {
	Tabs     []settingsTab
	Accepted bool // the node accepts keys
	Keys     []apiKey
	Old      []apiKey // that are revoked or expired
	Made     *madeKey
	Roles    []string
	Form     url.Values
	Problem  string
}

// madeKey is a key that was made just now. It is shown once.
type madeKey struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
	Role    string `json:"role"`
	Key     string `json:"key"`
}

func showKeys(v *view) error {
	return v.keys(&keysPage{Form: url.Values{"role": {"caller"}, "life": {"2160h"}}})
}

func (v *view) keys(d *keysPage) error {
	var answer struct {
		Keys []apiKey `json:"keys"`
	}
	if err := v.get("/keys", &answer); err != nil {
		return err
	}
	for _, k := range answer.Keys {
		if k.State() == "good" {
			d.Keys = append(d.Keys, k)
		} else {
			d.Old = append(d.Old, k)
		}
	}
	d.Tabs, d.Accepted = settingsTabs(v), v.c.opts.Config().Callers.Keys
	d.Roles = roleNames[1:]
	return v.render("keys", d)
}

func changeKeys(v *view) error {
	switch v.form.Get("action") {
	case "revoke":
		id := v.form.Get("id")
		if err := v.delete("/keys/" + url.PathEscape(id)); err != nil {
			return v.refuse("/console/settings/keys", err)
		}
		return v.redirect("/console/settings/keys", "The key "+id+" is revoked. Sessions that began with it have ended.")
	case "create":
		return v.createKey()
	}
	return errNoAction()
}

// createKey makes a key and shows it, the only time.
func (v *view) createKey() error {
	body := map[string]any{
		"subject": strings.TrimSpace(v.form.Get("subject")), "tenant": strings.TrimSpace(v.form.Get("tenant")), "role": v.form.Get("role"),
	}
	if scopes := strings.Fields(v.form.Get("scopes")); len(scopes) > 0 {
		body["scopes"] = scopes
	}
	if life, err := time.ParseDuration(v.form.Get("life")); err == nil && life > 0 {
		body["expires"] = time.Now().Add(life).UTC().Truncate(time.Second)
	}
	d := &keysPage{Form: v.form, Made: &madeKey{}}
	err := v.post("/keys", body, d.Made)
	if e, ok := errors.AsType[*apiError](err); ok && e.Status < 500 && e.Status != http.StatusForbidden {
		d.Made, d.Problem = nil, e.Message
		v.status = http.StatusUnprocessableEntity
		return v.keys(d)
	}
	if err != nil {
		return err
	}
	d.Form = url.Values{"role": {"caller"}, "life": {"2160h"}}
	return v.keys(d)
}
