package push_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

func now() time.Time { return time.Now() }

type (
	configuration = a2a.TaskPushNotificationConfig
	getQuery      = a2a.GetTaskPushNotificationConfigRequest
	listQuery     = a2a.ListTaskPushNotificationConfigsRequest
	deleteQuery   = a2a.DeleteTaskPushNotificationConfigRequest
)

func TestOperations(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := newNode(t, nil)
	n.task("t")
	made, err := n.push.Create(ctx, ann, "echo", &configuration{
		TaskID: "t", Tenant: "acme", URL: "https://hooks.example/a?b=c", Token: "tok-secret",
		Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "cred-secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &configuration{
		Tenant: "acme", TaskID: "t", ID: made.ID, URL: "https://hooks.example/a?b=c", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer"},
	}
	if diff := cmp.Diff(want, made); diff != "" || made.ID == "" {
		t.Errorf("made %q\n%s", made.ID, diff)
	}
	read, err := n.push.Get(ctx, ann, "echo", &getQuery{Tenant: "acme", TaskID: "t", ID: made.ID})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"b", "a", "c"} {
		if _, err := n.push.Create(ctx, ann, "echo", &configuration{TaskID: "t", ID: id, URL: "https://hooks.example/" + id}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	q := &listQuery{TaskID: "t", PageSize: 1}
	for {
		page, err := n.push.List(ctx, ann, "echo", q)
		if err != nil || len(page.Configs) > 1 {
			t.Fatal(page, err)
		}
		for _, c := range page.Configs {
			if c.ID != made.ID {
				ids = append(ids, c.ID)
			}
		}
		if q.PageToken = page.NextPageToken; q.PageToken == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, ids); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if err := n.push.Delete(ctx, ann, "echo", &deleteQuery{TaskID: "t", ID: "a"}); err != nil {
			t.Error(err)
		}
	}
	if _, err := n.push.Get(ctx, ann, "echo", &getQuery{TaskID: "t", ID: "a"}); a2a.CodeOf(err) != a2a.CodeTaskNotFound {
		t.Errorf("a webhook that was deleted: %v", err)
	}
	if _, err := n.push.List(ctx, ann, "echo", &listQuery{TaskID: "t", PageToken: "x"}); a2a.CodeOf(err) != a2a.CodeInvalidParams {
		t.Errorf("a token of nobody's: %v", err)
	}
}

// Row S1 of the reference: another's task answers as one that is not there.
func TestAnothersTaskIsNotThere(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := newNode(t, nil)
	n.task("t")
	n.hook("t", "h", "https://hooks.example/x")
	for name, call := range map[string]func(scope store.Scope, agent, task string) error{
		"create": func(scope store.Scope, agent, task string) error {
			_, err := n.push.Create(ctx, scope, agent, &configuration{TaskID: task, ID: "h", URL: "https://other.example/"})
			return err
		},
		"get": func(scope store.Scope, agent, task string) error {
			_, err := n.push.Get(ctx, scope, agent, &getQuery{TaskID: task, ID: "h"})
			return err
		},
		"list": func(scope store.Scope, agent, task string) error {
			_, err := n.push.List(ctx, scope, agent, &listQuery{TaskID: task})
			return err
		},
		"delete": func(scope store.Scope, agent, task string) error {
			return n.push.Delete(ctx, scope, agent, &deleteQuery{TaskID: task, ID: "h"})
		},
	} {
		unknown := call(bob, "echo", "none")
		for _, err := range []error{call(bob, "echo", "t"), call(ann, "other", "t"), call(store.Scope{}, "echo", "t")} {
			if err == nil || err.Error() != unknown.Error() || a2a.CodeOf(err) != a2a.CodeTaskNotFound {
				t.Errorf("%s: %v, and for an unknown task %v", name, err, unknown)
			}
		}
	}
	if c, err := n.push.Get(ctx, ann, "echo", &getQuery{TaskID: "t", ID: "h"}); err != nil || c.URL != "https://hooks.example/x" {
		t.Errorf("ann's webhook is %v, %v", c, err)
	}
}

func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	n.task("t")
	c := &configuration{
		TaskID: "t", ID: "h", URL: "https://hooks.example:8443/path-secret?key=query-secret", Token: "tok-secret",
		Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "cred-secret"},
	}
	if _, err := n.push.Create(t.Context(), ann, "echo", c); err != nil {
		t.Fatal(err)
	}
	hook, err := n.store.Webhook(t.Context(), store.ForAll(), "t", "h")
	if err != nil || len(hook.Secrets) == 0 || bytes.Contains(hook.Secrets, []byte("secret")) || hook.URL != "https://hooks.example:8443" {
		t.Errorf("kept as %q and %q, %v", hook.URL, hook.Secrets, err)
	}
	if shown, err := n.push.Get(t.Context(), ann, "echo", &getQuery{TaskID: "t", ID: "h"}); err != nil || shown.URL != c.URL {
		t.Errorf("its owner sees %+v, %v", shown, err)
	}
	for _, url := range []string{"https://hooks.example", "https://hooks.example/", "https://hooks.example?key=secret", "https://hooks.example/secret/"} {
		made, err := n.push.Create(t.Context(), ann, "echo", &configuration{TaskID: "t", ID: "other", URL: url})
		if err != nil || made.URL != url {
			t.Fatalf("%s: %+v, %v", url, made, err)
		}
		hook, err := n.store.Webhook(t.Context(), store.ForAll(), "t", "other")
		if err != nil || strings.Contains(hook.URL, "secret") {
			t.Errorf("%s is kept as %q, %v", url, hook.URL, err)
		}
		if page, err := n.push.List(t.Context(), ann, "echo", &listQuery{TaskID: "t"}); err != nil || page.Configs[1].URL != url {
			t.Errorf("the list has %+v, %v", page, err)
		}
	}
	keyless := newNode(t, func(o *push.Options) { o.Sealer = nil })
	keyless.task("t")
	if _, err := keyless.push.Create(t.Context(), ann, "echo", c); a2a.CodeOf(err) != a2a.CodeUnsupportedOperation || !strings.Contains(err.Error(), "secret_key") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := keyless.push.Create(t.Context(), ann, "echo", &configuration{TaskID: "t", URL: "https://hooks.example/"}); err != nil {
		t.Errorf("a webhook without secrets, without a key: %v", err)
	}
}

