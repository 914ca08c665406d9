package record

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendDigest appends the digest of a node as it is kept: a JSON object. What
// is not UTF-8 in it is replaced.
func AppendDigest(dst []byte, digest map[string]string) []byte {
	text, err := json.Marshal(digest, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil {
		return append(dst, "{}"...) // a map of strings has nothing that fails
	}
	return append(dst, text...)
}

// ParseDigest returns the digest that AppendDigest has made, nil when there is
// nothing in it.
func ParseDigest(text []byte) (map[string]string, error) {
	var digest map[string]string
	if err := json.Unmarshal(text, &digest, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("parse digest of a node: %w", err)
	}
	if len(digest) == 0 {
		return nil, nil
	}
	return digest, nil
}
