package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// State is how a database is.
type State struct {
	Place     string // database on host:port, for people
	Server    string // version of the server
	Schema    string // that the tables are in, or will be
	Has       int64  // version of the tables, 0 when there are none
	Knows     int64  // version that this program makes
	Needs     int64  // version that a program has to know at least, 0 when there are no tables
	RoundTrip time.Duration
	TLS       bool
	Local     bool // over a socket, or on this machine
}

// Examine looks at a database without changing it. Its errors are those that
// Open would return, as far as a look can tell, and repeat no secrets.
func Examine(ctx context.Context, dsn string) (s *State, err error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, unavailable(err)
	}
	c := config.ConnConfig
	s = &State{Place: fmt.Sprintf("%s on %s", c.Database, net.JoinHostPort(c.Host, fmt.Sprint(c.Port))), Local: isLocal(c.Host)}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return s, unavailable(&unreachable{place: s.Place, err: err})
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	fail := func(err error) (*State, error) {
		return s, unavailable(fmt.Errorf("open database %s: %w", s.Place, err))
	}
	var version int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&version, &s.Server); err != nil {
		return fail(err)
	}
	if version < minVersion {
		return fail(&VersionError{Server: s.Server})
	}
	_, s.TLS = conn.PgConn().Conn().(*tls.Conn)
	if s.Schema, err = schemaOf(ctx, conn, schema(config)); err != nil {
		return fail(err)
	}
	if err := checkWritable(ctx, conn); err != nil {
		return fail(err)
	}
	began := time.Now()
	if err := conn.Ping(ctx); err != nil {
		return fail(err)
	}
	s.RoundTrip = time.Since(began)
	if s.Knows, err = newest(); err != nil {
		return fail(err)
	}
	if s.Has, err = appliedVersion(ctx, conn); err != nil || s.Has == 0 {
		if err != nil {
			return fail(err)
		}
		return s, nil
	}
	var info bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_info') IS NOT NULL").Scan(&info); err != nil || !info {
		if err != nil {
			return fail(err)
		}
		return s, nil
	}
	if err := conn.QueryRow(ctx, "SELECT min_program FROM schema_info").Scan(&s.Needs); err != nil {
		return fail(err)
	}
	if s.Needs > s.Knows {
		return fail(&NewerError{Has: s.Has, Needs: s.Needs, Knows: s.Knows})
	}
	if err := checkRights(ctx, conn); err != nil {
		return fail(err)
	}
	return s, nil
}

// schemaOf returns the schema of the tables: the one that the DSN names, which
// may not be there yet, or else that of the server.
func schemaOf(ctx context.Context, conn *pgx.Conn, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	var current *string
	if err := conn.QueryRow(ctx, "SELECT current_schema()::text").Scan(&current); err != nil {
		return "", fmt.Errorf("look for schema: %w", err)
	}
	if current == nil {
		return "", ErrNoSchema
	}
	return *current, nil
}

// checkWritable returns an error of a database that takes no changes.
func checkWritable(ctx context.Context, conn *pgx.Conn) error {
	var readOnly, standby bool
	if err := conn.QueryRow(ctx, "SELECT current_setting('transaction_read_only') = 'on', pg_is_in_recovery()").Scan(&readOnly, &standby); err != nil {
		return fmt.Errorf("look whether it takes changes: %w", err)
	}
	if readOnly || standby {
		return &ReadOnlyError{Standby: standby}
	}
	return nil
}

// checkRights returns an error when the user may not write some of the tables
// that every node writes.
func checkRights(ctx context.Context, conn *pgx.Conn) error {
	e := &RightsError{}
	err := conn.QueryRow(ctx, `SELECT current_user::text, coalesce(string_agg(name, ', ' ORDER BY name), '') FROM (
  SELECT t AS name FROM unnest(ARRAY['committers', 'events', 'jobs', 'nodes', 'tasks']) t WHERE NOT (
    has_table_privilege(to_regclass(t), 'SELECT') AND has_table_privilege(to_regclass(t), 'INSERT') AND
    has_table_privilege(to_regclass(t), 'UPDATE') AND has_table_privilege(to_regclass(t), 'DELETE'))
  UNION ALL
  SELECT q FROM unnest(ARRAY['epochs', 'job_ids', 'revisions', 'task_keys']) q WHERE NOT has_sequence_privilege(to_regclass(q), 'USAGE')
) missing`).Scan(&e.User, &e.Tables)
	if err != nil {
		return fmt.Errorf("look what the user may do: %w", err)
	}
	if e.Tables != "" {
		return e
	}
	return nil
}

// unreachable is an error of a connection, told in one line: that of the last
// attempt of those that are made at the addresses of a host, with TLS and
// without.
type unreachable struct {
	place string
	err   error
}

func (e *unreachable) Error() string {
	lines := strings.Split(strings.TrimSpace(e.err.Error()), "\n")
	return fmt.Sprintf("open database %s: %s", e.place, strings.TrimSpace(lines[len(lines)-1]))
}

func (e *unreachable) Unwrap() error { return e.err }

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || host == "localhost" || ip != nil && ip.IsLoopback()
}

