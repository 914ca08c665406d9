package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Destination is where an outbound connection may go: a network or a host name,
// with a port or any.
type Destination struct {
	Prefix netip.Prefix // a network; invalid when Host is set
	Host   string       // a host name in lower case; *.domain is any name below domain
	Port   uint16       // 0 is any
}

// String returns the destination as it is written in the file.
func (d Destination) String() string {
	text := d.Host
	if d.Prefix.IsValid() {
		if text = d.Prefix.String(); d.Prefix.IsSingleIP() {
			text = d.Prefix.Addr().String()
			if d.Port != 0 && d.Prefix.Addr().Is6() {
				text = "[" + text + "]"
			}
		}
	}
	if d.Port != 0 {
		text += ":" + strconv.Itoa(int(d.Port))
	}
	return text
}

// MarshalText writes the destination as it is written in the file.
func (d Destination) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a destination.
func (d *Destination) UnmarshalText(text []byte) error {
	s := string(text)
	*d = Destination{}
	if prefix, err := ParsePrefix(s); err == nil {
		d.Prefix = prefix
		return nil
	}
	host := s
	if h, port, err := net.SplitHostPort(s); err == nil && !strings.HasPrefix(port, "/") {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("has a port that is not a number from 1 to 65535")
		}
		host, d.Port = h, uint16(n)
	}
	if strings.ContainsAny(host, "/:") || looksNumeric(host) {
		prefix, err := ParsePrefix(host)
		if err != nil {
			return errors.New("is not a network, an address or a host name, with a :port or without")
		}
		d.Prefix = prefix
		return nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if !isHostname(strings.TrimPrefix(name, "*.")) {
		return errors.New("is not a network, an address or a host name, with a :port or without")
	}
	d.Host = name
	return nil
}

// Matches reports whether a connection to an address, reached under a host
// name or under itself, is to the destination.
func (d Destination) Matches(host string, addr netip.Addr, port uint16) bool {
	if d.Port != 0 && d.Port != port {
		return false
	}
	if d.Prefix.IsValid() {
		return addr.IsValid() && d.Prefix.Contains(addr.WithZone("").Unmap())
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if domain, wild := strings.CutPrefix(d.Host, "*."); wild {
		return strings.HasSuffix(host, "."+domain)
	}
	return d.Host != "" && host == d.Host
}

// looksNumeric reports whether the last label of a host is a number, decimal or
// hexadecimal, as in an IPv4 address in any of its spellings. No public name
// ends so.
func looksNumeric(host string) bool {
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// isHostname reports whether a text is a host name (RFC 1123), with underscores
// tolerated.
func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// ParsePrefix reads a network in CIDR notation (10.0.0.0/8), or one address.
func ParsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return netip.Prefix{}, errors.New("is an address with a zone, which is not a network")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("is neither an address nor a network in CIDR notation, such as 10.0.0.0/8")
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	if prefix != prefix.Masked() {
		return netip.Prefix{}, fmt.Errorf("has bits beyond its mask; write %s", prefix.Masked())
	}
	return prefix, nil
}