func TestWhatAHeaderOrAPathCannotHaveIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t, nil)
	for field, c := range map[string]*configuration{
		"x.id":                                   {ID: "a/b"},
		"x.token":                                {Token: "a\r\nX: y"},
		"x.authentication.scheme":                {Authentication: &a2a.AuthenticationInfo{Scheme: "Bea rer"}},
		"x.authentication.credentials":           {Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "é"}},
		"x.authentication.credentials: is empty": {Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer"}},
	} {
		c.URL = "https://hooks.example/"
		if _, err := n.push.Prepare(c, "", "x."); a2a.CodeOf(err) != a2a.CodeInvalidParams || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Row 87 of the reference.
func TestRow87_ManyCallersOfOneTask(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := newNode(t, func(o *push.Options) { o.Limits.PerTask = 100 })
	n.task("t")
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			id := fmt.Sprint("h", i)
			if _, err := n.push.Create(ctx, ann, "echo", &configuration{TaskID: "t", ID: id, URL: "https://hooks.example/"}); err != nil {
				t.Error(err)
			}
			if _, err := n.push.List(ctx, ann, "echo", &listQuery{TaskID: "t"}); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := n.push.Delete(ctx, ann, "echo", &deleteQuery{TaskID: "t", ID: id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	page, err := n.push.List(ctx, ann, "echo", &listQuery{TaskID: "t"})
	row, rerr := n.store.Task(ctx, ann, "t")
	if err != nil || rerr != nil || len(page.Configs) != 32 || row.Webhooks != 32 {
		t.Errorf("%d are listed, %d are counted, %v, %v", len(page.Configs), row.Webhooks, err, rerr)
	}
}

func TestLimitOfATask(t *testing.T) {
	t.Parallel()
	n := newNode(t, func(o *push.Options) { o.Limits.PerTask = 2 })
	n.task("t")
	n.hook("t", "a", "https://hooks.example/")
	n.hook("t", "b", "https://hooks.example/")
	_, err := n.push.Create(t.Context(), ann, "echo", &configuration{TaskID: "t", URL: "https://hooks.example/"})
	if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Code != a2a.CodeResourceExhausted || e.Metadata[a2a.MetadataLimit] != "webhooks" {
		t.Errorf("one too many: %v", err)
	}
	n.hook("t", "b", "https://other.example/") // replaces
}

// A node that finds a store without the key that sealed its secrets says so.
func TestALostKey(t *testing.T) {
	t.Parallel()
	s := file(t, filepath.Join(t.TempDir(), "tasks.db"))
	n := deliverFrom(t, s, nil)
	row := n.task("t")
	r := receive(t, nil)
	if _, err := n.push.Create(t.Context(), ann, "echo", &configuration{TaskID: "t", ID: "h", URL: r.URL, Token: "x"}); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n = deliverFrom(t, s, func(o *push.Options) { o.Sealer, o.Limits.Retry = nil, time.Nanosecond })
	n.happen(row, 1)
	idle(t, s)
	letters, err := n.push.Dead(t.Context(), store.ForAll(), nil, 1)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Error, "secret_key") {
		t.Errorf("%+v, %v", letters, err)
	}
	if len(r.requests) != 0 {
		t.Error("the event was sent without its token")
	}
}

func FuzzPrepare(f *testing.F) {
	for _, form := range forms {
		f.Add(strings.ReplaceAll(form, "%s", "80"), "id", "tok", "Bearer", "cred")
	}
	f.Add("https://hooks.example/", "", "", "", "")
	f.Fuzz(func(t *testing.T, url, id, token, scheme, credentials string) {
		n := fuzzed(t)
		c := &configuration{URL: url, ID: id, Token: token, Authentication: &a2a.AuthenticationInfo{Scheme: scheme, Credentials: credentials}}
		if (&configuration{TaskID: "t", URL: url, ID: id, Token: token, Authentication: c.Authentication}).Validate() != nil {
			return
		}
		hook, err := n.Prepare(c, "", "")
		if err != nil {
			if code := a2a.CodeOf(err); code != a2a.CodeInvalidParams {
				t.Errorf("%v", err)
			}
			return
		}
		if !strings.HasPrefix(strings.ToLower(hook.URL), "https://") || hook.ID == "" || strings.ContainsAny(hook.ID, "/ \r\n") ||
			strings.Contains(hook.URL, "@127.") || strings.Contains(strings.ToLower(hook.URL), "://localhost") {
			t.Errorf("taken: %+v", hook)
		}
	})
}
