//go:build postgres

package llm_test

import (
	"context"
	"testing"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/postgres/postgrestest"
)

func init() {
	atEnd = append(atEnd, postgrestest.Close)
	stores["postgres"] = func(t *testing.T) opener {
		dsn := postgrestest.DSN(t)
		return func(t *testing.T) store.Store {
			st, err := postgres.Open(context.Background(), dsn, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return st
		}
	}
}
