package mcpgw

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

func isLoopbackAddress(address string) bool {
	pair, err := netip.ParseAddrPort(address)
	return err == nil && pair.Addr().Unmap().IsLoopback()
}

// hasCredential reports whether a request has what a page of somebody else cannot
// send.
func hasCredential(r *http.Request) bool {
	return r.Header["Authorization"] != nil || r.Header["X-Api-Key"] != nil || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}
