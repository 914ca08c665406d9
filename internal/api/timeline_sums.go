package api

import (
	"cmp"
	"slices"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
)

// finish ends what is over, orders the items and adds up the waits.
func (t *chronicler) finish() {
	o := t.out
	if o.To = t.last; o.Open {
		o.To = latest(t.now, t.last)
	}
	if t.wait != nil {
		t.wait.Open = o.Open
		if !o.Open {
			t.wait.End = o.To
		}
	}
	if t.turn != nil {
		if t.turn.Open = o.Open && t.row.Lease != 0; !t.turn.Open {
			t.turn.End = t.last
		}
	}
	o.Items = slices.DeleteFunc(o.Items, func(m *moment) bool { // that hardly was one
		return m.Wait == waitWorker && !m.Open && m.End.Sub(m.Start) < leastWorkerWait
	})
	t.gaps()
	slices.SortStableFunc(o.Items, func(a, b *moment) int { return a.Start.Compare(b.Start) })
	var waits, turns []*moment
	totals := map[[2]string]*waitTotal{}
	var order []*waitTotal
	for _, m := range o.Items {
		switch m.Kind {
		case "turn":
			turns = append(turns, m)
		case "wait":
			waits = append(waits, m)
			who := m.Who
			if !m.Open { // it was for whoever has ended it
				who = cmp.Or(m.By, who)
			}
			key := [2]string{m.Wait, who}
			if totals[key] == nil {
				totals[key] = &waitTotal{Kind: m.Wait, Who: who}
				order = append(order, totals[key])
			}
			w := totals[key]
			w.Count++
			w.Open = w.Open || m.Open
			w.MS += m.until(o.To).Sub(m.Start).Milliseconds()
		}
	}
	slices.SortStableFunc(order, func(a, b *waitTotal) int { return cmp.Compare(b.MS, a.MS) })
	for _, w := range order {
		o.Waits = append(o.Waits, *w)
	}
	o.Total = o.To.Sub(o.From).Milliseconds()
	o.Waiting, o.Working = covered(waits, o.To), covered(turns, o.To)
}

// gaps adds waits for a time or a callback: between two turns with nothing else
// in between, and after the last one.
func (t *chronicler) gaps() {
	kindOf := func(w store.Wait) (kind, title string) {
		if w == store.WaitTime {
			return waitTime, "Waits for a time"
		}
		return waitCallback, "Waits to be called back"
	}
	var waits []*moment
	for _, m := range t.out.Items {
		if m.Kind == "wait" {
			waits = append(waits, m)
		}
	}
	for n, turn := range t.turns {
		if turn.Open || turn.Outcome != "" {
			continue
		}
		w, to, open := t.marked[turn.Turn], t.out.To, false
		if n+1 < len(t.turns) {
			to = t.turns[n+1].Start
		} else if open = t.out.Open && t.row.State == a2a.StateWorking && t.row.Lease == 0; !open {
			continue
		} else {
			w = t.row.Wait
		}
		taken := slices.ContainsFunc(waits, func(m *moment) bool { return m.Start.Before(to) && m.until(t.out.To).After(turn.End) })
		if taken || to.Sub(turn.End) < time.Millisecond || w == store.WaitChild {
			continue
		}
		kind, title := kindOf(w)
		m := &moment{Kind: "wait", Title: title, Wait: kind, Start: turn.End, Open: open}
		if !open {
			m.End = to
		}
		t.add(m)
	}
}

// until is when a span ends.
func (m *moment) until(now time.Time) time.Time {
	switch {
	case m.Open:
		return now
	case m.End.IsZero():
		return m.Start
	}
	return m.End
}

// covered returns how many milliseconds spans cover, which are in the order of
// their beginnings.
func covered(spans []*moment, now time.Time) (ms int64) {
	var reached time.Time
	for _, m := range spans {
		from, to := latest(m.Start, reached), m.until(now)
		if to.After(from) {
			ms += to.Sub(from).Milliseconds()
			reached = to
		}
	}
	return ms
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
