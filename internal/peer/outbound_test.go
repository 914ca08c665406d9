package peer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/peer"
)

// elsewhere is a card whose interface is at %[2]s.
func elsewhere(at string) string { return strings.ReplaceAll(cardWith(""), "%[1]s/rpc", at+"/rpc") }

// Rows S8 and S9: what a card names elsewhere is not asked, and gets no
// credentials.
func TestNothingGoesWhereACardPoints(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	a := newAgent(t, elsewhere(trap))
	d := directory(t, `plain: {card: "`+a.URL+`"}, secret: {card: "`+a.URL+`", auth: {bearer: t-1}},
		listed: {card: "`+a.URL+`", auth: {bearer: t-1}, origins: ["`+trap+`"]}`)
	_, _, err := d.Client(t.Context(), "secret", peer.User{})
	if err == nil || !strings.Contains(err.Error(), "origin not allowed") {
		t.Errorf("with credentials: %v", err)
	}
	err = ask(t.Context(), dial(t, d, "plain", peer.User{}))
	if blocked, ok := errors.AsType[*netguard.BlockedError](err); !ok || blocked.Reason != "loopback" {
		t.Errorf("without: %v", err)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the canary was asked %d times", n)
	}
	if err := ask(t.Context(), dial(t, d, "listed", peer.User{})); err == nil || hits.Load() != 1 {
		t.Errorf("an origin that is listed: %v, asked %d times", err, hits.Load())
	}
	report, err := d.Check(t.Context(), "secret", peer.User{})
	if err != nil || report.OK || !strings.Contains(report.Steps[3].Do, "peers.secret.origins") {
		t.Errorf("%+v, %v", report, err)
	}
	allowing := directory(t, `plain: {card: "`+a.URL+`"}`, func(o *peer.Options) {
		var to netguard.Destination
		if err := to.UnmarshalText([]byte("127.0.0.1")); err != nil {
			t.Error(err)
		}
		o.Guard = netguard.New(netguard.Policy{Allow: []netguard.Destination{to}})
	})
	if _ = ask(t.Context(), dial(t, allowing, "plain", peer.User{})); hits.Load() != 2 {
		t.Errorf("outbound.allow lists it, and it was asked %d times", hits.Load())
	}
}

// Rows S8, S9 and S13: redirects elsewhere, to http, and without end.
func TestRedirectsStayAtThePeer(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	for name, to := range map[string]string{"elsewhere": trap + "/card.json", "in circles": "/agents/x/.well-known/agent-card.json"} {
		s := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
		t.Cleanup(s.Close)
		for _, auth := range []string{"{}", "{bearer: t-1}"} {
			d := directory(t, `p: {card: "`+s.URL+`/agents/x/", auth: `+auth+`}`)
			if _, _, err := d.Client(t.Context(), "p", peer.User{}); err == nil {
				t.Errorf("%s with %s: no error", name, auth)
			}
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("the canary was asked %d times", n)
	}
}

// Row S13: a card without end.
func TestACardIsBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(`{"name":"` + strings.Repeat("x", 64<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	d := directory(t, `p: {card: "`+s.URL+`"}`)
	if _, _, err := d.Client(t.Context(), "p", peer.User{}); !errors.Is(err, client.ErrTooLarge) {
		t.Error(err)
	}
}

// Row 118: a card that says nothing.
func TestAnEmptyCardIsRefused(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "{}")
	d := directory(t, `p: {card: "`+a.URL+`"}`)
	_, _, err := d.Client(t.Context(), "p", peer.User{})
	if e, ok := errors.AsType[*client.CardError](err); !ok || !strings.Contains(e.Error(), "missing name") {
		t.Error(err)
	}
}

// certificates are a CA and what it has signed, as files.
type certificates struct {
	ca, cert, key string
	pool          *x509.CertPool
	server        tls.Certificate
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	caKey := newKey(t)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, caKey.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificates{ca: write("ca.pem", "CERTIFICATE", caDER), pool: x509.NewCertPool()}
	c.pool.AddCert(ca)
	for i, name := range []string{"server", "client"} {
		key := newKey(t)
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}, ca, key.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		keyDER, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		c.cert, c.key = write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", keyDER)
		if name == "server" {
			c.server = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		}
	}
	return c
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	a := newTLSAgent(t, cardWith(asks([]string{mtlsScheme}, "m")), func(s *httptest.Server) {
		s.TLS = &tls.Config{Certificates: []tls.Certificate{files.server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: files.pool}
	})
	at := strings.Replace(a.URL, "127.0.0.1", "localhost", 1)
	a.card = strings.ReplaceAll(a.card, "%[1]s", at)
	d := directory(t, fmt.Sprintf(`p: {card: %q, ca: %q, auth: {mtls: {cert: %q, key: %q}}}, without: {card: %[1]q, ca: %[2]q}, unknown: {card: %[1]q}`, at, files.ca, files.cert, files.key))
	if err := ask(t.Context(), dial(t, d, "p", peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
		t.Fatal(err)
	}
	if got := a.calls()[0].TLS.PeerCertificates[0].Subject.CommonName; got != "client" {
		t.Errorf("the peer saw %q", got)
	}
	for _, name := range []string{"without", "unknown"} {
		report, err := d.Check(t.Context(), name, peer.User{})
		if err != nil || report.OK || report.Steps[0].Result != peer.ResultFailed {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	_, err := d.Prepare(parse(t, fmt.Sprintf(`p: {card: %q, ca: %q}`, at, files.key)))
	if err == nil || !strings.Contains(err.Error(), "peers.p.ca") {
		t.Errorf("a key as a certificate: %v", err)
	}
}

func TestTheAddressAndTheTenantOfTheConfiguration(t *testing.T) {
	t.Parallel()
	trap, hits := canary(t)
	a := newAgent(t, elsewhere(trap))
	d := directory(t, `p: {card: "`+a.URL+`", url: "`+a.URL+`/tunnel", tenant: acme, auth: {bearer: t-1}}`)
	c := dial(t, d, "p", peer.User{})
	if i := c.Interface(); i.URL != a.URL+"/tunnel" || i.Tenant != "acme" {
		t.Errorf("%+v", i)
	}
	if err := ask(t.Context(), c); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) || hits.Load() != 0 {
		t.Error(err)
	}
}

func TestCardsOfFilesAndWrittenOut(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "")
	card := strings.ReplaceAll(cardWith(""), "%[1]s", a.URL)
	file := filepath.Join(t.TempDir(), "card.json")
	if err := os.WriteFile(file, []byte(card), 0o600); err != nil {
		t.Fatal(err)
	}
	d := directory(t, `file: {card: "file:`+file+`", auth: {bearer: t-1}}, inline: {card: `+strings.ReplaceAll(card, "\n", " ")+`, auth: {bearer: t-1}}`)
	for _, name := range []string{"file", "inline"} {
		if err := ask(t.Context(), dial(t, d, name, peer.User{})); !errors.Is(err, &a2a.Error{Code: a2a.CodeTaskNotFound}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if calls := a.calls(); len(calls) != 2 || !bearerIs("t-1")(calls[0]) || !bearerIs("t-1")(calls[1]) {
		t.Error("without credentials")
	}
	if problems := peer.Check(parse(t, `file: {card: "file:`+file+`.not"}, bad: {card: {name: x}}`)); len(problems) != 2 {
		t.Errorf("%v", problems)
	}
}
