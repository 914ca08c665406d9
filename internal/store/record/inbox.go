package record

import (
	"math"

	"handoff.example/handoff/internal/store"
)

// unranked is the rank of open items that are not due.
const unranked = math.MaxInt64 >> 2

// Rank returns where an item stands among the open or among the settled ones.
func Rank(i *store.InboxItem) int64 {
	switch {
	case !i.Settled.IsZero():
		return i.Settled.UnixMilli()
	case !i.Due.IsZero():
		return max(i.Due.UnixMilli(), 1)
	}
	return unranked
}

// Update gives an item its new values, at the time of the entry. The entry says
// that the item was settled, when it does not say anything else.
func Update(i *store.InboxItem, u *store.InboxUpdate) {
	if u.Assignee != nil {
		i.Assignee = *u.Assignee
	}
	if u.Due != nil {
		i.Due = *u.Due
	}
	if u.Reminded != nil {
		i.Reminded = *u.Reminded
	}
	if s := u.Settle; s != nil {
		i.Settled, i.By, i.Decision, i.Words = u.Entry.At, s.By, s.Decision, s.Words
		if u.Entry.What == "" {
			u.Entry.By, u.Entry.What, u.Entry.Words = s.By, s.Decision, s.Words
		}
	}
}
