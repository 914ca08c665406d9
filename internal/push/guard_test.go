package push_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/push"
	"handoff.example/handoff/internal/store"
)

// canary counts who reaches it. Nobody may.
func canary(t *testing.T, address string) (port string, hits *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	hits = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, hits
}

// forms are spellings of what a webhook may not reach; %s is a port.
var forms = []string{
	"http://127.0.0.1:%s", "http://127.1:%s", "http://127.0.1:%s", "http://127.8.9.10:%s", "http://0.0.0.0:%s", "http://0:%s",
	"http://[::1]:%s", "http://[::]:%s", "http://[::ffff:127.0.0.1]:%s", "http://[::ffff:7f00:1]:%s", "http://[::127.0.0.1]:%s",
	"http://[64:ff9b::7f00:1]:%s", "http://[2002:7f00:1::]:%s", "http://[fe80::1]:%s", "http://[fe80::1%%25lo]:%s", "http://[fd00::1]:%s",
	"http://2130706433:%s", "http://0x7f000001:%s", "http://0x7f.1:%s", "http://0177.0.0.1:%s", "http://017700000001:%s", "http://127.0.0.1.:%s",
	"http://localhost:%s", "http://localhost.:%s", "http://LOCALHOST:%s", "http://x.localhost:%s", "http://ip6-localhost:%s",
	"http://169.254.169.254:%s/latest/meta-data/", "http://10.0.0.1:%s", "http://172.16.0.1:%s", "http://192.168.0.1:%s", "http://100.64.0.1:%s",
	"http://100.100.100.200:%s", "http://168.63.129.16:%s", "http://224.0.0.1:%s", "http://255.255.255.255:%s", "http://198.18.0.1:%s",
	"http://user:pw@127.0.0.1:%s", "http://example.com@127.0.0.1:%s", "http://user:pw@example.com:%s", "http://127.0.0.1:%s#@example.com",
	"http://①②⑦.⓪.⓪.①:%s", "http://127。0。0。1:%s", "http://１２７.０.０.１:%s", "http:\\\\127.0.0.1:%s", "http://127.0.0.1%%00.example.com:%s",
	"http:127.0.0.1:%s", "http:///127.0.0.1:%s", "//127.0.0.1:%s", "http://127.0.0.1\t:%s", " http://127.0.0.1:%s",
	"file:///etc/passwd?%s", "gopher://127.0.0.1:%s/_x", "ftp://127.0.0.1:%s", "unix:///run/handoff.sock?%s", "data:text/plain,%s", "javascript:alert(%s)",
	"http://rebind.example:%s", "http://private.example:%s", "http://mapped.example:%s", "http://meta.example:%s",
}

// liar resolves names to what they should not be. rebind is public when it is
// asked first, and this machine from then on.
type liar struct{ asked atomic.Int64 }

func (l *liar) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr := map[string]string{"private.example": "10.0.0.1", "mapped.example": "::ffff:127.0.0.1", "meta.example": "169.254.169.254"}[strings.TrimSuffix(host, ".")]
	switch {
	case addr != "":
	case host == "rebind.example" && l.asked.Add(1) == 1:
		addr = "192.0.2.1" // a public one could be reached from here
	default:
		addr = "127.0.0.1"
	}
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

// Row S6 of the reference. Each form is refused when the webhook is made or else
// never dialled; and never dialled when it is in the store all the same.
func TestRowS6AndS7_NoWebhookReachesACanary(t *testing.T) {
	t.Parallel()
	port, hits := canary(t, "127.0.0.1:0")
	port6, hits6 := canary(t, "[::1]:0")
	n := newNode(t, func(o *push.Options) {
		o.Guard, o.AllowHTTP = netguard.New(netguard.Policy{Resolver: &liar{}}), true
		o.Limits.Refusals = 2
		o.Limits.Retry = 1 // no more than one try, whatever the reason
	})
	refused := 0
	for i, form := range forms {
		for _, scheme := range []string{"http", "https"} {
			for _, p := range []string{port, port6} {
				url := strings.Replace(fmt.Sprintf(form, p), "http:", scheme+":", 1)
				id := fmt.Sprintf("t%d-%s-%s", i, scheme, p)
				row := n.task(id)
				_, err := n.push.Create(t.Context(), ann, "echo", &a2a.TaskPushNotificationConfig{TaskID: id, URL: url})
				if err != nil {
					refused++
					if a2a.CodeOf(err) != a2a.CodeInvalidParams || !strings.Contains(err.Error(), "url") {
						t.Errorf("%s: %v", url, err)
					}
				}
				planted := &store.Webhook{ID: "planted", URL: url}
				c := &store.Change{Task: row.Key, Webhook: planted, Events: []store.Event{event(i)}}
				if err := n.store.Commit(t.Context(), c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for {
		n.jobs.Due(now())
		if next, err := n.store.NextJob(t.Context()); err != nil || next.IsZero() {
			break
		}
	}
	if hits.Load() != 0 || hits6.Load() != 0 {
		t.Errorf("the canaries were reached %d and %d times", hits.Load(), hits6.Load())
	}
	if refused < len(forms)*3 {
		t.Errorf("only %d forms were refused at once", refused)
	}
}

func TestRowS7_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	port, hits := canary(t, "127.0.0.1:0")
	n := newNode(t, nil)
	row := n.task("t")
	r := receive(t, func(w http.ResponseWriter, _ got) {
		w.Header().Set("Location", "http://127.0.0.1:"+port+"/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	n.hook("t", "h", r.URL)
	n.happen(row, 1)
	idle(t, n.store)
	if hits.Load() != 0 {
		t.Errorf("the canary was reached %d times", hits.Load())
	}
}

// https is what a webhook needs, unless the operator says otherwise.
func TestPlainHTTPNeedsLeave(t *testing.T) {
	t.Parallel()
	var listed netguard.Destination
	if err := listed.UnmarshalText([]byte("hooks.corp.example")); err != nil {
		t.Fatal(err)
	}
	strict := newNode(t, func(o *push.Options) {
		o.Guard = netguard.New(netguard.Policy{Allow: []netguard.Destination{listed}})
	})
	lax := newNode(t, func(o *push.Options) { o.Guard, o.AllowHTTP = netguard.New(netguard.Policy{}), true })
	for url, taken := range map[string][2]bool{
		"https://hooks.example/x":     {true, true},
		"http://hooks.example/x":      {false, true},
		"http://hooks.corp.example/x": {true, true},
		"https://10.0.0.1/x":          {false, false},
		"https://127。0。0。1/":          {false, false},
		"https://１２７.0.0.1/":          {false, false},
		"https://127.0.0.1./":         {false, false},
		"https://127.0.0.1。/":         {false, false},
		"https://hooks.example/x#y":   {false, false},
	} {
		for i, n := range []*node{strict, lax} {
			_, err := n.push.Prepare(&a2a.TaskPushNotificationConfig{URL: url}, "", "a.b.")
			if (err == nil) != taken[i] {
				t.Errorf("%s: %v", url, err)
			}
			if err != nil && !strings.Contains(err.Error(), "a.b.url") {
				t.Errorf("%s: the error does not name the field: %v", url, err)
			}
		}
	}
}
