package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdCertify makes certificates in the directory of a script.
func cmdCertify(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(certify(ts.MkAbs("."))) }

// certify makes a CA in ca.pem and, signed by it, certificates with keys in
// server.pem, server.key, client.pem and client.key; stranger.pem is signed by
// itself.
func certify(dir string) error {
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := certificate(1, "CA")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	if err := writeCertificate(dir, "ca", authority, authority, root, root); err != nil {
		return err
	}
	for i, name := range []string{"server", "client", "stranger"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		made, parent, signer := certificate(int64(i+2), name), authority, root
		if name == "server" {
			made.DNSNames = []string{"agents.example.com"}
		}
		if name == "stranger" {
			parent, signer = made, key
		}
		if err := writeCertificate(dir, name, made, parent, key, signer); err != nil {
			return err
		}
	}
	return nil
}

func certificate(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func writeCertificate(dir, name string, made, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, made, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(file, kind string, data []byte) error {
		return os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600)
	}
	return errors.Join(write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", private))
}

// A client certificate goes to the host of the card, as other credentials do.
func TestClientCertificateStaysWithTheCard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := certify(dir); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	t.Cleanup(other.Close)
	n := &testNode{url: other.URL + "/"}
	card := n.card(nodeOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(card.AppendJSON(nil)) }))
	t.Cleanup(server.Close)
	a, _, stderr := newTestApp(map[string]string{"HOME": dir})
	code := a.run(t.Context(), []string{"send", server.URL, "hi", "--client-cert", filepath.Join(dir, "client.pem"), "--client-key", filepath.Join(dir, "client.key")})
	if code == exitOK || !strings.Contains(stderr.String(), "credentials do not go there") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestTLSHint(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	for _, tt := range []struct {
		err  error
		url  string
		want string // in the hint; "" is none
	}{
		{errors.New("remote error: tls: certificate required"), "https://a", "asks for a client certificate"},
		{errors.New("remote error: tls: unknown certificate authority"), "https://a", "asks for a client certificate"},
		{errors.New("remote error: tls: protocol version not supported"), "https://a", "its log may say why"},
		{errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "https://a", "--ca"},
		{reset, "https://a", "where it asks for a client certificate"},
		{reset, "http://a", ""},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, "https://a", "where it asks for a client certificate"},
		{errors.New("http2: client conn could not be established"), "https://a", "where it asks for a client certificate"},
		{refused, "https://a", ""},
		{errors.New("no such host"), "https://a", ""},
	} {
		if got := tlsHint(tt.err, tt.url); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%v at %s: %q, want %q", tt.err, tt.url, got, tt.want)
		}
	}
}

func TestSchemeHint(t *testing.T) {
	t.Parallel()
	const tls, plain = "The server speaks TLS there: write https:// and not http://", "The server does not speak TLS there: write http:// and not https://"
	for text, want := range map[string]string{
		"HTTP 400 Bad Request: Client sent an HTTP request to an HTTPS server.":   tls,
		"<center>The plain HTTP request was sent to HTTPS port</center>":          tls,
		"Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />": tls,
		"http: server gave HTTP response to HTTPS client":                         plain,
		"HTTP 400 Bad Request": "",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority": "",
	} {
		if got := schemeHint(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
