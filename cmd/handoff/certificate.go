package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tlsFlags say which servers are trusted, and who we are to them.
type tlsFlags struct {
	ca   string
	cert string
	key  string
}

// register adds the options to a command.
func (f *tlsFlags) register(cmd *cobra.Command) {
	f.add(cmd.Flags())
	_ = cmd.MarkFlagFilename("ca", "pem", "crt")
	_ = cmd.MarkFlagFilename("client-cert", "pem", "crt")
	_ = cmd.MarkFlagFilename("client-key", "pem", "key")
}

func (f *tlsFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.ca, "ca", "", "file of the CA certificates that are trusted, PEM (default: those of the system)")
	fs.StringVar(&f.cert, "client-cert", "", "file of a client certificate for mutual TLS, PEM")
	fs.StringVar(&f.key, "client-key", "", "file of the private key of --client-cert, PEM (default: the same file)")
}

// authenticates reports whether there is a client certificate.
func (f *tlsFlags) authenticates() bool { return f.cert != "" }

// config returns the TLS of a client; nil is the usual one.
func (f *tlsFlags) config() (*tls.Config, error) {
	if f.key != "" && f.cert == "" {
		return nil, usagef("--client-key goes with --client-cert")
	}
	if *f == (tlsFlags{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		data, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, usagef("--ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, usagef("--ca: %s has no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" {
		key := f.key
		if key == "" {
			key = f.cert
		}
		pair, err := tls.LoadX509KeyPair(f.cert, key)
		if err != nil {
			return nil, usagef("--client-cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// transport returns what sends requests, and the same without the client
// certificate, for what is not the agent.
func (f *tlsFlags) transport(insecure bool) (own, plain *http.Transport, err error) {
	own = http.DefaultTransport.(*http.Transport).Clone()
	if own.TLSClientConfig, err = f.config(); err != nil {
		return nil, nil, err
	}
	if insecure {
		if own.TLSClientConfig == nil {
			own.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		own.TLSClientConfig.InsecureSkipVerify = true //nolint:gosec // it is what was asked for
	}
	if !f.authenticates() {
		return own, own, nil
	}
	plain = own.Clone()
	plain.TLSClientConfig.Certificates = nil
	return own, plain, nil
}

// tlsHint says what to do about an error on the way to a URL of https, "" for one
// that has nothing to do with it.
func tlsHint(err error, url string) string {
	text := err.Error()
	switch dial, ok := errors.AsType[*net.OpError](err); {
	case strings.Contains(text, "remote error: tls: ") && strings.Contains(text, "certificate"):
		return "The server asks for a client certificate that it knows; name yours with --client-cert and --client-key"
	case strings.Contains(text, "remote error: tls: "):
		return "The server has refused the connection; its log may say why"
	case strings.Contains(text, "tls: "):
		return "If the certificate is of a CA of your own, name that with --ca; if it is for development only, add --insecure"
	case strings.HasPrefix(url, "https:") && closed(err) && !(ok && dial.Op == "dial"):
		// TLS 1.3 lets a client go on before the server has seen its certificate,
		// and what the server says then may be lost with the connection.
		return "The server has closed the connection; where it asks for a client certificate that it knows, name yours with --client-cert and --client-key"
	}
	return ""
}

// closed reports whether a connection broke.
func closed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) ||
		strings.Contains(err.Error(), "http2: client conn could not be established")
}

// schemeHint says that an address has the wrong one of http and https, "" when it
// does not look so. What servers say is all that there is to tell it by.
func schemeHint(text string) string {
	text = strings.ToLower(text)
	switch {
	case strings.Contains(text, "http request to an https server"), // Go
		strings.Contains(text, "plain http request was sent to https port"),         // nginx
		strings.Contains(text, "speaking plain http to an ssl-enabled server port"): // Apache
		return "The server speaks TLS there: write https:// and not http://"
	case strings.Contains(text, "server gave http response to https client"):
		return "The server does not speak TLS there: write http:// and not https://"
	}
	return ""
}
