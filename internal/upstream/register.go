package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/oauth"
	"handoff.example/handoff/internal/store"
)

// clientName is what people see at an authorization server.
const clientName = "Handoff"

// client returns what the node is at an authorization server: what the configuration
// says; or the URL of its own document, where the server takes one; or what it has
// registered there (AUT-18).
func (c *login) client(ctx context.Context, s *oauth.Server) (*oauth.Client, error) {
	client := &oauth.Client{Server: *s, HTTP: c.wayTo(s.TokenURL), Now: c.h.now}
	base := c.desk.base()
	switch {
	case c.config.ClientID != "":
		client.ID, client.Secret = c.config.ClientID, c.config.ClientSecret.Reveal()
		if c.config.ClientAuth == config.OAuthClientBody {
			client.Auth = oauth.AuthBody
		}
	case s.ClientDocuments && strings.HasPrefix(base, "https://"):
		client.ID = base + ClientPath // AUT-19
	case s.RegistrationURL != "" && base != "":
		known, err := c.registered(ctx, s)
		if err != nil {
			return nil, err
		}
		client.ID, client.Secret, client.Auth = known.ID, known.Secret, known.Auth
	default:
		return nil, fmt.Errorf("the node is not known to the authorization server %s: set auth.oauth.client_id", clip(s.Issuer, 200))
	}
	return client, nil
}

// registration is what the node is at an authorization server that it has registered
// at. It is of use there only (AUT-20).
type registration struct {
	Issuer  string           `json:"issuer"`
	ID      string           `json:"client_id"`
	Secret  string           `json:"client_secret,omitempty"`
	Auth    oauth.ClientAuth `json:"auth,omitempty"`
	Expires time.Time        `json:"expires,omitzero"` // of the secret
}

// registered returns the registration at an authorization server, and registers
// where there is none (RFC 7591).
func (c *login) registered(ctx context.Context, s *oauth.Server) (*registration, error) {
	leave, err := c.enter(ctx, "client\x00"+s.Issuer)
	if err != nil {
		return nil, err
	}
	defer leave()
	key := hashOf(s.Issuer + "\x00" + c.desk.base() + CallbackPath)
	known := &registration{}
	version, err := c.desk.read(ctx, spaceClient, key, known)
	switch {
	case err == nil && known.Issuer == s.Issuer && (known.Expires.IsZero() || c.h.now().Before(known.Expires)):
		return known, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("read registration: %w", err)
	}
	made, err := c.register(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := c.desk.write(ctx, spaceClient, key, version, made, time.Time{}); err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, fmt.Errorf("keep registration: %w", err)
	}
	return made, nil
}

// authMethods are the ways to show a client's secret, in the order of preference.
var authMethods = []struct {
	name string
	auth oauth.ClientAuth
}{{"client_secret_basic", oauth.AuthBasic}, {"client_secret_post", oauth.AuthBody}, {"none", oauth.AuthAny}}

// register registers the node.
func (c *login) register(ctx context.Context, s *oauth.Server) (*registration, error) {
	if err := oauth.CheckURL(s.RegistrationURL); err != nil {
		return nil, fmt.Errorf("register at the authorization server: the address %w", err)
	}
	asked := c.desk.document("")
	for _, one := range authMethods {
		if slices.Contains(s.ClientAuth, one.name) || len(s.ClientAuth) == 0 {
			asked.AuthMethod = one.name
			break
		}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("register at the authorization server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.h.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.RegistrationURL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("register at the authorization server: the address is not a URL")
	}
	request.Header.Set("Content-Type", typeJSON)
	request.Header.Set("Accept", typeJSON)
	response, err := c.wayTo(s.RegistrationURL).Do(request)
	if err != nil {
		return nil, fmt.Errorf("register at the authorization server: %w", err)
	}
	defer response.Body.Close()
	content, err := netguard.ReadAll(response.Body, maxMetadata)
	if err != nil {
		return nil, fmt.Errorf("register at the authorization server: %w", err)
	}
	return readRegistration(s, response.StatusCode, content)
}

// readRegistration reads the answer to a registration (RFC 7591 §3.2).
func readRegistration(s *oauth.Server, status int, content []byte) (*registration, error) {
	var answer struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Expires int64  `json:"client_secret_expires_at"`
		Method  string `json:"token_endpoint_auth_method"`
		Error   string `json:"error"`
		Text    string `json:"error_description"`
	}
	err := json.Unmarshal(content, &answer)
	if status/100 != 2 || err != nil || answer.ID == "" {
		return nil, fmt.Errorf("the authorization server %s does not register the node: status %d, %.100q, %.300q", clip(s.Issuer, 200), status, answer.Error, answer.Text)
	}
	made := &registration{Issuer: s.Issuer, ID: answer.ID, Secret: answer.Secret}
	if answer.Expires > 0 {
		made.Expires = time.Unix(answer.Expires, 0)
	}
	for _, one := range authMethods {
		if one.name == answer.Method {
			made.Auth = one.auth
		}
	}
	if answer.Method == "none" {
		made.Secret = ""
	}
	return made, nil
}

// clientDocument describes the node to authorization servers: as the document that
// its id is the URL of (AUT-19), and in registrations.
type clientDocument struct {
	ID            string   `json:"client_id,omitempty"`
	Name          string   `json:"client_name"`
	URI           string   `json:"client_uri,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	Application   string   `json:"application_type"`
}

// document returns it.
func (l *Login) document(id string) *clientDocument {
	base := l.base()
	d := &clientDocument{
		ID: id, Name: clientName, RedirectURIs: []string{base + CallbackPath}, AuthMethod: "none",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Application: "web",
	}
	if u, err := url.Parse(base); err == nil && netguard.IsLoopback(u.Hostname()) {
		d.Application = "native"
	}
	return d
}