// newest returns the version of the tables that this program makes.
func newest() (version int64, err error) {
	files, err := fs.Glob(Migrations(), "*.sql")
	if err != nil {
		return 0, fmt.Errorf("load migrations: %w", err)
	}
	for _, file := range files {
		v, err := goose.NumericComponent(file)
		if err != nil {
			return 0, fmt.Errorf("load migrations: %w", err)
		}
		version = max(version, v)
	}
	return version, nil
}

// VersionError says that the server is too old.
type VersionError struct{ Server string }

// Error says what is needed.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the server is PostgreSQL %s: at least PostgreSQL %d is needed", e.Server, minVersion/10000)
}

// NewerError says that the tables need a newer program.
type NewerError struct{ Has, Needs, Knows int64 }

// Error says what is needed.
func (e *NewerError) Error() string {
	return fmt.Sprintf("its tables have version %d and need a program that knows %d, this one knows %d: run the newer program", e.Has, e.Needs, e.Knows)
}

// ErrNoSchema says that the tables have no place.
var ErrNoSchema = errors.New("search_path names no schema that is there")

// ReadOnlyError says that the database takes no changes.
type ReadOnlyError struct {
	Standby bool // it follows another server
}

// Error says why.
func (e *ReadOnlyError) Error() string {
	if e.Standby {
		return "the server is a standby, which takes no changes"
	}
	return "the database takes no changes (default_transaction_read_only is on)"
}

// RightsError says that the user may not write tables.
type RightsError struct {
	User   string
	Tables string // and sequences, with commas between them
}

// Error says which.
func (e *RightsError) Error() string {
	return fmt.Sprintf("the user %s may not write %s", e.User, e.Tables)
}

// Temporary reports whether a database that could not be opened may just not be
// there yet: it starts, or its name is not known yet.
func Temporary(err error) bool {
	if c := code(err); c != "" {
		return strings.HasPrefix(c, "57P") || c == "53300" // starting or stopping; too many connections
	}
	if isCertificate(err) {
		return false
	}
	if e, ok := errors.AsType[*ReadOnlyError](err); ok {
		return e.Standby // it may be about to take over
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return connect && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, context.DeadlineExceeded))
}

func isCertificate(err error) bool {
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return authority || host || invalid
}

// adviceRights is for users that may not make or write the tables.
const adviceRights = "Let the user of the store own the tables and create more in their schema (GRANT USAGE, CREATE ON SCHEMA); or grant it SELECT, INSERT, UPDATE and DELETE on all tables and USAGE on all sequences there, and bring the tables up to date with: handoff migrate, as their owner"

// Advice says what to do about a database that could not be opened; "" when
// that is not known.
func Advice(err error) string {
	_, old := errors.AsType[*VersionError](err)
	_, newer := errors.AsType[*NewerError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	readOnly, _ := errors.AsType[*ReadOnlyError](err)
	_, rights := errors.AsType[*RightsError](err)
	switch c := code(err); {
	case old:
		return "Upgrade the server, or name another one in store"
	case newer || strings.Contains(err.Error(), "run the newer program"):
		return "Upgrade this program to the version that the other nodes run"
	case errors.Is(err, ErrNoSchema):
		return "Name a schema with search_path= behind the ? of the store, or make the schema public"
	case readOnly != nil && readOnly.Standby:
		return "Name the primary server, or all of them with commas and target_session_attrs=read-write"
	case readOnly != nil:
		return "Turn default_transaction_read_only off for the user and the database"
	case rights:
		return adviceRights
	case c == "28000" && strings.Contains(err.Error(), "no encryption"):
		return "The server takes no such connection without TLS: set sslmode=verify-full (or require) in the store, or allow it in pg_hba.conf of the server"
	case c == "28000":
		return "Check the user, the database and sslmode of the store against pg_hba.conf of the server"
	case strings.HasPrefix(c, "28"):
		return "Check the user and the password of the store, and pg_hba.conf of the server"
	case c == "08P01":
		return "A pooler before the server refuses a parameter behind the ? of the store: leave it out there, and set it with ALTER ROLE … SET"
	case c == "42P05" || c == "26000":
		return "A pooler before the server is in transaction or statement mode: let it use session mode, or name the server itself in store"
	case c == "42704" || c == "22023":
		return "Correct the parameter behind the ? of the store"
	case c == "3D000":
		return "Make the database first, with: createdb, or name another one in store"
	case c == "42501":
		return adviceRights
	case c == "53300":
		return "Raise max_connections of the server; a node takes up to 8 connections"
	case strings.HasPrefix(c, "57P"):
		return "Wait until the server has started"
	case isCertificate(err):
		return "Check sslmode and sslrootcert of the store, and the certificate of the server"
	case dns:
		return "Check the host of the store; its name is not known"
	case strings.Contains(err.Error(), "server refused TLS"):
		return "Turn TLS on at the server, or choose another sslmode for the store"
	case Temporary(err):
		return "Check that the server runs and that this machine reaches the host and port of the store"
	}
	return ""
}
