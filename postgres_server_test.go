//go:build postgres

package handoff_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// databasePassword must not show anywhere. It has what has to be escaped.
const databasePassword = "s3cret/of@the#test"

var (
	sharedDatabase = sync.OnceValues(func() (*postgrestest.Server, error) {
		return postgrestest.NewWithPassword(databasePassword)
	})
	schemas atomic.Int64
)

func init() { atEnd = append(atEnd, postgrestest.Close) }

// aSchema returns the address of an empty schema of the server that tests share.
func aSchema(t *testing.T) (address string) {
	t.Helper()
	d, err := sharedDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return addressOf(d, fmt.Sprintf("test%d", schemas.Add(1)))
}

// addressOf returns the address of a schema.
func addressOf(d *postgrestest.Server, schema string) string {
	return postgrestest.With(d.URL(), "search_path", schema)
}

// execute runs statements in a schema.
func execute(t *testing.T, address string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// hidesPassword checks that a text has no part of the password, as it is or
// escaped.
func hidesPassword(t *testing.T, what, text string) {
	t.Helper()
	for _, part := range []string{"s3cret", "the#test", "the%23test", "of@the", "of%40the"} {
		if strings.Contains(text, part) {
			t.Errorf("%s shows %q of the password:\n%s", what, part, text)
		}
	}
}
