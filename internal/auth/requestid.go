package auth

import "math/rand/v2"

// maxRequestID bounds the id that a request brings, in bytes.
const maxRequestID = 128

// RequestID takes the id that a client or a proxy has given to a request in
// X-Request-Id, if it can stand in a log, or makes one.
func RequestID(given []string) string {
	if len(given) == 1 && len(given[0]) > 0 && len(given[0]) <= maxRequestID && isRequestID(given[0]) && Redact(given[0]) == given[0] {
		return given[0]
	}
	const digits = "0123456789abcdef"
	var id [16]byte
	for n, i := rand.Uint64(), 0; i < len(id); n, i = n>>4, i+1 {
		id[i] = digits[n&15]
	}
	return string(id[:])
}

func isRequestID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}
