//go:build postgres

package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// newPostgres starts a server for a test.
func newPostgres(t *testing.T, password string) *postgrestest.Server {
	t.Helper()
	server, err := postgrestest.NewWithPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// TestPostgresScripts runs nodes on a PostgreSQL server of the test's own. Each
// script has a schema; what leads there is in DATABASE_FOLDER,
// DATABASE_PASSWORD and DATABASE_SCHEMA.
func TestPostgresScripts(t *testing.T) {
	t.Parallel()
	const password = "s3cret/of@the#test"
	server := newPostgres(t, password)
	var schemas atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "postgres"),
		Setup: func(env *testscript.Env) error {
			settle(env)
			env.Setenv("DATABASE_FOLDER", server.Folder())
			env.Setenv("DATABASE_PASSWORD", url.QueryEscape(password))
			env.Setenv("DATABASE_SCHEMA", fmt.Sprintf("test%d", schemas.Add(1)))
			env.Values[serverKey{}] = &serving{}
			return nil
		},
		Cmds: nodeCommands(),
	})
}
