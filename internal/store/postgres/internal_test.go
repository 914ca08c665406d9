//go:build postgres

package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/record"
)

// TestHorizon places the units in flight, of which the low bits are known.
func TestHorizon(t *testing.T) {
	t.Parallel()
	const low = 1 << 32
	for _, unit := range []int64{5*low + 1000, 5 * low, 5*low + low - 1, 5*low + low/2} {
		var c cursor
		rev := unit<<unitBits | 4095
		c.setHorizon(rev, []int64{unit % low, (unit - 7) % low, (unit + 3) % low, (unit - 7) % low}, 9)
		if want := []int64{unit, unit - 7}; !slices.Equal(c.inflight, want) {
			t.Errorf("units in flight before %d: %d, want %d", unit, c.inflight, want)
		}
		first := func(unit int64) int64 { return unit << unitBits }
		lows, highs := c.ranges(true, 0, math.MaxInt64)
		if !slices.Equal(lows, []int64{first(unit - 6), 0}) || !slices.Equal(highs, []int64{first(unit) - 1, first(unit-7) - 1}) {
			t.Errorf("the snapshot is from %d to %d", lows, highs)
		}
		lows, highs = c.ranges(false, 0, math.MaxInt64)
		if !slices.Equal(lows, []int64{rev + 1, first(unit), first(unit - 7)}) || !slices.Equal(highs, []int64{math.MaxInt64, rev, first(unit-6) - 1}) {
			t.Errorf("not in the snapshot is from %d to %d", lows, highs)
		}
		lows, highs = c.ranges(true, first(unit-100), first(unit-50))
		if !slices.Equal(lows, []int64{first(unit - 100)}) || !slices.Equal(highs, []int64{first(unit - 50)}) {
			t.Errorf("within bounds, the snapshot is from %d to %d", lows, highs)
		}
	}
}

// FuzzCursor reads page tokens that somebody made up.
func FuzzCursor(f *testing.F) {
	d := record.DigestOf(store.ForAll(), &store.ListQuery{})
	f.Add("")
	f.Add("junk")
	f.Add((&cursor{rev: 1, key: 2, after: 3}).encode(d))
	f.Add((&cursor{rev: 1 << 60, key: 2, after: 3, inflight: []int64{1<<48 - 1, 1<<48 - 5000, 3}}).encode(d))
	f.Add((&cursor{rev: math.MaxInt64 >> 2, key: 0, after: 1 << 40}).encode(d))
	f.Fuzz(func(t *testing.T, token string) {
		c, err := decodeCursor(token, d)
		if err != nil {
			if !errors.Is(err, store.ErrBadCursor) {
				t.Error(err)
			}
			return
		}
		if c.encode(d) != token {
			t.Errorf("%q is taken for %+v, which is %q", token, c, c.encode(d))
		}
	})
}

func TestFullCursor(t *testing.T) {
	t.Parallel()
	d := record.DigestOf(store.ForAll(), &store.ListQuery{})
	c := cursor{rev: revisionAt(time.Now().UnixMilli()), key: 1 << 40, after: 1 << 61}
	for i := range int64(maxInflight) {
		c.inflight = append(c.inflight, unitOf(c.rev)-i*100)
	}
	got, err := decodeCursor(c.encode(d), d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got, cmp.AllowUnexported(cursor{})); diff != "" {
		t.Error(diff)
	}
}

