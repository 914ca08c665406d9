package store

import (
	"context"
	"errors"
	"time"
)

// ErrExceeded says that a counter has no room for an amount.
var ErrExceeded = errors.New("the limit of the counter is reached")

// Docs keeps small documents of parts that have no tables of their own, such as
// the sessions of tool clients, the tokens of tool servers and the definitions
// of tools that were approved. A document has an owner, may have an end, and is
// replaced only by who has read it as it is.
type Docs interface {
	// Doc returns a document, or ErrNotFound where there is none in the scope or
	// its time is over.
	Doc(ctx context.Context, scope Scope, space, key string) (*Doc, error)
	// Docs returns documents of a space whose keys begin with prefix and follow
	// after ("": from the first), by key, at most limit.
	Docs(ctx context.Context, scope Scope, space, prefix, after string, limit int) ([]Doc, error)
	// PutDoc makes or replaces a document, and counts its Version up. A Version
	// other than that of the document is ErrConflict (0: there is none, or its
	// time is over).
	PutDoc(ctx context.Context, d *Doc) error
	// DeleteDoc removes a document; one that is not in the scope is ErrNotFound.
	DeleteDoc(ctx context.Context, scope Scope, space, key string) error
	// Spend adds to a counter until a time, at which it begins again, and returns
	// what it has come to. Where it would exceed limit it is left as it is, and
	// the error is ErrExceeded. A negative amount gives back.
	Spend(ctx context.Context, space, key string, amount, limit int64, until time.Time) (int64, error)
}

// Doc is a document. Space and Key name it; the two together are at most 1,000
// bytes.
type Doc struct {
	Space   string // the part that it belongs to, such as mcp.session
	Key     string
	Version int64
	Tenant  string
	Owner   string // "": of the node
	Body    []byte
	Secret  []byte    // sealed, like Body but what has to be; nil: none
	Expires time.Time // zero: never; to the millisecond
}
