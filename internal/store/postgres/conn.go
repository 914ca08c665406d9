package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff.example/handoff/internal/store"
)

const (
	connectTimeout = 5 * time.Second
	// A transaction that a node has left open, since it was stopped or cut off,
	// is ended by the server before others give up waiting for its locks.
	idleTimeout = 2 * time.Second
	lockTimeout = 10 * time.Second
	// A server that does not answer for so long is taken for dead.
	callTimeout   = 6 * time.Second
	commitTimeout = 15 * time.Second
	minVersion    = 140000
	// silence is how long a server may leave unacknowledged what it was sent.
	silence = 4 * time.Second
)

// parse returns the configuration of connections to a database. The error
// repeats nothing of the DSN, which may hold a password.
func parse(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		if what := reason(err); what != "" {
			return nil, fmt.Errorf("the address of the database cannot be used: %s", what)
		}
		return nil, errors.New("the address of the database cannot be read: write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full, with % escapes in the password")
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	dialer := net.Dialer{
		Timeout: config.ConnConfig.ConnectTimeout, Control: control,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence, Interval: time.Second, Count: 3},
	}
	config.ConnConfig.DialFunc = dialer.DialContext
	params := config.ConnConfig.RuntimeParams
	if _, set := params["application_name"]; !set {
		params["application_name"] = "handoff"
	}
	config.ConnConfig.AfterConnect = settle(params)
	return config, nil
}

// sessionSettings are what a connection sets where the DSN does not say
// otherwise.
var sessionSettings = []struct{ name, value string }{
	{"idle_in_transaction_session_timeout", fmt.Sprint(idleTimeout.Milliseconds())},
	{"lock_timeout", fmt.Sprint(lockTimeout.Milliseconds())},
	// Every statement of this package goes through an index. A new table has no
	// statistics, and the plan that is made for it then would be kept when it has
	// grown.
	{"enable_seqscan", "off"},
	{"enable_hashjoin", "off"},
	{"enable_mergejoin", "off"},
	// A page is a few rows at the start of an index. A bitmap would read all that
	// match, and sort them.
	{"enable_bitmapscan", "off"},
	{"jit", "off"},
}

// settle returns what makes the settings of a new connection. They do not come
// with its first message, since a pooler would refuse them there.
func settle(given map[string]string) pgconn.AfterConnectFunc {
	var list []string
	for _, s := range sessionSettings {
		if _, set := given[s.name]; !set {
			list = append(list, "SET "+s.name+" = '"+s.value+"'")
		}
	}
	sql := strings.Join(list, "; ")
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := conn.Exec(ctx, sql).Close(); err != nil {
			return fmt.Errorf("set up connection: %w", err)
		}
		return nil
	}
}

// checkedSettings are those of a DSN that pgx says something about by name.
var checkedSettings = []string{
	"sslmode", "port", "connect_timeout", "target_session_attrs", "sslcertmode", "sslnegotiation", "channel_binding", "require_auth",
	"min_protocol_version", "max_protocol_version", "pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime",
	"pool_max_conn_idle_time", "pool_health_check_period", "pool_max_conn_lifetime_jitter", "pool_ping_timeout", "default_query_exec_mode",
}

// reason says what is wrong with a DSN, as far as that can be said without
// repeating what may be secret.
func reason(err error) string {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Sprintf("its certificate or key %s cannot be read: %v", file.Path, file.Err)
	}
	text := err.Error()
	for _, setting := range checkedSettings {
		for _, form := range []string{"invalid " + setting, setting + " is invalid", "cannot parse " + setting, setting + " too small", "unknown " + setting + " value"} {
			if i := strings.Index(text, form); i >= 0 && !isWord(text[i+len(form):]) {
				return setting + " is not valid"
			}
		}
	}
	if strings.Contains(text, "failed to configure TLS") {
		return "what sslmode, sslrootcert, sslcert, sslkey and sslpassword say does not go together"
	}
	return ""
}

// isWord reports whether a text goes on with the name of a setting.
func isWord(text string) bool {
	return text != "" && (text[0] == '_' || 'a' <= text[0] && text[0] <= 'z')
}

// schema returns the name of the schema that the tables are in, and "" when the
// server decides.
func schema(config *pgxpool.Config) string {
	first, _, _ := strings.Cut(config.ConnConfig.RuntimeParams["search_path"], ",")
	name := strings.Trim(strings.TrimSpace(first), `"`)
	if name == "$user" {
		return ""
	}
	return name
}

// unavailable wraps an error of the database or a context as one of the store.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	for _, ours := range []error{store.ErrUnavailable, store.ErrNotFound, store.ErrConflict, store.ErrBadCursor} {
		if errors.Is(err, ours) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// code returns the SQLSTATE of an error of the server, "" for others.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// isRefused reports whether the server has said that it did not do what it was
// asked for. After other errors, that of a connection it ended included, it may
// have done it.
func isRefused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.SeverityUnlocalized == "ERROR"
}

// isCollision reports whether an error comes from another transaction at the
// same time, so that the next attempt may succeed: a serialization failure, a
// deadlock, a row that another has inserted, or tables that another has changed
// since a statement was prepared.
func isCollision(err error) bool {
	return slices.Contains([]string{"40001", "40P01", uniqueViolation, "0A000"}, code(err))
}

const uniqueViolation = "23505"

// isFull reports whether the server or a limit of it refuses one more connection.
func isFull(err error) bool { return code(err) == "53300" }

// isPoison reports whether an error is that of one change, and not of the
// database or the connection: data that does not fit, a constraint, or a limit
// of the program.
func isPoison(err error) bool {
	c := code(err)
	return isRefused(err) && (strings.HasPrefix(c, "22") || strings.HasPrefix(c, "23") || strings.HasPrefix(c, "54"))
}

// isBroken reports whether an error is that of a connection, so that another
// connection may do better.
func isBroken(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return false // there was none
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); ok {
		return !isRefused(err) // ended by the server: it stops, has crashed, or found us idle
	}
	return !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrNotFound) &&
		!errors.Is(err, store.ErrConflict) && !errors.Is(err, pgx.ErrNoRows)
}

// arguments collects those of a statement.
type arguments []any

// add returns the placeholder of one more argument.
func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return fmt.Sprintf("$%d", len(*a))
}

// bytesOf returns texts as they are kept.
func bytesOf(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}

// notNil makes empty bytes of none, for columns that are never null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
