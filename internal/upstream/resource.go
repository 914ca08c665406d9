package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/internal/netguard"
	"handoff.example/handoff/internal/oauth"
)

// challenge is what a server asks for with a 401 or 403 (RFC 6750 §3, RFC 9728
// §5.1).
type challenge struct {
	metadata string   // URL of what the server says of itself
	scopes   []string // that are needed now
	problem  string   // such as insufficient_scope
}

// challengeOf reads the challenge of a response.
func challengeOf(r *http.Response) challenge {
	for _, value := range r.Header.Values("WWW-Authenticate") {
		if params, ok := bearerParams(value); ok {
			return challenge{metadata: params["resource_metadata"], scopes: strings.Fields(params["scope"]), problem: params["error"]}
		}
	}
	return challenge{}
}

// bearerParams returns the parameters of the challenge of the scheme Bearer in a
// header that may hold several (RFC 9110 §11.6.1).
func bearerParams(value string) (map[string]string, bool) {
	if len(value) > 8<<10 {
		return nil, false
	}
	params, found := map[string]string{}, false
	for value = strings.TrimLeft(value, " \t,"); value != ""; value = strings.TrimLeft(value, " \t,") {
		end := strings.IndexAny(value, " \t,=")
		if end < 0 {
			end = len(value)
		}
		word := value[:end]
		rest := strings.TrimLeft(value[end:], " \t")
		if !strings.HasPrefix(rest, "=") { // a scheme
			if found {
				break
			}
			found = strings.EqualFold(word, "Bearer")
			value = rest
			if end == 0 {
				return nil, false
			}
			continue
		}
		var text string
		text, value = paramValue(strings.TrimLeft(rest[1:], " \t"))
		if _, twice := params[strings.ToLower(word)]; found && !twice {
			params[strings.ToLower(word)] = text
		}
	}
	return params, found
}

// paramValue reads a token or a quoted text, and returns what follows it.
func paramValue(value string) (text, rest string) {
	if !strings.HasPrefix(value, `"`) {
		end := strings.IndexAny(value, " \t,")
		if end < 0 {
			end = len(value)
		}
		return value[:end], value[end:]
	}
	var b strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			return b.String(), value[i+1:]
		case c == '\\' && i+1 < len(value):
			i++
			b.WriteByte(value[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// resource is what a server says of itself (RFC 9728 §3.2).
type resource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

const maxMetadata = 256 << 10

// describeResource asks a server which authorization servers it believes: where its
// challenge says, or else below the well-known name (AUT-04). A server that says
// nothing is taken for one of before that, whose authorization server is at its own
// origin.
func (c *login) describeResource(ctx context.Context, asked challenge) (*resource, error) {
	u, err := url.Parse(c.h.url)
	if err != nil {
		return nil, fmt.Errorf("read URL of the server: %w", err)
	}
	origin := u.Scheme + "://" + u.Host
	const name = "/.well-known/oauth-protected-resource"
	places := []string{asked.metadata}
	if asked.metadata == "" {
		places = []string{origin + name}
		if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
			places = []string{origin + name + path, origin + name}
		}
	}
	for _, place := range places {
		found, err := c.fetchResource(ctx, place)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		if !covers(found.Resource, u) {
			return nil, fmt.Errorf("what is at %s is of another resource: %.200q", clip(place, 200), found.Resource)
		}
		if len(found.Servers) == 0 {
			return nil, fmt.Errorf("what is at %s names no authorization server", clip(place, 200))
		}
		return found, nil
	}
	if asked.metadata != "" {
		return nil, fmt.Errorf("there is nothing at %s, where the server says that it describes itself", clip(asked.metadata, 200))
	}
	return &resource{Resource: canonical(u), Servers: []string{origin}}, nil
}

// fetchResource returns what is at a place; nil where there is nothing.
func (c *login) fetchResource(ctx context.Context, place string) (*resource, error) {
	if err := oauth.CheckURL(place); err != nil {
		return nil, fmt.Errorf("the place where the server describes itself %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.h.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, errors.New("the place where the server describes itself is not a URL")
	}
	request.Header.Set("Accept", typeJSON)
	response, err := c.wayTo(place).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the server to describe itself: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 4 {
		return nil, nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the server to describe itself: %w", &statusError{status: response.StatusCode})
	}
	body, err := netguard.ReadAll(response.Body, maxMetadata)
	if err != nil {
		return nil, fmt.Errorf("ask the server to describe itself: %w", err)
	}
	found := &resource{}
	if err := json.Unmarshal(body, found); err != nil {
		return nil, fmt.Errorf("read how the server describes itself: %w", err)
	}
	return found, nil
}

// covers reports whether a resource is a server, or what it is a part of: the same
// origin, and its path or one above it.
func covers(text string, server *url.URL) bool {
	u, err := url.Parse(text)
	if err != nil || u.Fragment != "" || !netguard.SameOrigin(u, server) {
		return false
	}
	above, path := strings.TrimSuffix(u.EscapedPath(), "/"), strings.TrimSuffix(server.EscapedPath(), "/")
	return path == above || strings.HasPrefix(path, above+"/")
}

// canonical returns the URI of a server (AUT-14).
func canonical(u *url.URL) string {
	v := *u
	v.Scheme, v.Host = strings.ToLower(v.Scheme), strings.ToLower(v.Host)
	v.Fragment, v.User = "", nil
	v.Path = strings.TrimSuffix(v.Path, "/")
	return v.String()
}
