package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hidden is shown in the place of a secret.
const hidden = "***"

// What may be secret in an address of which nothing else is known: everything
// between :// and the last @ of the word, and the value of a password.
var (
	userinfo = regexp.MustCompile(`://[^\s"']*@`)
	shown    = regexp.MustCompile(`^://[^:@/?#]*:\*\*\*@$`)
	named    = regexp.MustCompile(`(?i)(password|passwd)(\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&"',]+)`)
)

// Conceal hides in a text, such as a message of another program, what may be
// the credentials of an address: what stands before an @, and the value of
// password=. The rest stays readable.
func Conceal(text string) string {
	if strings.Contains(text, "@") {
		text = userinfo.ReplaceAllStringFunc(text, func(found string) string {
			if shown.MatchString(found) {
				return found // hidden already
			}
			return "://" + hidden + "@"
		})
	}
	if strings.Contains(text, "=") {
		text = named.ReplaceAllString(text, "${1}${2}"+hidden)
	}
	return text
}

// StoreName returns the store for people, without its password.
func (c *Config) StoreName() string { return showAddresses(c.Store) }

// BusName returns the bus for people, without its credentials. It is "postgres"
// for a PostgreSQL store whose configuration names no bus, and "" when there is
// none.
func (c *Config) BusName() string {
	if c.Bus == "" && c.UsesPostgres() {
		return busPostgres
	}
	return showAddresses(c.Bus)
}

// UsesNATS reports whether the bus is NATS, so that Bus has the addresses of its
// servers with commas between them.
func (c *Config) UsesNATS() bool { return c.Bus != "" && c.Bus != busPostgres }

// busPostgres is the bus that a PostgreSQL store has anyway.
const busPostgres = "postgres"

// UsesPostgres reports whether the store is a PostgreSQL database, which
// several nodes can use at once.
func (c *Config) UsesPostgres() bool { return isPostgres(c.Store) }

func isPostgres(store string) bool {
	return strings.HasPrefix(store, "postgres://") || strings.HasPrefix(store, "postgresql://")
}

// showAddresses returns the address of a store or a bus without secrets.
func showAddresses(text string) string {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok {
		return Conceal(text) // sqlite: and a path, say
	}
	if isPostgres(text) {
		return showAddress(text)
	}
	if !knownScheme.MatchString(scheme) {
		return hidden
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		parts[i] = showAddress(part)
	}
	return strings.Join(parts, ",")
}

var knownScheme = regexp.MustCompile(`^[a-z][a-z0-9+.-]{0,30}$`)

func showAddress(text string) string {
	a, err := parseAddress(text)
	if err != nil {
		// What is wrong may be the password, and so anywhere.
		scheme, _, _ := strings.Cut(text, "://")
		if !knownScheme.MatchString(scheme) {
			return hidden
		}
		return scheme + "://" + hidden
	}
	shown := a.scheme + "://"
	switch {
	case a.hasPassword:
		shown += a.user + ":" + hidden + "@"
	case a.user != "" && isPostgres(text):
		shown += a.user + "@"
	case a.user != "":
		shown += hidden + "@" // it may be a token
	}
	shown += strings.Join(a.hosts, ",")
	if a.path != "" {
		shown += "/" + a.path
	}
	for i, p := range a.params {
		name, _, _ := strings.Cut(p, "=")
		if decoded, err := url.PathUnescape(name); err != nil || slices.ContainsFunc(secretParams, func(s string) bool { return strings.Contains(strings.ToLower(decoded), s) }) {
			p = name + "=" + hidden
		}
		shown += map[bool]string{true: "?", false: "&"}[i == 0] + p
	}
	return shown
}

// secretParams are in the names of parameters whose values are not shown.
var secretParams = []string{"pass", "secret", "token"}

// address is a URL such as PostgreSQL and NATS have: of several hosts, perhaps.
// Its parts are as they are written.
type address struct {
	scheme      string
	user        string
	hasPassword bool
	hosts       []string // host or host:port
	path        string   // without the slash before it
	params      []string // name=value
}

// param returns the value of the last of the parameters with one of those
// names.
func (a *address) param(names ...string) (value string, ok bool) {
	for _, p := range a.params {
		if name, text, _ := strings.Cut(p, "="); slices.Contains(names, name) {
			value, ok = text, true
		}
	}
	return value, ok
}

// errEscape says what is wrong with most addresses that cannot be read.
var errEscape = errors.New("has a character before or in its host that has to be escaped")

