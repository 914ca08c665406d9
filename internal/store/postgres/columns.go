package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// columns are rows to be written by one statement, a column at a time: first
// those of numbers, then those of bytes.
type columns struct {
	numbers [][]int64
	bytes   [][][]byte
	n       int
}

// add adds a row.
func (c *columns) add(numbers []int64, bytes ...[]byte) {
	if c.numbers == nil {
		c.numbers, c.bytes = make([][]int64, len(numbers)), make([][][]byte, len(bytes))
	}
	for i, v := range numbers {
		c.numbers[i] = append(c.numbers[i], v)
	}
	for i, v := range bytes {
		c.bytes[i] = append(c.bytes[i], v)
	}
	c.n++
}

// queue queues a statement that takes the rows, unless there are none.
func (c *columns) queue(q *pgx.Batch, statement string) {
	if c.n == 0 {
		return
	}
	args := make([]any, 0, len(c.numbers)+len(c.bytes))
	for _, column := range c.numbers {
		args = append(args, column)
	}
	for _, column := range c.bytes {
		args = append(args, column)
	}
	q.Queue(statement, args...)
}

// unnest returns the table that columns are on the server.
func unnest(numbers, bytes int) string {
	types := append(slices.Repeat([]string{"bigint"}, numbers), slices.Repeat([]string{"bytea"}, bytes)...)
	for i, name := range types {
		types[i] = fmt.Sprintf("$%d::%s[]", i+1, name)
	}
	return "unnest(" + strings.Join(types, ", ") + ")"
}
