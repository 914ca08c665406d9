package api

import (
	_ "embed" // the document
	"fmt"
	"net/http"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var openAPISource []byte

// openAPIDocument is the description of the API as JSON. A test reads it, so
// that it cannot be wrong.
var openAPIDocument = sync.OnceValues(func() ([]byte, error) {
	document, err := yaml.YAMLToJSON(openAPISource)
	if err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	return document, nil
})

// OpenAPI returns the description of the API (OpenAPI 3.1) as JSON.
func OpenAPI() ([]byte, error) { return openAPIDocument() }

// openAPI serves the description of the API.
func (c *call) openAPI() (any, error) {
	document, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	c.send(http.StatusOK, "application/json", document)
	return nil, nil
}
