//go:build postgres

package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// OpenTraced is Open with a tracer of all statements.
func OpenTraced(ctx context.Context, dsn string, opts Options, tracer pgx.QueryTracer) (*Store, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Tracer = tracer
	return open(ctx, config, opts)
}
