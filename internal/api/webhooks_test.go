package api_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestWebhooksOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	for _, id := range []string{"a", "b", "c"} {
		n.letter(id)
	}
	type body struct {
		Webhooks []struct {
			ID, Task, URL, Target, State, Error string
			Waiting                             int64
		}
		NextPageToken string `json:"next_page_token"`
	}
	list := func(caller, query string) (ids []string) {
		t.Helper()
		for token := ""; ; {
			var page body
			n.call("GET", "/webhooks?page_size=2&"+query+"&page_token="+url.QueryEscape(token), caller, "").want(http.StatusOK).decode(&page)
			for _, h := range page.Webhooks {
				_, id, _ := strings.Cut(h.ID, "/")
				ids = append(ids, id)
				if h.State != "dead" || h.Error != "HTTP status 400" || h.Waiting == 0 || h.URL != "https://hooks.example/very-secret" || h.Target != "https://hooks.example" {
					t.Errorf("%+v", h)
				}
				told := string(n.call("GET", "/tasks/"+h.Task+"/timeline", "viewer/acme/alice", "").want(http.StatusOK).body)
				if !strings.Contains(told, "https://hooks.example") || strings.Contains(told, "secret") {
					t.Errorf("the timeline tells %s", told)
				}
			}
			if token = page.NextPageToken; token == "" {
				return ids
			}
		}
	}
	for _, test := range []struct {
		caller, query string
		want          []string
	}{
		{"operator//op", "", []string{"c", "b", "a"}},
		{"operator//op", "state=dead", []string{"a", "b", "c"}},
		{"operator//op", "state=retrying", nil},
		{"operator//op", "state=idle", nil},
		{"operator/acme/op", "", []string{"c", "b", "a"}},
		{"operator/other/op", "", nil},
		{"operator//op", "task=nothing", nil},
	} {
		if got := list(test.caller, test.query); !slices.Equal(got, test.want) {
			t.Errorf("%s with %s: %v, want %v", test.caller, test.query, got, test.want)
		}
	}
	n.call("GET", "/webhooks?state=tired", "operator//op", "").failure(http.StatusBadRequest)
	n.call("GET", "/webhooks?page_token=x", "operator//op", "").failure(http.StatusBadRequest)
	n.call("GET", "/webhooks", "caller//alice", "").failure(http.StatusForbidden)
}
