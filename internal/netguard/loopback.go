package netguard

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether a host, a name or an address without a port, reaches
// only this machine.
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
