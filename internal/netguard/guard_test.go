package netguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/internal/netguard"
)

// canary is a listener that nobody is to reach. It counts connections.
type canary struct {
	*httptest.Server
	connections atomic.Int64
	requests    atomic.Int64
}

func newCanary(t *testing.T, handler http.HandlerFunc) *canary {
	t.Helper()
	c := &canary{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		if handler != nil {
			handler(w, r)
		}
	}))
	c.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.connections.Add(1)
		}
	}
	c.Start()
	t.Cleanup(c.Close)
	return c
}

func (c *canary) port() string { return c.Listener.Addr().String()[len("127.0.0.1:"):] }

// names resolves host names from a table: each lookup takes the next answer,
// and the last one stays.
type names struct {
	answers map[string][]string
	lookups atomic.Int64
}

func (n *names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	answers, ok := n.answers[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	i := min(int(n.lookups.Add(1))-1, len(answers)-1)
	var addrs []netip.Addr
	for text := range strings.SplitSeq(answers[i], ",") {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

func get(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func wantBlocked(t *testing.T, err error) *netguard.BlockedError {
	t.Helper()
	blocked, ok := errors.AsType[*netguard.BlockedError](err)
	if !ok {
		t.Fatalf("error = %v (%T), want *BlockedError", err, err)
	}
	return blocked
}

func TestNamedReachesNothingPrivate(t *testing.T) {
	t.Parallel()
	c := newCanary(t, nil)
	resolver := &names{answers: map[string][]string{
		"internal.example": {"127.0.0.1"}, "mapped.example": {"::ffff:127.0.0.1"}, "v6.example": {"::1"},
		"both.example": {"127.0.0.1,10.0.0.1,::1"}, "nat64.example": {"64:ff9b::7f00:1"}, "localhost": {"127.0.0.1"}, "localhost.": {"127.0.0.1"},
		// As some resolvers read them.
		"2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"}, "127.1": {"127.0.0.1"},
	}}
	client := netguard.New(netguard.Policy{Resolver: resolver}).Named(netguard.Options{DialTimeout: time.Second})
	for _, host := range []string{
		"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]",
		"169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
		"0.0.0.0", "0.1.2.3", "[::]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "localhost", "localhost.", "LOCALHOST", "x.localhost",
		"127.0.0.1.", "127。0。0。1", "１２７.0.0.1", "ｌｏｃａｌｈｏｓｔ",
		"[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd12::1]", "224.0.0.1", "[ff02::1]", "255.255.255.255", "240.0.0.1",
		"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "[2001:db8::1]", "[100::1]", "[2001::1]", "168.63.129.16", "100.100.100.200",
		"internal.example", "mapped.example", "v6.example", "both.example", "nat64.example",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			blocked := wantBlocked(t, get(client, "http://"+host+":"+c.port()+"/hook"))
			if blocked.Reason == "" {
				t.Error("no reason")
			}
		})
	}
	t.Cleanup(func() {
		if n := c.connections.Load(); n != 0 {
			t.Errorf("the canary got %d connections, want none", n)
		}
	})
}

func TestPublicAddressesAreDialled(t *testing.T) {
	t.Parallel()
	guard := netguard.New(netguard.Policy{})
	for _, url := range []string{
		"http://8.8.8.8/", "https://1.1.1.1:8443/x?y", "http://[2606:4700::1111]/", "https://agents.example.com/", "http://172.15.0.1", "http://172.32.0.1",
		"http://100.63.0.1", "http://100.128.0.1", "http://[64:ff9b::8.8.8.8]/", "http://[2002:808:808::1]", "http://xn--bcher-kva.example", "http://bücher.example", "http://例え。テスト", "http://1.example", "http://example.com.",
	} {
		if err := guard.CheckURL(url); err != nil {
			t.Errorf("CheckURL(%s): %v", url, err)
		}
	}
}

func TestCheckURLRefusesForms(t *testing.T) {
	t.Parallel()
	guard := netguard.New(netguard.Policy{})
	for _, url := range []string{
		"", "file:///etc/passwd", "gopher://example.com/", "ftp://example.com", "//example.com/x", "example.com", "javascript:alert(1)",
		"http://user:pw@example.com/", "http://user@example.com", "http://", "http:///x", "http://:80/", "http://example.com:99999/", "http://example.com:0/",
		"http://exa mple.com", "http://%31%32%37.0.0.1/", "http://[::1", "https://127.0.0.1", "http://0x7f.1", "http://017700000001", "http://127.0.0.1.",
		// What net/http makes 127.0.0.1 of, or localhost.
		"http://127。0。0。1", "http://127．0．0．1", "http://127｡0｡0｡1/", "http://１２７.0.0.1", "http://①②⑦.0.0.1", "http://127.0.0.1。", "http://127。1",
		"http://ｌｏｃａｌｈｏｓｔ", "http://localhost。", "http://127%E3%80%820%E3%80%820%E3%80%821/", "http://example.com..", "http://127.0.0.1..", "http://。", "http://a\u200eb.example",
	} {
		err := guard.CheckURL(url)
		if err == nil {
			t.Errorf("CheckURL(%q) allows it", url)
			continue
		}
		if blocked := wantBlocked(t, err); strings.Contains(blocked.Error(), "pw") {
			t.Errorf("CheckURL(%q) shows the password: %v", url, blocked)
		}
	}
}

func TestConfiguredMayBePrivate(t *testing.T) {
	t.Parallel()
	c := newCanary(t, nil)
	client := netguard.New(netguard.Policy{}).Configured(netguard.Options{})
	if err := get(client, c.URL); err != nil {
		t.Fatalf("Get: %v", err)
	}
	if n := c.requests.Load(); n != 1 {
		t.Errorf("the canary got %d requests, want 1", n)
	}
	wantBlocked(t, get(client, "ftp://127.0.0.1/"))
}

func TestAllow(t *testing.T) {
	t.Parallel()
	c := newCanary(t, nil)
	resolver := &names{answers: map[string][]string{"hooks.corp.example": {"127.0.0.1"}, "corp.example": {"127.0.0.1"}, "evilcorp.example": {"127.0.0.1"}}}
	for _, tt := range []struct {
		allow, host string
		want        bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.1", "[::ffff:127.0.0.1]", true},
		{"127.0.0.0/8", "hooks.corp.example", true},
		{"127.0.0.0/8", "localhost", true},
		{"10.0.0.0/8", "127.0.0.1", false},
		{"127.0.0.1:1", "127.0.0.1", false},
		{"127.0.0.1:" + c.port(), "127.0.0.1", true},
		{"hooks.corp.example", "hooks.corp.example", true},
		{"HOOKS.corp.example.", "Hooks.Corp.Example.", true},
		{"*.corp.example", "hooks.corp.example", true},
		{"*.corp.example", "corp.example", false},
		{"corp.example", "evilcorp.example", false},
		{"*.corp.example", "evilcorp.example", false},
		{"hooks.corp.example", "127.0.0.1", false},
		{"hooks.corp.example:1", "hooks.corp.example", false},
	} {
		t.Run(tt.allow+" "+tt.host, func(t *testing.T) {
			t.Parallel()
			var d netguard.Destination
			if err := d.UnmarshalText([]byte(tt.allow)); err != nil {
				t.Fatal(err)
			}
			r := &names{answers: map[string][]string{"localhost": {"127.0.0.1"}}}
			for name, answer := range resolver.answers {
				r.answers[name], r.answers["Hooks.Corp.Example."] = answer, answer
			}
			client := netguard.New(netguard.Policy{Allow: []netguard.Destination{d}, Resolver: r}).Named(netguard.Options{})
			err := get(client, "http://"+tt.host+":"+c.port()+"/")
			if tt.want && err != nil {
				t.Errorf("blocked: %v", err)
			}
			if !tt.want {
				wantBlocked(t, err)
			}
		})
	}
}

func TestRebindingIsSeenWhenDialled(t *testing.T) {
	t.Parallel()
	c := newCanary(t, nil)
	// The first look is public, the one that the connection uses is not.
	resolver := &names{answers: map[string][]string{"rebind.example": {"8.8.8.8", "127.0.0.1"}}}
	guard := netguard.New(netguard.Policy{Resolver: resolver})
	if err := guard.CheckURL("http://rebind.example:" + c.port()); err != nil {
		t.Fatalf("CheckURL: %v", err)
	}
	if addrs, _ := resolver.LookupNetIP(t.Context(), "ip", "rebind.example"); addrs[0].String() != "8.8.8.8" {
		t.Fatalf("first lookup = %v", addrs)
	}
	wantBlocked(t, get(guard.Named(netguard.Options{}), "http://rebind.example:"+c.port()))
	if n := c.connections.Load(); n != 0 {
		t.Errorf("the canary got %d connections", n)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	target := newCanary(t, nil)
	self := func(path string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/loop") {
				http.Redirect(w, r, fmt.Sprintf("/loop%d", time.Now().UnixNano()), http.StatusFound)
			} else if r.URL.Path == "/" {
				http.Redirect(w, r, path, http.StatusTemporaryRedirect)
			}
		}
	}
	for _, tt := range []struct {
		name, to string
		blocked  bool
		requests int64
	}{
		{"same origin", "/there", false, 2},
		{"other port", target.URL, true, 1},
		{"metadata", "http://169.254.169.254/latest", true, 1},
		{"other scheme", "file:///etc/passwd", true, 1},
		{"without end", "/loop", true, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source := newCanary(t, self(tt.to))
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, source.URL, strings.NewReader("body"))
			request.Header.Set("Authorization", "Bearer secret")
			response, err := netguard.New(netguard.Policy{}).Configured(netguard.Options{}).Do(request)
			if tt.blocked {
				wantBlocked(t, err)
			} else if err != nil {
				t.Fatalf("Do: %v", err)
			} else {
				response.Body.Close()
			}
			if n := source.requests.Load(); n != tt.requests {
				t.Errorf("%d requests, want %d", n, tt.requests)
			}
		})
	}
	t.Cleanup(func() {
		if n := target.connections.Load(); n != 0 {
			t.Errorf("the other origin got %d connections", n)
		}
	})
}

