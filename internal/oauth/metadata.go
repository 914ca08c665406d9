package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Well-known names of metadata of an authorization server.
const (
	wellKnownOAuth  = "/.well-known/oauth-authorization-server" // RFC 8414 §3
	wellKnownOpenID = "/.well-known/openid-configuration"       // OpenID Connect Discovery §4
)

// MetadataURLs returns where the metadata of an issuer may be, in the order in which
// they are tried: the name of RFC 8414 before the path, that of OpenID Connect
// before the path, and that after the path, which for an issuer without a path are
// two (AUT-15). A slash at the end of the issuer is of no matter (RFC 8414 §3.1).
func MetadataURLs(issuer string) ([]string, error) {
	if err := CheckURL(issuer); err != nil {
		return nil, fmt.Errorf("the issuer %w", err)
	}
	if strings.Contains(issuer, "?") {
		return nil, errors.New("the issuer has a query")
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, errors.New("the issuer is not a URL")
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{base + wellKnownOAuth + path, base + wellKnownOpenID + path}
	if path != "" {
		places = append(places, base+path+wellKnownOpenID)
	}
	return places, nil
}

// MetadataError says why what an authorization server says of itself is not used.
type MetadataError struct {
	Place string // URL of the metadata, or the issuer
	Err   error
}

// Error names the place and the cause.
func (e *MetadataError) Error() string {
	return fmt.Sprintf("read what the authorization server says of itself at %s: %v", clean(e.Place), e.Err)
}

// Unwrap returns the cause.
func (e *MetadataError) Unwrap() error { return e.Err }

// Discover returns what the authorization server of an issuer says of itself, from
// the first of MetadataURLs that has it. A document of another issuer is not used
// (RFC 8414 §3.3). Its error is a *MetadataError.
func Discover(ctx context.Context, c *http.Client, issuer string) (*Server, error) {
	places, err := MetadataURLs(issuer)
	if err != nil {
		return nil, &MetadataError{issuer, err}
	}
	var first error // what is wrong with a document says more than that there is none elsewhere
	for _, place := range places {
		s, err := fetch(ctx, c, place)
		if err == nil && s.Issuer != issuer {
			err = fmt.Errorf("it is of another issuer: %s", clean(s.Issuer))
		}
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, &MetadataError{place, context.Cause(ctx)}
		}
		if _, none := errors.AsType[absent](err); first == nil && !none {
			first = &MetadataError{place, err}
		}
	}
	if first != nil {
		return nil, first
	}
	return nil, &MetadataError{issuer, errors.New("there is none")}
}

// DiscoverAt returns what the authorization server says of itself at a URL, such as
// the oauth2MetadataUrl or the openIdConnectUrl of an agent card. The document has
// to be of the issuer that the URL belongs to. Its error is a *MetadataError.
func DiscoverAt(ctx context.Context, c *http.Client, place string) (*Server, error) {
	if err := CheckURL(place); err != nil {
		return nil, &MetadataError{place, err}
	}
	s, err := fetch(ctx, c, place)
	if err != nil {
		return nil, &MetadataError{place, err}
	}
	places, err := MetadataURLs(s.Issuer)
	if err != nil {
		return nil, &MetadataError{place, err}
	}
	if !slices.Contains(places, place) {
		return nil, &MetadataError{place, fmt.Errorf("it is of another issuer: %s", clean(s.Issuer))}
	}
	return s, nil
}

// absent says that there is no document at a place.
type absent int

// Error names the HTTP status.
func (a absent) Error() string { return fmt.Sprintf("HTTP %d", int(a)) }

func fetch(ctx context.Context, c *http.Client, place string) (*Server, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, errors.New("the address is not valid")
	}
	r.Header.Set("Accept", "application/json")
	response, err := bounded(c).Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	switch status := response.StatusCode; {
	case status >= 400 && status < 500:
		return nil, absent(status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d", status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxAnswer:
		return nil, errors.New("the document is too large")
	}
	return readMetadata(body)
}

// readMetadata reads the document of a server (RFC 8414 §2).
func readMetadata(body []byte) (*Server, error) {
	var d struct {
		Issuer        string   `json:"issuer"`
		Authorization string   `json:"authorization_endpoint"`
		Token         string   `json:"token_endpoint"`
		Registration  string   `json:"registration_endpoint"`
		Scopes        []string `json:"scopes_supported"`
		Grants        []string `json:"grant_types_supported"`
		ClientAuth    []string `json:"token_endpoint_auth_methods_supported"`
		Challenges    []string `json:"code_challenge_methods_supported"`
		NamesIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
		Documents     bool     `json:"client_id_metadata_document_supported"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, errors.New("the document is not the JSON that it should be")
	}
	for name, address := range map[string]string{"authorization_endpoint": d.Authorization, "token_endpoint": d.Token, "registration_endpoint": d.Registration} {
		if address == "" {
			continue
		}
		if err := CheckURL(address); err != nil {
			return nil, fmt.Errorf("its %s %w", name, err)
		}
	}
	for _, list := range [][]string{d.Scopes, d.Grants, d.ClientAuth, d.Challenges} {
		if len(list) > maxList {
			return nil, fmt.Errorf("one of its lists has more than %d entries", maxList)
		}
	}
	return &Server{
		Issuer: d.Issuer, AuthorizationURL: d.Authorization, TokenURL: d.Token, RegistrationURL: d.Registration,
		Scopes: d.Scopes, GrantTypes: d.Grants, ClientAuth: d.ClientAuth, Challenges: d.Challenges,
		NamesIssuer: d.NamesIssuer, ClientDocuments: d.Documents,
	}, nil
}
