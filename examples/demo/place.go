package demo

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"handoff.example/handoff/internal/auth"
	"handoff.example/handoff/internal/store/sqlite"
)

//go:embed company.yaml supplier.yaml finance.yaml
var configurations embed.FS

//go:embed model.yaml
var modelConfiguration []byte // goes on with that of the company

// The parts of the system that listen. The first three are nodes.
const (
	company  = "company"
	supplier = "supplier"
	finance  = "finance"
	erpRead  = "erp-read"
	erpDraft = "erp-draft"
	erpPost  = "erp-post"
	books    = "books"
)

var (
	nodes = []string{company, supplier, finance}
	tools = []string{erpRead, erpDraft, erpPost, books}
)

// People of the story, and whom it reads the record as. They have API keys of the
// company's node.
const (
	rina   = "Rina" // orders
	budi   = "Budi" // approves
	reader = "demo"
	agent  = "procurement" // the agent, as a caller of the gateway
)

var roles = map[string]auth.Role{rina: auth.RoleOperator, budi: auth.RoleOperator, reader: auth.RoleAdmin, agent: auth.RoleCaller}

// place is a directory with all that the system keeps.
type place struct {
	dir string

	Address map[string]string `json:"address"` // of each part
	Key     map[string]string `json:"key"`     // that opens a part, or that somebody has
	Secret  map[string]string `json:"secret"`  // secret key of each node
	Orders  int               `json:"orders"`  // that were given
	Model   *Model            `json:"model,omitempty"`
}

// Model is one with the API of OpenAI's chat completions. Its key, if it wants one, is
// in HANDOFF_LLM_KEY.
type Model struct {
	URL  string `json:"url"` // of the API, up to and with its version
	Name string `json:"name"`
}

const placeFile = "demo.json"

// settle makes a place of a directory, or finds what is there. The listeners are those
// of a new one, whose addresses are nobody else's then.
func settle(ctx context.Context, dir string, port int) (p *place, open map[string]net.Listener, err error) {
	open = map[string]net.Listener{}
	defer func() {
		if err != nil {
			closeAll(open)
		}
	}()
	text, err := os.ReadFile(filepath.Join(dir, placeFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("read place: %w", err)
	}
	if p, err = read(dir, text); err != nil {
		return nil, nil, err
	}
	if port != 0 || p.Address[company] == "" {
		p.Address[company] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	for _, part := range append(nodes, tools...) {
		if open[part], err = listen(p.Address[part]); err != nil {
			delete(open, part)
			return nil, nil, err
		}
		p.Address[part] = open[part].Addr().String()
	}
	if text == nil {
		if err := p.furnish(ctx); err != nil {
			return nil, nil, err
		}
	}
	return p, open, nil
}

// read returns a place as it is kept, or one that is empty.
func read(dir string, text []byte) (*place, error) {
	p := &place{dir: dir, Address: map[string]string{}, Key: map[string]string{}, Secret: map[string]string{}}
	if text == nil {
		return p, nil
	}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("read %s: %w", p.file(placeFile), err)
	}
	return p, nil
}

func listen(address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &AddressError{Address: address, Err: err}
	}
	return listener, nil
}

func closeAll(listeners map[string]net.Listener) {
	for _, l := range listeners {
		_ = l.Close()
	}
}

// AddressError says that an address cannot be listened on.
type AddressError struct {
	Address string
	Err     error
}

// Error returns what is wrong.
func (e *AddressError) Error() string { return "listen on " + e.Address + ": " + e.Err.Error() }

// Unwrap returns the error of the listener.
func (e *AddressError) Unwrap() error { return e.Err }

// furnish makes the keys with which the parts know each other, and their owners.
func (p *place) furnish(ctx context.Context) error {
	for _, part := range tools {
		p.Key[part] = rand.Text()
	}
	for _, node := range nodes {
		p.Secret[node] = rand.Text() + rand.Text()
		if err := os.MkdirAll(p.file(node), 0o700); err != nil {
			return fmt.Errorf("make place: %w", err)
		}
		if err := p.issue(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// issue makes the API keys of a node, which does not run yet.
func (p *place) issue(ctx context.Context, node string) (err error) {
	store, err := sqlite.Open(ctx, p.file(node, "handoff.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	keys := auth.NewKeys(store, nil)
	issue := func(name, subject string, role auth.Role) error {
		text, _, err := keys.Create(ctx, &auth.KeyRequest{Subject: subject, Role: role, By: reader})
		p.Key[name] = text
		return err
	}
	if node != company {
		return issue(node, company, auth.RoleCaller)
	}
	for subject, role := range roles {
		err = errors.Join(err, issue(subject, subject, role))
	}
	return err
}

// write keeps the place, and the configurations of the nodes, which name it.
func (p *place) write() error {
	var values []string
	for _, of := range []struct {
		suffix string
		values map[string]string
	}{{"", p.Address}, {".key", p.Key}, {".secret", p.Secret}} {
		for name, value := range of.values {
			values = append(values, "{"+name+of.suffix+"}", value)
		}
	}
	if p.Model != nil {
		values = append(values, "{model.url}", p.Model.URL, "{model.name}", p.Model.Name)
	}
	for _, node := range nodes {
		text, err := configurations.ReadFile(node + ".yaml")
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		if node == company && p.Model != nil {
			text = append(text, modelConfiguration...)
		}
		if err := os.WriteFile(p.configuration(node), []byte(strings.NewReplacer(values...).Replace(string(text))), 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	return p.keep()
}

func (p *place) keep() error {
	text, err := json.Marshal(p, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = os.WriteFile(p.file(placeFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write place: %w", err)
	}
	return nil
}

func (p *place) file(name ...string) string {
	return filepath.Join(append([]string{p.dir}, name...)...)
}

func (p *place) configuration(node string) string { return p.file(node, "handoff.yaml") }

func (p *place) url(part string) string { return "http://" + p.Address[part] }
