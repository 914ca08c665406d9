package mcpgw

import (
	"net"
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

func isLoopbackHost(host string) bool {
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func isLoopbackAddress(address string) bool {
	pair, err := netip.ParseAddrPort(address)
	return err == nil && pair.Addr().Unmap().IsLoopback()
}
