package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sslModes are those of PostgreSQL.
var sslModes = []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

// connectionParams are the parameters of a database's address that say how to
// connect. All others are settings of the server.
var connectionParams = []string{
	"application_name", "channel_binding", "client_encoding", "connect_timeout", "database", "dbname", "default_query_exec_mode",
	"host", "hostaddr", "krbspn", "krbsrvname", "max_protocol_version", "min_protocol_version", "options", "passfile", "password",
	"pool_health_check_period", "pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns",
	"pool_min_conns", "pool_min_idle_conns", "pool_ping_timeout", "port", "require_auth", "search_path", "service", "servicefile",
	"ssl", "sslcert", "sslcertmode", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert", "sslsni",
	"target_session_attrs", "user",
}

// otherParams are settings of the server with names near to those above.
var otherParams = []string{"role", "timezone", "datestyle", "geqo", "jit"}

// checkParams returns what is wrong with the parameters of the address of a
// database, and what to do. Names are repeated, values are not.
func (a *address) checkParams() (message, hint string) {
	for _, p := range a.params {
		name, text, _ := strings.Cut(p, "=")
		name, wrong := url.QueryUnescape(name)
		value, err := url.QueryUnescape(text)
		if err != nil || wrong != nil {
			return "cannot be read", hintEscape
		}
		if message, hint := checkParam(name, value); message != "" {
			return message, hint
		}
	}
	return "", ""
}

func checkParam(name, value string) (message, hint string) {
	switch {
	case name == "sslmode" && !slices.Contains(sslModes, value):
		return "has an sslmode that is not one of " + strings.Join(sslModes, ", "), ""
	case name == "search_path" && strings.Trim(value, " \",") == "":
		return "has a search_path that names no schema", "leave search_path out for the schema public, or name a schema"
	case name == "pool_max_conns" && !isNumber(value, 1), (name == "pool_min_conns" || name == "pool_min_idle_conns") && !isNumber(value, 0):
		return fmt.Sprintf("has a %s that is not a number%s", name, map[bool]string{true: " from 1"}[name == "pool_max_conns"]), ""
	case name == "connect_timeout" && !isNumber(value, 0):
		return "has a connect_timeout that is not a number of seconds", ""
	case strings.HasPrefix(name, "pool_") && isDuration(name) && !durationText(value):
		return fmt.Sprintf("has a %s that is not a duration such as 30m", name), ""
	case slices.Contains(connectionParams, name) || slices.Contains(otherParams, strings.ToLower(name)):
		return "", ""
	}
	plain := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "_", ""), "-", ""))
	for _, known := range connectionParams {
		if plain == strings.ReplaceAll(known, "_", "") {
			return unknownParam(name, known)
		}
	}
	if best := closest(name, connectionParams); best != "" && distance(strings.ToLower(name), best) <= 2 {
		return unknownParam(name, best)
	}
	if strings.HasPrefix(name, "ssl") || strings.HasPrefix(name, "pool_") {
		return unknownParam(name, "")
	}
	return "", "" // a setting of the server, which knows whether it has it
}

// unknownParam tells of a parameter that is not known, with the one that was
// meant. A name that may be a part of a secret is not repeated.
func unknownParam(name, best string) (message, hint string) {
	if best != "" {
		hint = "did you mean " + best + "?"
	}
	if !paramName(name) {
		return "has an unknown parameter", hint
	}
	return "has an unknown parameter " + name, hint
}

func paramName(name string) bool {
	return len(name) <= 40 && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz_-") == ""
}

func isNumber(text string, least int) bool {
	n, err := strconv.ParseInt(text, 10, 32)
	return err == nil && int(n) >= least
}

func isDuration(name string) bool {
	return slices.Contains([]string{
		"pool_health_check_period", "pool_max_conn_idle_time", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_ping_timeout",
	}, name)
}

func durationText(text string) bool {
	d, err := time.ParseDuration(text)
	return err == nil && d >= 0
}

// storeFiles checks the files that the connection to the database needs.
func (v *validator) storeFiles() {
	a, err := parseAddress(v.config.Store)
	if err != nil {
		return // told before
	}
	mode, _ := a.param("sslmode")
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		text, _ := a.param(name)
		path, err := url.QueryUnescape(text)
		if err != nil || path == "" || mode == "disable" || name == "sslrootcert" && path == "system" {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			v.problem("store", hintFile(err), "names a file in %s that cannot be read: %v", name, err)
			return
		}
		_ = f.Close()
	}
}

func hintFile(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "mount or make the file, or correct its path, which begins at the directory that the node is started in unless it is absolute"
	}
	return ""
}

// busServers says which bus a node is on, so that nodes on different ones can be
// told apart; "" when there is none. It has no credentials, and does not depend
// on the order of servers.
func (c *Config) busServers() string {
	if !c.UsesNATS() {
		return c.BusName()
	}
	var hosts []string
	for _, part := range strings.Split(c.Bus, ",") {
		a, err := parseAddress(part)
		if err != nil {
			continue // refused before
		}
		for _, h := range a.hosts {
			if !strings.Contains(strings.TrimPrefix(h, "["), ":") || strings.HasSuffix(h, "]") {
				h += ":4222"
			}
			hosts = append(hosts, strings.ToLower(h))
		}
	}
	slices.Sort(hosts)
	return "nats " + strings.Join(slices.Compact(hosts), ",")
}