// parseAddress reads an address. Its error repeats nothing of it. Where a
// password has a character that it cannot have, the error is errEscape.
func parseAddress(text string) (*address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("has no ://")
	}
	a := &address{scheme: scheme}
	for i := range len(rest) {
		switch c := rest[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte("#\"<>\\^`{|}", c) >= 0:
			return nil, errEscape
		case c == '%':
			if i+2 >= len(rest) {
				return nil, errEscape
			}
			if n, err := strconv.ParseUint(rest[i+1:i+3], 16, 8); err != nil || n == 0 {
				return nil, errEscape
			}
		}
	}
	if before, after, ok := strings.Cut(rest, "@"); ok {
		// An @, / or ? within a password ends it: what follows would be taken
		// for the host.
		if strings.ContainsAny(before, "/?") || strings.Contains(after, "@") {
			return nil, errEscape
		}
		a.user, _, a.hasPassword = strings.Cut(before, ":")
		rest = after
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	a.path = path
	if query != "" {
		a.params = strings.Split(query, "&")
	}
	for _, p := range a.params {
		if strings.Count(p, "=") != 1 {
			return nil, errors.New("has a parameter that is not of the form name=value")
		}
	}
	if hosts == "" {
		return a, nil
	}
	a.hosts = strings.Split(hosts, ",")
	for _, h := range a.hosts {
		if err := checkHost(h); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// hostName is a name, an IPv4 address, an IPv6 address in brackets, or an
// escaped path of a socket.
var hostName = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+(%25[A-Za-z0-9._~-]+)?\]|[A-Za-z0-9._~%-]+)$`)

// checkHost checks host or host:port.
func checkHost(text string) error {
	name, port, hasPort := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		name, port, hasPort = text[:i], text[i+1:], true
	}
	if name == "" {
		return errors.New("names no host")
	}
	if !hostName.MatchString(name) {
		return errEscape
	}
	if n, err := strconv.Atoi(port); hasPort && (err != nil || n < 1 || n > 65535) {
		return errors.New("has a port that is not a number from 1 to 65535")
	}
	return nil
}

// Hints about addresses.
const (
	hintStore    = "write it like sqlite:handoff.db or postgres://USER:PASSWORD@HOST:5432/DATABASE"
	hintPostgres = "write it like postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full"
	hintEscape   = "escape what is special in its user and password: %40 for @, %3A for :, %2F for /, %3F for ?, %23 for #, %25 for %, %20 for a blank"
	hintBus      = "write it like nats://HOST:4222, with commas between several, and tls:// for TLS"
)

// checkPostgres returns what is wrong with the address of a database, and what
// to do. It repeats nothing of it that may be secret.
func checkPostgres(text string) (message, hint string) {
	a, err := parseAddress(text)
	if err != nil {
		return wrongAddress(err, hintPostgres)
	}
	database := a.path
	if name, ok := a.param("dbname", "database"); ok {
		database = name
	}
	host, _ := a.param("host", "hostaddr")
	switch {
	case len(a.hosts) == 0 && host == "":
		return "names no host", hintPostgres
	case database == "":
		return "names no database", hintPostgres
	}
	return a.checkParams()
}

func wrongAddress(err error, hint string) (string, string) {
	if errors.Is(err, errEscape) {
		return "cannot be read", hintEscape
	}
	return err.Error(), hint
}

// storeAddress checks a store that is a database, and reports whether it is one.
func (v *validator) storeAddress() bool {
	c := v.config
	scheme, _, _ := strings.Cut(c.Store, ":")
	switch {
	case isPostgres(c.Store):
		if message, hint := checkPostgres(c.Store); message != "" {
			v.problem("store", hint, "%s", message)
		} else if c.source != nil && c.source.dir != "" {
			v.storeFiles()
		}
		return true
	case scheme == "postgres" || scheme == "postgresql":
		v.problem("store", hintPostgres, "has no // behind %s:", scheme)
		return true
	}
	return false
}

// bus checks over what nodes tell each other.
func (v *validator) bus() {
	c := v.config
	switch {
	case c.Bus == "":
	case !c.UsesPostgres():
		v.problem("bus", "leave it out, or name a PostgreSQL database in store", "is for several nodes, and a SQLite store has one")
	case c.Bus == busPostgres:
	default:
		for i, part := range strings.Split(c.Bus, ",") {
			if message, hint := checkNATS(part); message != "" {
				if i > 0 {
					message = fmt.Sprintf("%s (number %d)", message, i+1)
				}
				v.problem("bus", hint, "%s", message)
				return
			}
		}
	}
	if c.BusCredentials != "" && !strings.HasPrefix(c.BusCredentials, "file:") {
		v.problem("bus_credentials", "write file: and the path of a .creds file", "names no file")
	} else {
		v.busFile("bus_credentials", c.BusCredentials, c.BusCredentialsPath())
	}
	v.busFile("bus_ca", c.BusCA, c.BusCAPath())
}

// busFile checks a file that the connection to NATS needs.
func (v *validator) busFile(key, text, path string) {
	switch c := v.config; {
	case text == "":
	case !c.UsesNATS():
		v.problem(key, "leave it out, or name a NATS server in bus", "is for NATS, and bus names none")
	case path == "":
		v.problem(key, "", "names no file")
	case c.source != nil && c.source.dir != "":
		f, err := os.Open(path)
		if err != nil {
			v.problem(key, "", "cannot be read: %v", err)
			return
		}
		_ = f.Close()
	}
}

// checkNATS returns what is wrong with the address of a NATS server.
func checkNATS(text string) (message, hint string) {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok || scheme != "nats" && scheme != "tls" {
		return "is not a bus that handoff knows", hintBus
	}
	a, err := parseAddress(text)
	switch {
	case err != nil:
		return wrongAddress(err, hintBus)
	case len(a.hosts) == 0:
		return "names no host", hintBus
	case a.path != "" || len(a.params) > 0:
		return "has something behind its host", hintBus
	}
	return "", ""
}