// TestBadDSN reads addresses with mistakes. What is said of them helps, and
// repeats no secret.
func TestBadDSN(t *testing.T) {
	t.Parallel()
	const form = "write it as postgres://USER"
	for dsn, want := range map[string]string{
		"postgres://ann:s3cr3t@db:notaport/x":                                               "port is not valid",
		"postgres://ann:s3cr3t%zz@db/x":                                                     form,
		"postgres//ann:s3cr3t@db/x":                                                         form,
		"host=db password=s3cr3t port=abc":                                                  "port is not valid",
		"host=db password=s3cr3t user":                                                      form,
		"host=db password='s3cr3t":                                                          form,
		"mysql://ann:s3cr3t@db/x":                                                           form,
		"postgres://ann:s3c r3t@db/x y":                                                     form,
		"postgres://ann:s3cr3t@[::1/x":                                                      form,
		"postgres://ann:s3cr3t@db/x?sslmode=maybe":                                          "sslmode is not valid",
		"postgres://ann:s3cr3t@db/x?connect_timeout=soon":                                   "connect_timeout is not valid",
		"postgres://ann:s3cr3t@db/x?pool_max_conns=s3cr3t":                                  "pool_max_conns is not valid",
		"postgres://ann:s3cr3t@db/x?pool_max_conns=0":                                       "pool_max_conns is not valid",
		"postgres://ann:s3cr3t@db/x?pool_max_conn_lifetime_jitter=s3cr3t":                   "pool_max_conn_lifetime_jitter is not valid",
		"postgres://ann:s3cr3t@db/x?target_session_attrs=s3cr3t":                            "target_session_attrs is not valid",
		"postgres://ann:s3cr3t@db/x?sslrootcert=/no/such/ca.pem&sslmode=verify-full":        "its certificate or key /no/such/ca.pem cannot be read: no such file or directory",
		"postgres://ann:s3cr3t@db/x?sslcert=/no/c.pem&sslkey=/no/key.pem&sslmode=verify-ca": "/no/key.pem cannot be read",
		"postgres://ann:s3cr3t@db/x?sslcert=/no/c.pem&sslmode=require":                      "does not go together",
	} {
		_, err := parse(dsn)
		if err == nil {
			t.Errorf("%s is taken for an address", dsn)
		} else if text := err.Error(); strings.Contains(text, "s3cr3t") || strings.Contains(text, "s3c") || !strings.Contains(text, want) {
			t.Errorf("%s: %q", dsn, text)
		}
	}
	config, err := parse("postgres://ann:s3cr3t@db/x?search_path=%22My%20schema%22,public&lock_timeout=7")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(schema(config), place(config), config.ConnConfig.RuntimeParams["lock_timeout"]); got != "My schemax on db7" {
		t.Errorf("schema, place and lock_timeout are %q", got)
	}
}

// TestAdvice has advice for errors of servers that are not easily had here.
func TestAdvice(t *testing.T) {
	t.Parallel()
	refused := func(code, message string) error {
		return &pgconn.PgError{Severity: "FATAL", Code: code, Message: message}
	}
	for _, tt := range []struct {
		err       error
		advice    string
		temporary bool
	}{
		{refused("28000", `no pg_hba.conf entry for host "10.0.0.1", user "ann", database "x", no encryption`), "without TLS: set sslmode=verify-full", false},
		{refused("28000", `no pg_hba.conf entry for host "10.0.0.1", user "ann", database "x", SSL encryption`), "sslmode of the store against pg_hba.conf", false},
		{refused("28P01", "password authentication failed"), "the password of the store", false},
		{refused("42704", `unrecognized configuration parameter "foo"`), "parameter behind the ?", false},
		{refused("42501", "permission denied for schema public"), "GRANT USAGE, CREATE ON SCHEMA", false},
		{refused("57P03", "the database system is starting up"), "Wait", true},
		{&ReadOnlyError{Standby: true}, "target_session_attrs=read-write", true},
		{&ReadOnlyError{}, "default_transaction_read_only", false},
		{refused("08P01", "unsupported startup parameter: statement_timeout"), "A pooler before the server refuses", false},
		{refused("42P05", `prepared statement "stmtcache_1" already exists`), "session mode", false},
	} {
		err := unavailable(fmt.Errorf("open database: %w", tt.err))
		if got := Advice(err); !strings.Contains(got, tt.advice) {
			t.Errorf("%v: %q, want %q", err, got, tt.advice)
		}
		if got := Temporary(err); got != tt.temporary {
			t.Errorf("%v: temporary is %v", err, got)
		}
	}
}

// TestSettings sees what a connection is set to, without what a pooler refuses,
// and that a DSN may say otherwise.
func TestSettings(t *testing.T) {
	t.Parallel()
	config, err := parse("postgres://ann@db/x?lock_timeout=7s&jit=on")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"application_name": "handoff", "lock_timeout": "7s", "jit": "on"}
	if diff := cmp.Diff(want, config.ConnConfig.RuntimeParams); diff != "" {
		t.Errorf("a connection begins with %s", diff)
	}
}
