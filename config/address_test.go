package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/config"
)

const escapes = "; escape what is special in its user and password: %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %25 for %, %20 for a blank"

func TestStoreAddresses(t *testing.T) {
	t.Parallel()
	const like = "; write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full"
	for _, tt := range []struct{ store, shown, problem string }{
		{"sqlite:a@b.db", "sqlite:a@b.db", ""},
		{"postgres://db/handoff", "postgres://db/handoff", ""},
		{"postgresql://me@db:5432/handoff", "postgresql://me@db:5432/handoff", ""},
		{"postgres://me:s3cret@db:5432/handoff?sslmode=verify-full", "postgres://me:***@db:5432/handoff?sslmode=verify-full", ""},
		{"postgres://me:s3c%40ret@a:1,b:2/handoff", "postgres://me:***@a:1,b:2/handoff", ""},
		{"postgres://me:s3cret@[::1]:5432/handoff", "postgres://me:***@[::1]:5432/handoff", ""},
		{"postgres://me@/handoff?host=/run/postgresql&password=s3cret", "postgres://me@/handoff?host=/run/postgresql&password=***", ""},
		{"postgres://db/handoff?p%61ssword=s3cret", "postgres://db/handoff?p%61ssword=***", ""},
		{"postgres://db/?dbname=handoff", "postgres://db?dbname=handoff", ""},
		{"postgress://me:s3cret@db/handoff", "", "is not a store that handoff knows; did you mean postgres://?"},
		{"postgres:/me:s3cret@db/handoff", "", "has no // behind postgres:" + like},
		{"host=db password=s3cret", "", "is not a store that handoff knows; write it like sqlite:handoff.db or postgres://USER:PASSWORD@HOST:5432/DATABASE"},
		{"mysql://me:s3cret@db/handoff", "", "is not a store that handoff knows; write it like sqlite:handoff.db or postgres://USER:PASSWORD@HOST:5432/DATABASE"},
		{"postgres://me:s3cret@db", "", "names no database" + like},
		{"postgres://me:s3cret@db/?sslmode=require", "", "names no database" + like},
		{"postgres:///handoff", "", "names no host" + like},
		{"postgres://me:s3cret@:5432/handoff", "", "names no host" + like},
		{"postgres://me:s3cret@db:port/handoff", "", "has a port that is not a number from 1 to 65535" + like},
		{"postgres://me:s3cret@db:0/handoff", "", "has a port that is not a number from 1 to 65535" + like},
		{"postgres://me:s3cret@a,b:99999/handoff", "", "has a port that is not a number from 1 to 65535" + like},
		{"postgres://me:s3@cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3/cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3?cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:12/s3cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3#cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3 cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3%cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3%00cret@db/handoff", "", "cannot be read" + escapes},
		{"postgres://me:s3cret@db/handoff?sslmode=always", "", "has an sslmode that is not one of disable, allow, prefer, require, verify-ca, verify-full"},
		{"postgres://me:s3cret@db/handoff?ssl_mode=s3cret", "", "has an unknown parameter ssl_mode; did you mean sslmode?"},
		{"postgres://me:s3cret@db/handoff?sslmdoe=disable", "", "has an unknown parameter sslmdoe; did you mean sslmode?"},
		{"postgres://me:s3cret@db/handoff?search-path=a", "", "has an unknown parameter search-path; did you mean search_path?"},
		{"postgres://me:s3cret@db/handoff?ssl_ca=a", "", "has an unknown parameter ssl_ca"},
		{"postgres://me:s3cret@db/handoff?p%61sswordd=s3cret", "", "has an unknown parameter passwordd; did you mean password?"},
		{"postgres://me:s3cret@db/handoff?ssl1=s3", "", "has an unknown parameter; did you mean ssl?"},
		{"postgres://me:s3cret@db/handoff?search_path=", "", "has a search_path that names no schema; leave search_path out for the schema public, or name a schema"},
		{"postgres://me:s3cret@db/handoff?pool_max_conns=0", "", "has a pool_max_conns that is not a number from 1"},
		{"postgres://me:s3cret@db/handoff?pool_max_conns=s3", "", "has a pool_max_conns that is not a number from 1"},
		{"postgres://me:s3cret@db/handoff?pool_min_conns=-1", "", "has a pool_min_conns that is not a number"},
		{"postgres://me:s3cret@db/handoff?pool_ping_timeout=3", "", "has a pool_ping_timeout that is not a duration such as 30m"},
		{"postgres://me:s3cret@db/handoff?connect_timeout=soon", "", "has a connect_timeout that is not a number of seconds"},
		{
			"postgres://me:s3cret@db/handoff?sslmode=verify-full&sslrootcert=/no/ca.pem", "",
			"names a file in sslrootcert that cannot be read: open /no/ca.pem: no such file or directory; mount or make the file, or correct its path, which begins at the directory that the node is started in unless it is absolute",
		},
		{
			"postgres://me@db/handoff?sslmode=disable&sslrootcert=/no/ca.pem&pool_max_conns=4&search_path=a,b&statement_timeout=1s&work_mem=8MB&my.setting=1&TimeZone=UTC",
			"postgres://me@db/handoff?sslmode=disable&sslrootcert=/no/ca.pem&pool_max_conns=4&search_path=a,b&statement_timeout=1s&work_mem=8MB&my.setting=1&TimeZone=UTC", "",
		},
		{"postgres://me@db/handoff?sslrootcert=system&pool_max_conn_lifetime=1h", "postgres://me@db/handoff?sslrootcert=system&pool_max_conn_lifetime=1h", ""},
		{"postgres://me:s3cret@db/handoff?sslmode", "", "has a parameter that is not of the form name=value" + like},
	} {
		t.Run(tt.store, func(t *testing.T) {
			t.Parallel()
			text := fmt.Sprintf("store: %q\n%s", tt.store, minimal)
			c, err := config.Parse([]byte(text), t.TempDir())
			if tt.problem != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "configuration:1:8: store: "+tt.problem+"\n") {
					t.Fatalf("%v", err)
				}
				for _, secret := range []string{"s3", "cret"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("the error repeats the password: %v", err)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.StoreName() != tt.shown {
				t.Errorf("shown as %s, want %s", c.StoreName(), tt.shown)
			}
			for _, v := range c.Values() {
				if strings.Contains(v.Text, "s3") {
					t.Errorf("%s = %s", v.Path, v.Text)
				}
			}
			if c.UsesPostgres() != strings.HasPrefix(tt.store, "postgres") || c.UsesPostgres() != (c.StorePath() == "") {
				t.Errorf("UsesPostgres = %v, StorePath = %q", c.UsesPostgres(), c.StorePath())
			}
		})
	}
}

