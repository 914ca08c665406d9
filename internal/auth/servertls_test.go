package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/config"
)

// authority is a CA of a test's own.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate, key, 1}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue returns a certificate and its key, PEM.
func (a *authority) issue(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) client(t *testing.T, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// tlsFixture is a server with certificates from files.
type tlsFixture struct {
	tls    *ServerTLS
	config config.TLS
	clock  *clock
	log    *logBuffer
	url    string
	ca     *authority
	chain  *Chain
}

func newTLSFixture(t *testing.T, change func(c *config.TLS), clients *authority) *tlsFixture {
	t.Helper()
	dir := t.TempDir()
	f := &tlsFixture{clock: newClock(), log: &logBuffer{}, ca: newAuthority(t, "server CA")}
	f.config = config.TLS{
		Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), MinVersion: "1.3", ClientAuth: config.ClientAuthNone,
	}
	if clients != nil {
		f.config.ClientCA, f.config.ClientAuth = filepath.Join(dir, "ca.pem"), config.ClientAuthOptional
		f.write(t, f.config.ClientCA, clients.pem())
	}
	f.renew(t, "first")
	if change != nil {
		change(&f.config)
	}
	var err error
	if f.tls, err = NewServerTLS(f.config, slog.New(slog.NewTextHandler(f.log, nil))); err != nil {
		t.Fatal(err)
	}
	f.tls.now = f.clock.now
	f.tls.looked = f.clock.now()
	if f.chain, err = NewChain(ChainOptions{
		MTLS:      &config.MTLS{Subject: config.CertificateAuto, Role: config.RoleCaller},
		Anonymous: Anonymous{Policy: PolicyEverywhere}, Client: http.DefaultClient,
	}); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := f.chain.Authenticate(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, r.Proto+" "+p.Subject)
	}))
	listener := tls.NewListener(s.Listener, f.tls.Config())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	go func() { _ = s.Config.Serve(listener) }()
	t.Cleanup(func() { _ = s.Config.Close() })
	f.url = "https://" + s.Listener.Addr().String()
	return f
}

func (f *tlsFixture) write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *tlsFixture) renew(t *testing.T, name string) {
	t.Helper()
	certificate, key := f.ca.issue(t, name)
	f.write(t, f.config.Cert, certificate)
	f.write(t, f.config.Key, key)
}

// get asks once, over a connection of its own, and returns the answer and the
// name of the server's certificate.
func (f *tlsFixture) get(t *testing.T, c *tls.Config) (answer, server string, err error) {
	t.Helper()
	if c.RootCAs == nil {
		c.RootCAs = f.ca.pool()
	}
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get(f.url)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), response.TLS.PeerCertificates[0].Subject.CommonName, err
}

func TestTLSIsLoadedAgain(t *testing.T) {
	t.Parallel()
	f := newTLSFixture(t, nil, nil)
	serves := func(want string) {
		t.Helper()
		if _, got, err := f.get(t, &tls.Config{}); err != nil || got != want {
			t.Fatalf("the certificate is %q and not %q, %v", got, want, err)
		}
	}
	serves("first")
	f.renew(t, "second, with a longer name")
	serves("first") // until it is looked at again
	f.clock.add(lookAgain)
	serves("second, with a longer name")
	f.write(t, f.config.Cert, []byte("half of a certi"))
	f.clock.add(lookAgain)
	serves("second, with a longer name")
	if !strings.Contains(f.log.String(), "cannot be loaded") {
		t.Errorf("logged: %s", f.log)
	}
	if err := os.Remove(f.config.Key); err != nil {
		t.Fatal(err)
	}
	f.clock.add(lookAgain)
	serves("second, with a longer name")
	f.renew(t, "third")
	f.clock.add(lookAgain)
	serves("third")
}

func TestTLSVersions(t *testing.T) {
	t.Parallel()
	strict := newTLSFixture(t, nil, nil)
	if _, _, err := strict.get(t, &tls.Config{MaxVersion: tls.VersionTLS12}); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.2: %v", err)
	}
	older := newTLSFixture(t, func(c *config.TLS) { c.MinVersion = "1.2" }, nil)
	if _, _, err := older.get(t, &tls.Config{MaxVersion: tls.VersionTLS12}); err != nil {
		t.Errorf("TLS 1.2 where it is allowed: %v", err)
	}
	if _, _, err := older.get(t, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if got := strict.tls.Config().NextProtos; len(got) != 2 || got[0] != "h2" {
		t.Errorf("protocols %v", got)
	}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	clients, others := newAuthority(t, "clients"), newAuthority(t, "others")
	mine, foreign := clients.client(t, "erp.partner"), others.client(t, "erp.partner")
	with := func(c tls.Certificate) *tls.Config {
		// It is sent though the server does not ask for one of this CA.
		return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }}
	}
	optional := newTLSFixture(t, nil, clients)
	if got, _, err := optional.get(t, with(mine)); err != nil || got != "HTTP/1.1 erp.partner" {
		t.Errorf("a certificate: %q, %v", got, err)
	}
	if got, _, err := optional.get(t, &tls.Config{}); err != nil || got != "HTTP/1.1 " {
		t.Errorf("no certificate: %q, %v", got, err)
	}
	if got, _, err := optional.get(t, with(foreign)); err == nil {
		t.Errorf("a certificate of another CA: %q", got)
	}
	required := newTLSFixture(t, func(c *config.TLS) { c.ClientAuth = config.ClientAuthRequired }, clients)
	if got, _, err := required.get(t, with(mine)); err != nil || got != "HTTP/1.1 erp.partner" {
		t.Errorf("a certificate: %q, %v", got, err)
	}
	if got, _, err := required.get(t, &tls.Config{}); err == nil {
		t.Errorf("no certificate where one is required: %q", got)
	}
	// Another CA takes over when its file does.
	required.write(t, required.config.ClientCA, append(others.pem(), '\n'))
	required.clock.add(lookAgain)
	if got, _, err := required.get(t, with(foreign)); err != nil || got != "HTTP/1.1 erp.partner" {
		t.Errorf("after the CA has changed: %q, %v", got, err)
	}
	if got, _, err := required.get(t, with(mine)); err == nil {
		t.Errorf("a certificate of the CA before: %q", got)
	}
}

func TestTLSFilesAreChecked(t *testing.T) {
	t.Parallel()
	f := newTLSFixture(t, nil, newAuthority(t, "clients"))
	for name, change := range map[string]func(c *config.TLS){
		"no certificate":       func(c *config.TLS) { c.Cert += ".missing" },
		"a directory":          func(c *config.TLS) { c.Cert = filepath.Dir(c.Cert) },
		"a key as certificate": func(c *config.TLS) { c.Cert = c.Key },
		"no CA":                func(c *config.TLS) { c.ClientCA = c.Key },
		"a missing CA":         func(c *config.TLS) { c.ClientCA += ".missing" },
	} {
		c := f.config
		change(&c)
		if _, err := NewServerTLS(c, nil); err == nil || !strings.HasPrefix(err.Error(), "tls: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
