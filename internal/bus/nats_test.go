package bus_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"handoff.example/handoff/internal/bus"
)

// startServer starts a NATS server; with port 0 at any port.
func startServer(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stopServer(s) })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return s
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func port(s *server.Server) int { return s.Addr().(*net.TCPAddr).Port }

// at returns the URL of a server: scheme may end with user:password@.
func at(scheme string, s *server.Server) string {
	return fmt.Sprintf("%s127.0.0.1:%d", scheme, port(s))
}

// startNATS starts a node.
func startNATS(t testing.TB, cluster, urls string, n bus.NATSOptions) *node {
	t.Helper()
	return startNode(t, cluster, func(ctx context.Context, o bus.Options) (bus.Bus, error) {
		return bus.NATS(ctx, urls, n, o)
	})
}

func TestNATSReachesTheOthers(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	url := at("nats://", s)
	a, b, c := startNATS(t, "one", url, bus.NATSOptions{}), startNATS(t, "one", url, bus.NATSOptions{}), startNATS(t, "one", url, bus.NATSOptions{})
	other := startNATS(t, "two", url, bus.NATSOptions{})
	second := startNATS(t, "two", url, bus.NATSOptions{})

	h := bus.Hint{Task: "018f2a6e-7c1a-7abc-8def-0123456789ab", Seq: 7}
	a.Publish(h)
	b.hears(t, h)
	c.hears(t, h)
	// What the sender and the other cluster hear first is not that hint.
	back := bus.Hint{Task: "not a UUID", Seq: 1}
	b.Publish(back)
	a.hears(t, back)
	c.hears(t, back)
	second.Publish(bus.Hint{Task: "two", Seq: 2})
	other.hears(t, bus.Hint{Task: "two", Seq: 2})

	next := bus.Hint{Task: "next", Seq: 1}
	a.Publish(next)
	b.hears(t, next) // so that the first is counted

	state := a.State()
	if state.Kind != "nats" || state.Server != fmt.Sprintf("127.0.0.1:%d", port(s)) || !state.Connected ||
		state.Sent == 0 || state.Sent > 2 || state.Heard != 1 || state.Dropped != 0 || state.Malformed != 0 {
		t.Errorf("state %+v", state)
	}
	for _, n := range []*node{a, b, c, other, second} {
		if len(n.restored) != 0 {
			t.Error("restored without a loss")
		}
	}
}

func TestNATSServerComesBack(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	a, b := startNATS(t, "c", at("nats://", s), bus.NATSOptions{}), startNATS(t, "c", at("nats://", s), bus.NATSOptions{})
	for seq := range int64(2) {
		again := port(s)
		stopServer(s)
		a.log.repeats(t, "the connection of the bus is lost", int(seq)+1)
		b.log.repeats(t, "the connection of the bus is lost", int(seq)+1)
		if a.State().Connected {
			t.Errorf("connected without a server: %+v", a.State())
		}
		waits := bus.Hint{Task: "waits", Seq: seq}
		a.Publish(waits) // kept until the server is back
		s = startServer(t, server.Options{Port: again})
		a.isRestored(t)
		b.isRestored(t)
		// It may have been sent before b had subscribed: that is what Restored is for.
		goes := bus.Hint{Task: "goes", Seq: seq}
		a.Publish(goes)
		for heard := (bus.Hint{}); heard != goes; {
			select {
			case heard = <-b.heard:
				// A batch that may have been sent is sent again, also an earlier one.
				if heard.Task != waits.Task && heard.Task != goes.Task || heard.Seq > seq {
					t.Fatalf("heard %v", heard)
				}
			case <-time.After(patience):
				t.Fatalf("%v does not come: %+v", goes, b.State())
			}
		}
		if state := a.State(); !state.Connected || state.Dropped != 0 {
			t.Errorf("state %+v", state)
		}
	}
}

func TestNATSServerComesLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	l.Close()
	a, b := startNATS(t, "c", "nats://"+address.String(), bus.NATSOptions{}), startNATS(t, "c", "nats://"+address.String(), bus.NATSOptions{})
	a.log.says(t, "cannot be reached")
	if state := a.State(); state.Connected || state.Server != address.String() {
		t.Errorf("state without a server %+v", state)
	}
	startServer(t, server.Options{Port: address.Port})
	a.isRestored(t)
	b.isRestored(t)
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})
}