func TestBusAddresses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "n.creds"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	const store = "store: postgres://db/handoff\n"
	for _, tt := range []struct{ text, shown, problem string }{
		{store, "postgres", ""},
		{"", "", ""},
		{store + "bus: postgres", "postgres", ""},
		{store + "bus: nats://a:4222,tls://b", "nats://a:4222,tls://b", ""},
		{store + "bus: nats://me:s3cret@a:4222,nats://s3cret@b:4222", "nats://me:***@a:4222,nats://***@b:4222", ""},
		{store + "bus: nats://a\nbus_credentials: file:n.creds\nbus_ca: n.creds", "nats://a", ""},
		{"bus: nats://a", "", "bus: is for several nodes, and a SQLite store has one; leave it out, or name a PostgreSQL database in store"},
		{"bus: postgres", "", "bus: is for several nodes"},
		{store + "bus: redis://me:s3cret@a", "", "bus: is not a bus that handoff knows; write it like nats://HOST:4222"},
		{store + "bus: nats://a,b", "", "bus: is not a bus that handoff knows (number 2)"},
		{store + "bus: nats://me:s3/cret@a", "", "bus: cannot be read" + escapes},
		{store + "bus: nats://me:s3cret@a/x", "", "bus: has something behind its host"},
		{store + "bus: \"nats://\"", "", "bus: names no host"},
		{store + "bus_credentials: file:n.creds", "", "bus_credentials: is for NATS, and bus names none"},
		{store + "bus: nats://a\nbus_credentials: s3cret", "", "bus_credentials: names no file"},
		{store + "bus: nats://a\nbus_credentials: file:other.creds", "", "bus_credentials: cannot be read"},
		{store + "bus: nats://a\nbus_ca: other.pem", "", "bus_ca: cannot be read"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse([]byte(tt.text+"\n"+minimal), dir)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) || strings.Contains(err.Error(), "cret@") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.BusName() != tt.shown {
				t.Errorf("shown as %s", c.BusName())
			}
		})
	}
}

// A password must not show on the line of a key that nobody knows, and not when
// the file cannot be read at all.
func TestNoPasswordInAnExcerpt(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"stroe: postgres://me:s3cret@db/handoff\n",
		"stroe: 'postgres://me:s3 cret@db/handoff'\n",
		"dsn: host=db password=s3cret\n",
		"store: \"postgres://me:s3cret\n",
		"store: {a: postgres://me:s3cret@db/x}\n",
		"store: postgres://me:s3cret${HANDOFF_NOT_SET}@db/x\n",
		"store: [postgres://me:s3cret@db/x\n",
		"bus: nats://s3cret@${HANDOFF_NOT_SET}\n",
	} {
		_, err := config.Parse([]byte(text), "")
		if err == nil || strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") && !strings.Contains(text, "'") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestOverridesAndChangesShowNoPassword(t *testing.T) {
	t.Setenv("HANDOFF_TEST_PASSWORD", "handoff")
	file := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(file, []byte("store: postgres://me:${HANDOFF_TEST_PASSWORD}@db/handoff\n"+minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if before.Store != "postgres://me:handoff@db/handoff" || before.StoreName() != "postgres://me:***@db/handoff" {
		t.Errorf("%s, shown as %s", before.Store, before.StoreName())
	}
	_, err = config.Load(file, config.Override{Path: "store", Value: "postgres://me:s3cret@db", Flag: "--store"})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "--store: names no database") {
		t.Errorf("%v", err)
	}
	after, err := config.Load(file, config.Override{Path: "store", Value: "postgres://me:s3cret@db/handoff", Flag: "--store"})
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Change{{Path: "store", Old: "postgres://me:***@db/handoff", New: "postgres://me:***@db/handoff", Restart: true}}
	if diff := cmp.Diff(want, config.Diff(before, after)); diff != "" {
		t.Error(diff)
	}
}

func TestConceal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial postgres://me:a@b:c@db/x: no":     "dial postgres://***@db/x: no",
		"see postgres://me:***@db/x":            "see postgres://me:***@db/x",
		"host=a password=b c":                   "host=a password=*** c",
		`host=a password='b \' c' user=d`:       "host=a password=*** user=d",
		"mail a@b, x = 1, http://host/path?q=1": "mail a@b, x = 1, http://host/path?q=1",
	} {
		if got := config.Conceal(text); got != want {
			t.Errorf("%s\nbecomes %s", text, got)
		}
	}
}

func TestSocketPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                  filepath.Join(dir, "handoff.db.sock"),
		`store: "sqlite::memory:"`:          "",
		"store: postgres://db/x":            filepath.Join(dir, "handoff.sock"),
		"store: postgres://db/x\nsocket: b": filepath.Join(dir, "b"),
		"socket: " + dir + "/c":             dir + "/c",
	} {
		c, err := config.Parse([]byte(text+"\n"+minimal), dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.SocketPath(); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestDigestsTellConfigurationsApart(t *testing.T) {
	t.Parallel()
	base := mustParse(t, minimal)
	key := []byte("k")
	same := mustParse(t, "listen: 127.0.0.1:1\nlog: {level: debug}\n"+minimal)
	if got := config.Differences(base.Digests(key), same.Digests(key)); got != nil {
		t.Errorf("what is a node's own: %v", got)
	}
	other := mustParse(t, "retention: {tasks: 1d}\n"+strings.Replace(minimal, "name: Delivery", "name: Other", 1)+
		strings.ReplaceAll(strings.TrimPrefix(minimal, "agents:\n"), "delivery", "second"))
	want := []string{"agent delivery has another configuration there", "agent second is only there", "retention has another configuration there"}
	if diff := cmp.Diff(want, config.Differences(base.Digests(key), other.Digests(key))); diff != "" {
		t.Error(diff)
	}
	if got := config.Differences(other.Digests(key), base.Digests(key)); len(got) != 3 || got[1] != "agent second is not there" {
		t.Error(got)
	}
}

// TestDigestsOfBuses tells nodes apart that do not hear each other.
func TestDigestsOfBuses(t *testing.T) {
	t.Parallel()
	digests := func(bus string) map[string]string {
		return mustParse(t, "store: postgres://db/x\n"+bus+"\n"+minimal).Digests(nil)
	}
	for _, tt := range []struct {
		here, there string
		same        bool
	}{
		{"", "bus: postgres", true},
		{"bus: nats://a", "bus: nats://ann:secret@A:4222", true},
		{"bus: nats://a,tls://b:1", "bus: tls://b:1,nats://a", true},
		{"", "bus: nats://a", false},
		{"bus: nats://a", "bus: nats://b", false},
		{"bus: nats://a", "bus: nats://a:4223", false},
		{"bus: nats://[::1]", "bus: nats://[::1]:4222", true},
	} {
		got := config.Differences(digests(tt.here), digests(tt.there))
		if same := got == nil; same != tt.same || !same && (len(got) != 1 || !strings.HasPrefix(got[0], "bus is another one there")) {
			t.Errorf("%q and %q: %v", tt.here, tt.there, got)
		}
	}
	without := digests("bus: nats://a")
	delete(without, "bus")
	if got := config.Differences(digests("bus: nats://b"), without); got != nil {
		t.Errorf("a version that does not tell its bus: %v", got)
	}
	if got := mustParse(t, minimal).Digests(nil)["bus"]; got != "" {
		t.Errorf("a store of one node has bus %q", got)
	}
}

func TestDigestsOfSecrets(t *testing.T) {
	t.Parallel()
	with := func(secret string) *config.Config {
		return mustParse(t, strings.Replace(minimal, "{exec: [./book]}", "{http: {url: 'http://127.0.0.1:9/turn', headers: {Authorization: "+secret+"}}}", 1))
	}
	one, two, key := with("one"), with("two"), []byte("k")
	if config.Differences(one.Digests(key), two.Digests(key)) == nil {
		t.Error("another secret makes no difference")
	}
	if got := config.Differences(one.Digests(nil), two.Digests(nil)); got != nil {
		t.Errorf("without a key the digest depends on the secret: %v", got)
	}
	if cmp.Equal(one.Digests(key), one.Digests([]byte("other"))) {
		t.Error("the digest of a secret does not depend on the key")
	}
}