func TestDowngradeIsAnotherOrigin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"https://a.example", "https://A.example:443/x", true},
		{"https://a.example", "http://a.example", false},
		{"https://a.example", "https://a.example:8443", false},
		{"https://a.example", "https://a.example.evil.test", false},
		{"http://a.example:80", "http://a.example.", true},
	} {
		if got := netguard.SameOrigin(parse(t, tt.a), parse(t, tt.b)); got != tt.want {
			t.Errorf("SameOrigin(%s, %s) = %v", tt.a, tt.b, got)
		}
	}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestHeaderBytesAndTimeAreBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := newCanary(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
			return
		}
		w.Header().Set("X-Large", strings.Repeat("x", 100<<10))
	})
	t.Cleanup(func() { close(release) })
	client := netguard.New(netguard.Policy{}).Configured(netguard.Options{HeaderTimeout: 50 * time.Millisecond})
	if err := get(client, c.URL); err == nil {
		t.Error("a header of 100 KiB is taken")
	}
	if err := get(client, c.URL+"/slow"); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("error of a slow header = %v, want a timeout", err)
	}
}

func TestEnvironmentProxyIsNotUsed(t *testing.T) {
	proxy := newCanary(t, nil)
	t.Setenv("HTTP_PROXY", proxy.URL)
	c := newCanary(t, nil)
	resolver := &names{answers: map[string][]string{"somewhere.example": {"127.0.0.1"}}}
	client := netguard.New(netguard.Policy{Resolver: resolver}).Configured(netguard.Options{})
	if err := get(client, "http://somewhere.example:"+c.port()); err != nil {
		t.Fatalf("Get: %v", err)
	}
	if proxy.requests.Load() != 0 || c.requests.Load() != 1 {
		t.Errorf("proxy %d, target %d requests; want 0 and 1", proxy.requests.Load(), c.requests.Load())
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		size, limit int64
		fails       bool
	}{{0, 0, false}, {10, 10, false}, {11, 10, true}, {1 << 20, 1 << 10, true}, {1, 0, true}} {
		body := io.NopCloser(strings.NewReader(strings.Repeat("x", int(tt.size))))
		content, err := io.ReadAll(netguard.MaxBytes(body, tt.limit))
		e, large := errors.AsType[*netguard.TooLargeError](err)
		switch {
		case large != tt.fails || (err != nil) != tt.fails:
			t.Errorf("%d of %d bytes: %v", tt.size, tt.limit, err)
		case large && (e.Limit != tt.limit || int64(len(content)) != tt.limit):
			t.Errorf("%d of %d bytes: limit %d, %d bytes read", tt.size, tt.limit, e.Limit, len(content))
		}
	}
}

func TestDestinationText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"10.0.0.0/8", "10.0.0.0/8"},
		{"10.0.0.0/8:443", "10.0.0.0/8:443"},
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1:80", "127.0.0.1:80"},
		{"::1", "::1"},
		{"[::1]:80", "[::1]:80"},
		{"fd00::/8", "fd00::/8"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8"},
		{"Example.COM.", "example.com"},
		{"*.example.com:8443", "*.example.com:8443"},
		{"", ""},
		{"*", ""},
		{"10.0.0.1/8", ""},
		{"10.0.0.0/33", ""},
		{"example.com:0", ""},
		{"example.com:x", ""},
		{"http://example.com", ""},
		{"exa mple", ""},
		{"2130706433", ""},
		{"*.*.example", ""},
		{"fe80::1%eth0", ""},
		{"-a.example", ""},
	} {
		var d netguard.Destination
		err := d.UnmarshalText([]byte(tt.text))
		if (err != nil) != (tt.want == "") {
			t.Errorf("%q: %v", tt.text, err)
		} else if err == nil && d.String() != tt.want {
			t.Errorf("%q is written as %q, want %q", tt.text, d, tt.want)
		}
	}
}