func TestNATSTakesTheServerThatIsThere(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	gone := startServer(t, server.Options{})
	list := at("nats://", gone) + ", " + at("nats://", s)
	stopServer(gone)
	a, b := startNATS(t, "c", list, bus.NATSOptions{}), startNATS(t, "c", list, bus.NATSOptions{})
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})
}

// certificates makes a CA, a file with its certificate, and a server's
// certificate.
func certificates(t *testing.T) (file string, c tls.Certificate) {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	rootKey, serverKey := key(), key()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "nats"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, serverKey.Public(), rootKey)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})))
	return file, tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: serverKey}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNATSWithTLS(t *testing.T) {
	t.Parallel()
	ca, certificate := certificates(t)
	otherCA, _ := certificates(t)
	s := startServer(t, server.Options{
		TLS: true, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	})
	trusts := bus.NATSOptions{CA: ca}
	a, b := startNATS(t, "c", at("tls://", s), trusts), startNATS(t, "c", at("nats://", s), trusts)
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})

	for name, n := range map[string]bus.NATSOptions{"other CA": {CA: otherCA}, "CAs of the system": {}} {
		stranger := startNATS(t, "c", at("tls://", s), n)
		stranger.log.says(t, "certificate")
		if stranger.State().Connected {
			t.Errorf("%s: connected", name)
		}
	}
	// A server without TLS is not spoken to when TLS is asked for.
	plain := startServer(t, server.Options{})
	for url, n := range map[string]bus.NATSOptions{at("tls://user:hunter2@", plain): {}, at("nats://user:hunter2@", plain): trusts} {
		wary := startNATS(t, "c", url, n)
		wary.log.says(t, "secure connection not available")
		wary.log.hidesAll(t, "hunter2")
		if wary.State().Connected {
			t.Error("connected without TLS")
		}
	}
}

func TestNATSWithAPasswordOrAToken(t *testing.T) {
	t.Parallel()
	const password, token = "p@ss/wörd:1", "s3cr3t-t0ken"
	for name, c := range map[string]struct {
		server       server.Options
		right, wrong string // before the host
		secrets      []string
	}{
		"password": {
			server.Options{Username: "node", Password: password},
			"nats://node:p%40ss%2Fw%C3%B6rd%3A1@", "nats://node:wr0ng-pw@",
			[]string{password, "p%40ss", "wr0ng-pw"},
		},
		"token": {
			server.Options{Authorization: token},
			"nats://" + token + "@", "nats://wr0ng-t0ken@",
			[]string{token, "wr0ng-t0ken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, c.server)
			a, b := startNATS(t, "c", at(c.right, s), bus.NATSOptions{}), startNATS(t, "c", at(c.right, s), bus.NATSOptions{})
			a.Publish(bus.Hint{Task: "t", Seq: 1})
			b.hears(t, bus.Hint{Task: "t", Seq: 1})

			wrong := startNATS(t, "c", at(c.wrong, s), bus.NATSOptions{})
			wrong.log.says(t, "Authorization")
			again := port(s)
			stopServer(s)
			for _, n := range []*node{a, b} {
				n.log.says(t, "cannot be reached")
				n.log.hidesAll(t, c.secrets...)
				if state := fmt.Sprintf("%+v", n.State()); state == "" || strings.Contains(state, "@") {
					t.Errorf("state %s", state)
				}
			}
			wrong.log.hidesAll(t, c.secrets...)
			if wrong.State().Connected {
				t.Error("connected with a wrong secret")
			}
			// A refusal is not for ever.
			c.server.Port, c.server.Password, c.server.Authorization = again, "", ""
			if c.server.Username != "" {
				c.server.Password = "wr0ng-pw"
			} else {
				c.server.Authorization = "wr0ng-t0ken"
			}
			startServer(t, c.server)
			wrong.isRestored(t)
		})
	}
}

