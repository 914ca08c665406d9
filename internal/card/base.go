package card

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// BaseURL returns the URL below which the node is reached, without a slash at
// its end: the configured one, or else what the request says. A proxy that is
// trusted may say otherwise in X-Forwarded-Proto, X-Forwarded-Host and
// X-Forwarded-Prefix or in Forwarded (RFC 7239); of several values the last,
// which that proxy wrote itself, counts. Where the two kinds of headers
// disagree one of them came from the client, and neither is believed.
func BaseURL(r *http.Request, publicURL string, trusted []netip.Prefix) string {
	if publicURL != "" {
		return strings.TrimRight(publicURL, "/")
	}
	scheme, host, prefix := "http", r.Host, ""
	if r.TLS != nil {
		scheme = "https"
	}
	if isTrusted(remote(r), trusted) {
		forwarded := lastForwarded(r.Header)
		proto, ok := agree(lastOf(r.Header, "X-Forwarded-Proto"), forwarded["proto"])
		if proto = strings.ToLower(proto); ok && (proto == "http" || proto == "https") {
			scheme = proto
		}
		if name, ok := agree(lastOf(r.Header, "X-Forwarded-Host"), forwarded["host"]); ok && validHost(name) {
			host = name
		}
		if p := strings.TrimRight(lastOf(r.Header, "X-Forwarded-Prefix"), "/"); validPrefix(p) {
			prefix = p
		}
	}
	if !validHost(host) {
		host = localHost(r)
	}
	return scheme + "://" + strings.ToLower(host) + prefix
}

func remote(r *http.Request) netip.Addr {
	pair, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return pair.Addr().Unmap().WithZone("")
}

func isTrusted(addr netip.Addr, trusted []netip.Prefix) bool {
	for _, prefix := range trusted {
		if addr.IsValid() && prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// agree returns what two headers say, when one is silent or both say the same.
func agree(a, b string) (string, bool) {
	switch {
	case a == "":
		return b, b != ""
	case b == "", strings.EqualFold(a, b):
		return a, true
	default:
		return "", false
	}
}

// lastOf returns the last of the values of a header, which may be lists.
func lastOf(header http.Header, name string) string {
	values := header.Values(name)
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

func lastForwarded(header http.Header) map[string]string {
	elements := forwardedElements(header)
	if len(elements) == 0 {
		return nil
	}
	return elements[len(elements)-1]
}

// forwardedElements reads the Forwarded headers (RFC 7239 §4). One that is
// malformed makes all of them nothing.
func forwardedElements(header http.Header) []map[string]string {
	var elements []map[string]string
	for _, value := range header.Values("Forwarded") {
		current := map[string]string{}
		for rest := value; ; {
			var name, text string
			var ok bool
			rest = strings.TrimLeft(rest, " \t")
			if rest == "" {
				break
			}
			if name, rest, ok = strings.Cut(rest, "="); !ok {
				return nil
			}
			if text, rest, ok = forwardedValue(rest); !ok {
				return nil
			}
			name = strings.ToLower(strings.TrimSpace(name))
			if _, twice := current[name]; twice {
				return nil
			}
			current[name] = text
			rest = strings.TrimLeft(rest, " \t")
			if rest == "" {
				break
			}
			separator := rest[0]
			rest = rest[1:]
			if separator == ',' {
				elements = append(elements, current)
				current = map[string]string{}
			} else if separator != ';' {
				return nil
			}
		}
		elements = append(elements, current)
	}
	return elements
}

// forwardedValue reads a token or a quoted string and returns the rest.
func forwardedValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ";, \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// validHost reports whether a text is a host name, an IPv4 address or an IPv6
// address in brackets, with a port or without, and nothing else.
func validHost(text string) bool {
	if text == "" || len(text) > 255 {
		return false
	}
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		port := text[i+1:]
		if port == "" || len(port) > 5 || strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = text[:i]
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return closed && err == nil && addr.Is6() && addr.Zone() == ""
	}
	if host == "" || host[0] == '.' || strings.Contains(host, "..") {
		return false
	}
	for _, c := range []byte(host) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}

// validPrefix reports whether a text is the path of a proxy's location.
func validPrefix(text string) bool {
	if !strings.HasPrefix(text, "/") || len(text) > 255 {
		return false
	}
	for segment := range strings.SplitSeq(text[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
		for _, c := range []byte(segment) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~", rune(c)) {
				return false
			}
		}
	}
	return true
}

// localHost returns the address at which a request was received.
func localHost(r *http.Request) string {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, err := netip.ParseAddrPort(addr.String()); err == nil {
			return addr.String()
		}
	}
	return "localhost"
}
