package api_test

import (
	"cmp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"handoff.example/handoff/internal/store"
)

func TestNodesSayWhatDiffersFromThisOne(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	join := func(name string, alive bool, digest map[string]string) {
		n.peers = append(n.peers, store.Node{
			Epoch: int64(len(n.peers) + 2), Name: name, Version: "v2", URL: "http://" + name, Digest: digest,
			Started: time.Now(), Expires: time.Now().Add(10 * time.Second), Alive: alive,
		})
	}
	join("same", true, map[string]string{"lease": "10s"})
	join("other", true, map[string]string{"lease": "1h", "agent desk": "0123"})
	join("dead", false, map[string]string{"lease": "20s"})
	type peer struct {
		Epoch         int64
		Name, Version string
		URL           string
		Started, Seen time.Time
		Alive, This   bool
		Differences   []string
	}
	var list struct{ Nodes []peer }
	n.call("GET", "/nodes", "operator//op", "").want(200).decode(&list)
	for i, p := range list.Nodes {
		lease := map[string]time.Duration{"other": time.Hour, "dead": 20 * time.Second}[p.Name]
		if seen := time.Until(p.Seen.Add(cmp.Or(lease, 10*time.Second))); p.Started.IsZero() || seen < 0 || seen > 10*time.Second {
			t.Errorf("%s was started at %v and seen at %v", p.Name, p.Started, p.Seen)
		}
		list.Nodes[i].Started, list.Nodes[i].Seen = time.Time{}, time.Time{}
	}
	want := []peer{
		{Epoch: 1, Name: "test/1", Version: "v0", Alive: true, This: true, Differences: []string{}},
		{Epoch: 2, Name: "same", Version: "v2", URL: "http://same", Alive: true, Differences: []string{}},
		{Epoch: 3, Name: "other", Version: "v2", URL: "http://other", Alive: true, Differences: []string{"agent desk is only there", "lease has another configuration there"}},
		{Epoch: 4, Name: "dead", Version: "v2", URL: "http://dead", Differences: []string{}},
	}
	if diff := gocmp.Diff(want, list.Nodes); diff != "" {
		t.Error(diff)
	}
	n.call("GET", "/nodes?x=1", "operator//op", "").failure(400)
	n.call("GET", "/nodes", "operator/acme/op", "").failure(403)
}
