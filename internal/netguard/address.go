package netguard

import (
	"net/netip"
)

// special are the networks that are not the public internet, with what they
// are (the IANA registries of special-purpose addresses). The first that
// contains an address names it.
var special = []struct {
	prefix netip.Prefix
	reason string
}{
	// Metadata services of clouds, named before the networks they are in.
	{netip.MustParsePrefix("169.254.169.254/32"), "cloud metadata"},
	{netip.MustParsePrefix("169.254.170.2/32"), "cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"},
	{netip.MustParsePrefix("192.0.0.192/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), "cloud metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "cloud metadata"},

	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT"},
	{netip.MustParsePrefix("192.0.0.0/24"), "protocol assignment"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), "protocol assignment"},
	{netip.MustParsePrefix("192.52.193.0/24"), "protocol assignment"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay"},
	{netip.MustParsePrefix("192.175.48.0/24"), "protocol assignment"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"}, // with broadcast

	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("100::/64"), "discard"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "protocol assignment"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local translation"},
}

// Networks whose addresses carry an IPv4 address, which a translator or a
// tunnel would reach.
var (
	compatible = netip.MustParsePrefix("::/96")        // RFC 4291, deprecated
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")    // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")    // RFC 4380
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	assigned   = netip.MustParsePrefix("2001::/23") // protocol assignments
	global     = netip.MustParsePrefix("2000::/3")
)

// reasonBlocked says why an address is not public, or "" when it is. The
// address is looked at as what it reaches: the IPv4 address in an IPv6 one.
func reasonBlocked(addr netip.Addr) string {
	if !addr.IsValid() {
		return "not an address"
	}
	addr = addr.WithZone("").Unmap()
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.reason
		}
	}
	if addr.Is4() {
		return ""
	}
	b := addr.As16()
	switch {
	case compatible.Contains(addr):
		return embedded("IPv4-compatible", [4]byte(b[12:16]), true)
	case translated.Contains(addr):
		return embedded("IPv4-translated", [4]byte(b[12:16]), true)
	case nat64.Contains(addr):
		return embedded("NAT64", [4]byte(b[12:16]), false)
	case sixToFour.Contains(addr):
		return embedded("6to4", [4]byte(b[2:6]), false)
	case teredo.Contains(addr):
		return "Teredo"
	case assigned.Contains(addr):
		return "protocol assignment"
	case !global.Contains(addr):
		return "not global unicast"
	}
	return ""
}

// embedded judges an address that carries an IPv4 address.
func embedded(form string, v4 [4]byte, always bool) string {
	if reason := reasonBlocked(netip.AddrFrom4(v4)); reason != "" {
		return reason + " in " + form + " form"
	}
	if always {
		return form
	}
	return ""
}
