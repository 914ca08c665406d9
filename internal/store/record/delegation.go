package record

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"handoff.example/handoff/internal/store"
)

// Delegation is a delegation with what the drivers keep beside it.
type Delegation struct {
	store.Delegation
	Again bool // beside others of the same reference
}

// Complete fills in what a delegation has of its task.
func Complete(d *store.Delegation, t *store.Task) {
	d.TaskKey, d.Task, d.Tenant, d.Owner, d.Agent = t.Key, t.ID, t.Tenant, t.Owner, t.Agent
	d.Context, d.State, d.Created = t.Context, t.State, t.Created
}

// Entry is one line of the history of an item of the inbox.
type Entry struct {
	Item string // id
	store.InboxEntry
}

// MaxPageCursor is how long the token of a page of delegations or items can be.
const MaxPageCursor = 128

// DigestOfQuery returns the digest of a query of any kind. The parts of it are
// what a token is good for alone; the size of a page is none of them.
func DigestOfQuery(scope store.Scope, kind string, parts ...any) (d Digest) {
	var b []byte
	for _, part := range append([]any{kind, fmt.Sprintf("%+v", scope)}, parts...) {
		text := fmt.Sprint(part)
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
}

// Flag returns a truth as it is kept.
func Flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
