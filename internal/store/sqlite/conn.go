package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	sqlitedriver "modernc.org/sqlite"
	sqlitecode "modernc.org/sqlite/lib"

	"handoff.example/handoff/internal/store"
)

// conn is one connection and its prepared statements. It belongs to one
// goroutine at a time. It speaks to the driver without database/sql, whose
// bookkeeping costs as much as a small statement.
type conn struct {
	driver.Conn
	prepared map[string]*stmt
}

// stmt is a prepared statement.
type stmt struct {
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	close func() error
	args  []driver.NamedValue
	row   values
}

// dsn returns the driver's name of a file, with pragmas.
func dsn(file string, pragmas ...string) string {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// dial opens a connection.
func dial(dsn string) (*conn, error) {
	c, err := (&sqlitedriver.Driver{}).Open(dsn)
	if err != nil {
		return nil, unavailable(err)
	}
	return &conn{Conn: c, prepared: map[string]*stmt{}}, nil
}

// close closes the statements and the connection.
func (c *conn) close() error {
	for _, s := range c.prepared {
		_ = s.close()
	}
	return c.Close()
}

// stmt returns the prepared statement of a text.
func (c *conn) stmt(text string) (*stmt, error) {
	if s, ok := c.prepared[text]; ok {
		return s, nil
	}
	p, err := c.Prepare(text)
	if err != nil {
		return nil, err
	}
	exec, okExec := p.(driver.StmtExecContext)
	query, okQuery := p.(driver.StmtQueryContext)
	if !okExec || !okQuery {
		return nil, errors.New("the SQLite driver's statements take no context")
	}
	s := &stmt{exec: exec, query: query, close: p.Close}
	c.prepared[text] = s
	return s, nil
}

func (s *stmt) bind(args []any) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// run executes a statement and returns how many rows it changed. Arguments are
// int64, string, []byte or nil.
func (c *conn) run(text string, args ...any) (int64, error) {
	s, err := c.stmt(text)
	if err != nil {
		return 0, err
	}
	result, err := s.exec.ExecContext(context.Background(), s.bind(args))
	clear(s.args)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each calls yield for every row of a query, whose values are int64, string,
// []byte or nil, until it returns false. The slice is used again for the next
// row.
func (c *conn) each(ctx context.Context, yield func(row values) bool, text string, args ...any) (err error) {
	s, err := c.stmt(text)
	if err != nil {
		return err
	}
	rows, err := s.query.QueryContext(ctx, s.bind(args))
	clear(s.args)
	if err != nil {
		return err
	}
	defer func() {
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	if s.row == nil {
		s.row = make(values, len(rows.Columns()))
	}
	for {
		if err := rows.Next(s.row); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if !yield(s.row) {
			return nil
		}
	}
}

// one calls scan with the only row of a query and reports whether there is one.
func (c *conn) one(scan func(row values), text string, args ...any) (found bool, err error) {
	err = c.each(context.Background(), func(row values) bool {
		found = true
		scan(row)
		return false
	}, text, args...)
	return found, err
}

// number returns the integer that a query answers, 0 when it answers nothing.
func (c *conn) number(ctx context.Context, text string, args ...any) (n int64, err error) {
	err = c.each(ctx, func(row values) bool {
		n = integer(row[0])
		return false
	}, text, args...)
	return n, err
}

// values are those of a row: int64, string, []byte or nil.
type values = []driver.Value

func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

func text(v driver.Value) string {
	s, _ := v.(string)
	return s
}

func blob(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// unavailable wraps an error of SQLite, a file or a context as one of the
// store.
func unavailable(err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBadCursor) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// code returns the primary result code of an error of SQLite, 0 for others.
func code(err error) int {
	if e, ok := errors.AsType[*sqlitedriver.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isPoison reports whether an error is that of one change, and not of the file
// or the machine.
func isPoison(err error) bool {
	switch code(err) {
	case sqlitecode.SQLITE_CONSTRAINT, sqlitecode.SQLITE_TOOBIG, sqlitecode.SQLITE_MISMATCH,
		sqlitecode.SQLITE_RANGE, sqlitecode.SQLITE_ERROR, sqlitecode.SQLITE_MISUSE:
		return true
	}
	return false
}

// isConstraint reports whether an error says that a row exists already.
func isConstraint(err error) bool { return code(err) == sqlitecode.SQLITE_CONSTRAINT }
