//go:build postgres

package postgres_test

import (
	"context"
	"fmt"
	"os/exec"

	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

// withSchema returns a DSN for the tables of one schema.
func withSchema(dsn, schema string) string {
	return postgrestest.With(dsn, "search_path", schema)
}

// dump writes a schema to a file with pg_dump.
func dump(ctx context.Context, dsn, schema, file string) error {
	program := "pg_dump"
	if shared != nil {
		program = shared.Program(program)
	}
	out, err := exec.CommandContext(ctx, program, "-d", dsn, "-n", schema, "-Fc", "-f", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pg_dump: %w\n%s", err, out)
	}
	return nil
}
