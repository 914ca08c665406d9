package mcp

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

const (
	escapeBegin = "=?base64?"
	escapeEnd   = "?="
)

// errEscape says that an escaped value cannot be read (TRN-23).
var errEscape = errors.New("the value is marked as Base64 and is none")

// EscapeHeader returns a value as Mcp-Name and Mcp-Param-* carry it (TRN-22; MCP
// basic/transports/streamable-http §Value Encoding).
func EscapeHeader(value string) string {
	if !needsEscape(value) {
		return value
	}
	return escapeBegin + base64.StdEncoding.EncodeToString([]byte(value)) + escapeEnd
}

func needsEscape(value string) bool {
	if isEscaped(value) {
		return true
	}
	for i := range len(value) {
		if c := value[i]; c < 0x20 || c > 0x7e {
			return true
		}
	}
	return value != "" && (value[0] == ' ' || value[len(value)-1] == ' ')
}

func isEscaped(value string) bool {
	return len(value) >= len(escapeBegin)+len(escapeEnd) && strings.HasPrefix(value, escapeBegin) && strings.HasSuffix(value, escapeEnd)
}

// UnescapeHeader returns what a header carries. A value without the exact marks is
// literal (TRN-23).
func UnescapeHeader(value string) (string, error) {
	value = strings.Trim(value, " \t")
	if !isEscaped(value) {
		for i := range len(value) {
			if c := value[i]; c < 0x20 && c != '\t' || c > 0x7e {
				return "", errors.New("the value has characters that a header cannot have")
			}
		}
		return value, nil
	}
	plain, err := base64.StdEncoding.Strict().DecodeString(value[len(escapeBegin) : len(value)-len(escapeEnd)])
	if err != nil || !utf8.Valid(plain) || strings.ContainsAny(value, "\r\n") {
		return "", errEscape
	}
	return string(plain), nil
}
