package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"handoff.example/handoff/config"
)

const issuerMTLS = "mtls"

// certificates finds the principal of a client certificate.
type certificates struct{ config *config.MTLS }

// verified returns the certificate that the client has shown and that TLS has
// verified, nil when there is none.
func verified(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// authenticate returns the principal of a certificate that was verified.
func (c *certificates) authenticate(certificate *x509.Certificate) (Principal, error) {
	name, err := certificateName(certificate, c.config.Subject)
	if err != nil {
		return Principal{}, err
	}
	p := Principal{
		Tenant: c.config.Tenant, Issuer: issuerMTLS, Subject: c.config.SubjectPrefix + name,
		Scopes: c.config.Scopes, Role: roles[c.config.Role],
	}
	for _, rule := range c.config.Rules {
		if matchesName(rule.Match, name) {
			p.Tenant, p.Scopes, p.Role = rule.Tenant, rule.Scopes, roles[rule.Role]
			break
		}
	}
	if err := checkPrincipal(p.Subject, p.Tenant, p.Scopes); err != nil {
		return Principal{}, err
	}
	if p.Role == RoleNone {
		return Principal{}, errors.New("no rule gives the certificate a role")
	}
	return p, nil
}

func matchesName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// certificateName returns what a certificate is called. A kind of name that is
// there more than once says nothing, since the order of names means nothing.
func certificateName(c *x509.Certificate, from config.CertificateName) (string, error) {
	for _, kind := range []config.CertificateName{config.CertificateURI, config.CertificateDNS, config.CertificateCN} {
		if from != kind && from != config.CertificateAuto {
			continue
		}
		var names []string
		switch kind {
		case config.CertificateURI:
			for _, u := range c.URIs {
				names = append(names, u.String())
			}
		case config.CertificateDNS:
			names = c.DNSNames
		case config.CertificateCN:
			if c.Subject.CommonName != "" {
				names = []string{c.Subject.CommonName}
			}
		}
		switch {
		case len(names) > 1:
			return "", errors.New("the certificate has more than one name of the kind that says who it is for")
		case len(names) == 1:
			return names[0], nil
		}
	}
	return "", errors.New("the certificate does not say who it is for")
}
