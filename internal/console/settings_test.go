package console_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/settings").ok().says("Signed in as local admin", "Sees everything on this node", "This node", "Store sqlite:tasks.db", "Nodes of the store", "this one", "Alive")
	f.as("viewer", "vera", "").get("/console/settings").ok().says("Sees your own tasks").lacks("This node", "Nodes of the store")
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	page := f.admin.get("/console/settings/configuration").ok()
	page.says("agents.quote.name Quote agent line ", "secret_key ***").lacks("0123456789abcdef", "limits.body<")
	f.admin.get("/console/settings/configuration?all").ok().says("limits.body 16MiB default")
	f.admin.get("/console/settings/configuration?q=LIMITS.BODY").ok().says("limits.body 16MiB default").lacks("agents.quote.name")

	change := func(text string) *shown {
		t.Helper()
		if err := os.WriteFile(f.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f.admin.post("/console/settings/configuration", url.Values{"action": {"reload"}})
	}
	if got := change(configuration + "\nlog: {levl: debug}"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a wrong file: status %d", got.status)
	} else {
		got.says("The configuration was not reloaded", "log.levl", "line ")
	}
	if got := change(strings.Replace(configuration, "tasks.db", "other.db", 1)); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another store: status %d", got.status)
	} else {
		got.says("store can only be changed by a restart")
	}
	change(configuration).leadsTo("/console/settings/configuration")
	f.admin.get("/console/settings/configuration").ok().says("nothing has changed")
	f.admin.get("/console/settings/configuration").ok().lacks("nothing has changed") // it is said once
	change(configuration + "\nlog: {level: warn}\n")
	f.admin.get("/console/settings/configuration").ok().says("In effect now: log.level", "log.level warn")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.admin.get("/console/settings/keys").ok().says("There are no keys in use.")
	form := url.Values{"action": {"create"}, "subject": {"erp"}, "role": {"caller"}, "tenant": {"acme"}, "scopes": {"quotes  orders"}, "life": {"720h"}}
	made := f.admin.post("/console/settings/keys", form).ok()
	made.says("The key of erp", "it is shown this once", "caller quotes orders", "acme")
	key := regexp.MustCompile(`hk_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}`).FindString(made.body)
	id, _, _ := strings.Cut(strings.TrimPrefix(key, "hk_"), "_")
	f.admin.get("/console/settings/keys").ok().lacks(key).has(`value="` + id + `"`)
	p := f.nobody()
	p.post("/console/login", url.Values{"key": {key}}).leadsTo("/console/")
	form.Set("tenant", "Not One")
	if got := f.admin.post("/console/settings/keys", form); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a tenant that is none: status %d", got.status)
	} else {
		got.says("The key cannot be made").has(`value="Not One"`)
	}
	f.admin.follow("/console/settings/keys", url.Values{"action": {"revoke"}, "id": {id}}).ok().says("The key "+id+" is revoked", "1 key not in use any more", "Revoked")
	f.admin.follow("/console/settings/keys", url.Values{"action": {"revoke"}, "id": {"nothing"}}).ok().says("There is no such API key")
}