// credentials makes a file of credentials, and the options of a server that
// accepts it.
func credentials(t *testing.T) (file string, o server.Options) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pair := func(k nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		must(err)
		public, err := k.PublicKey()
		must(err)
		return k, public
	}
	operator, operatorID := pair(nkeys.CreateOperator())
	account, accountID := pair(nkeys.CreateAccount())
	user, userID := pair(nkeys.CreateUser())
	accountJWT, err := jwt.NewAccountClaims(accountID).Encode(operator)
	must(err)
	userJWT, err := jwt.NewUserClaims(userID).Encode(account)
	must(err)
	seed, err := user.Seed()
	must(err)
	text, err := jwt.FormatUserConfig(userJWT, seed)
	must(err)
	file = filepath.Join(t.TempDir(), "node.creds")
	write(t, file, string(text))
	resolver := &server.MemAccResolver{}
	must(resolver.Store(accountID, accountJWT))
	return file, server.Options{TrustedKeys: []string{operatorID}, AccountResolver: resolver}
}

func TestNATSWithCredentials(t *testing.T) {
	t.Parallel()
	file, options := credentials(t)
	stranger, _ := credentials(t)
	s := startServer(t, options)
	n := bus.NATSOptions{Credentials: file}
	a, b := startNATS(t, "c", at("nats://", s), n), startNATS(t, "c", at("nats://", s), n)
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})
	refused := startNATS(t, "c", at("nats://", s), bus.NATSOptions{Credentials: stranger})
	refused.log.says(t, "Authorization")
	seed, err := os.ReadFile(stranger)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(seed)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "SU") || strings.HasPrefix(line, "eyJ") {
			refused.log.hidesAll(t, line)
		}
	}
}

func TestNATSRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		write(t, path, text)
		return path
	}
	good, _ := credentials(t)
	read, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	const secret = "hunter2"
	jwtOnly := file("jwt.creds", strings.Split(text, "-----BEGIN USER NKEY")[0])
	for name, c := range map[string]struct {
		urls string
		n    bus.NATSOptions
		want string
	}{
		"nothing":             {"", bus.NATSOptions{}, "address 1 of 1"},
		"end with a comma":    {"nats://h,", bus.NATSOptions{}, "address 2 of 2"},
		"other scheme":        {"http://u:" + secret + "@h:4222", bus.NATSOptions{}, "nats://"},
		"no scheme":           {"u:" + secret + "@h:4222", bus.NATSOptions{}, "nats://"},
		"password unescaped":  {"nats://u:%zz" + secret + "@h", bus.NATSOptions{}, "% escapes"},
		"slash in a password": {"nats://u:a/" + secret + "@h", bus.NATSOptions{}, "% escapes"},
		"no host":             {"nats://u:" + secret + "@", bus.NATSOptions{}, "has no host"},
		"port":                {"nats://u:" + secret + "@h:99999", bus.NATSOptions{}, "no valid port"},
		"path":                {"nats://u:" + secret + "@h/path", bus.NATSOptions{}, "behind the port"},
		"too many":            {strings.Repeat("nats://h,", 100), bus.NATSOptions{}, "64 are the most"},
		"no credentials":      {"nats://h", bus.NATSOptions{Credentials: filepath.Join(folder, "away")}, "no such file"},
		"folder":              {"nats://h", bus.NATSOptions{Credentials: folder}, "is a directory"},
		"empty credentials":   {"nats://h", bus.NATSOptions{Credentials: file("empty", "")}, "has no user JWT"},
		"other credentials":   {"nats://h", bus.NATSOptions{Credentials: file("secret", secret)}, "has no user JWT"},
		"half credentials":    {"nats://h", bus.NATSOptions{Credentials: jwtOnly}, "no seed of a user"},
		"only a seed":         {"nats://h", bus.NATSOptions{Credentials: file("seed", text[strings.Index(text, "-----BEGIN USER NKEY"):])}, "has no user JWT"},
		"no CA":               {"nats://h", bus.NATSOptions{CA: filepath.Join(folder, "away")}, "no such file"},
		"empty CA":            {"nats://h", bus.NATSOptions{CA: file("ca", "nothing")}, "no certificate"},
		"huge CA":             {"nats://h", bus.NATSOptions{CA: file("huge", strings.Repeat(" ", 2<<20))}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := bus.NATS(t.Context(), c.urls, c.n, bus.Options{Cluster: "c"})
			if err == nil {
				b.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %q, want %q", err, c.want)
			}
		})
	}
	if _, err := bus.NATS(t.Context(), "nats://h", bus.NATSOptions{}, bus.Options{}); err == nil {
		t.Error("no error without a cluster")
	}
}

