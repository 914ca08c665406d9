//go:build postgres

package postgres_test

import (
	"testing"

	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/postgres"
	"handoff.example/handoff/internal/store/storetest"
)

func TestExercise(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t *testing.T) store.Store {
		schema := newSchema(t)
		return &dumped{openAt(t, withSchema(sharedDSN, schema), postgres.Options{}), schema}
	})
}