func TestNATSIgnoresWhatItCannotRead(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{})
	a, b := startNATS(t, "c", at("nats://", s), bus.NATSOptions{}), startNATS(t, "c", at("nats://", s), bus.NATSOptions{})
	stranger, err := nats.Connect(at("nats://", s))
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	for _, text := range []string{"", "rubbish", strings.Repeat("\x01", 100_000)} {
		if err := stranger.Publish("handoff.hints.c", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	a.Publish(bus.Hint{Task: "t", Seq: 1})
	b.hears(t, bus.Hint{Task: "t", Seq: 1})
	if state := b.State(); state.Malformed != 3 || state.Heard != 1 {
		t.Errorf("state %+v", state)
	}
}

func TestNATSSaysWhatTheUserMayNot(t *testing.T) {
	t.Parallel()
	s := startServer(t, server.Options{Users: []*server.User{{
		Username: "node", Password: "hunter2",
		Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{">"}}},
	}}})
	n := startNATS(t, "c", at("nats://node:hunter2@", s), bus.NATSOptions{})
	n.Publish(bus.Hint{Task: "t", Seq: 1})
	n.log.says(t, "handoff.hints.c")
	n.log.hidesAll(t, "hunter2")
	if state := n.State(); state.Connected || state.Sent != 0 {
		t.Errorf("state %+v", state)
	}
}

// TestNATSWithoutRights takes a right away from a node that runs, and gives it
// back.
func TestNATSWithoutRights(t *testing.T) {
	t.Parallel()
	none := &server.SubjectPermission{Deny: []string{">"}}
	for name, denied := range map[string]*server.Permissions{"publish": {Publish: none}, "subscribe": {Subscribe: none}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			users := func(p *server.Permissions) []*server.User {
				return []*server.User{{Username: "node", Password: "hunter2", Permissions: p}, {Username: "other", Password: "hunter2"}}
			}
			options := server.Options{Users: users(denied)}
			s := startServer(t, options)
			n := startNATS(t, "c", at("nats://node:hunter2@", s), bus.NATSOptions{})
			other := startNATS(t, "c", at("nats://other:hunter2@", s), bus.NATSOptions{})
			n.Publish(bus.Hint{Task: "first", Seq: 1})
			n.log.says(t, "ermissions")
			if state := n.State(); state.Connected {
				t.Errorf("state %+v", state)
			}

			options.Host, options.Port, options.NoSigs, options.NoLog = "127.0.0.1", port(s), true, true
			options.Users = users(nil)
			if err := s.ReloadOptions(&options); err != nil {
				t.Fatal(err)
			}
			if name == "publish" {
				other.hears(t, bus.Hint{Task: "first", Seq: 1}) // it has waited
				n.Publish(bus.Hint{Task: "second", Seq: 2})
				other.hears(t, bus.Hint{Task: "second", Seq: 2}) // the first one is done with
			} else {
				n.isRestored(t)
				other.Publish(bus.Hint{Task: "second", Seq: 2})
				n.hears(t, bus.Hint{Task: "second", Seq: 2})
			}
			if state := n.State(); !state.Connected {
				t.Errorf("state %+v", state)
			}
		})
	}
}

// A server that accepts connections and says nothing does not hold up the end.
func TestNATSClosesBesideASilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := startNATS(t, "c", "nats://"+l.Addr().String(), bus.NATSOptions{})
	n.Publish(bus.Hint{Task: "t", Seq: 1})
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if state := n.State(); state.Connected || state.Dropped != 1 {
		t.Errorf("state %+v", state)
	}
}

func BenchmarkNATS(b *testing.B) {
	s := startServer(b, server.Options{})
	from, to := startNATS(b, "c", at("nats://", s), bus.NATSOptions{}), startNATS(b, "c", at("nats://", s), bus.NATSOptions{})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h := bus.Hint{Task: "018f2a6e-7c1a-7abc-8def-0123456789ab", Seq: int64(i)}
		from.Publish(h)
		to.hears(b, h)
	}
}
