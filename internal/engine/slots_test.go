package engine

import (
	"slices"
	"testing"
)

func TestSlotsGoRoundTheParties(t *testing.T) {
	t.Parallel()
	s := newSlots(1)
	if !s.try() || s.try() {
		t.Fatal("one slot is not one slot")
	}
	var waiting []*waiter
	for _, party := range []string{"a", "a", "a", "a", "b", "c", "b"} {
		waiting = append(waiting, s.join(party))
	}
	s.leave(waiting[1])
	s.leave(waiting[5]) // all of c
	var order []int
	for range 5 {
		s.give()
		for i, w := range waiting {
			select {
			case <-w.ready:
				if !slices.Contains(order, i) {
					order = append(order, i)
				}
			default:
			}
		}
	}
	if want := []int{0, 4, 2, 6, 3}; !slices.Equal(order, want) {
		t.Errorf("the slot went to %v, want %v", order, want)
	}
	if s.give(); s.free != 1 || len(s.queues) != 0 || s.turns.Len() != 0 {
		t.Errorf("%d slots are free, %d parties wait, %d have a turn", s.free, len(s.queues), s.turns.Len())
	}
}

// A party that leaves and comes again must not get more than one turn.
func TestSlotsOfAPartyThatCameAgain(t *testing.T) {
	t.Parallel()
	s := newSlots(0)
	for range 3 {
		s.leave(s.join("a"))
	}
	first, b, second := s.join("a"), s.join("b"), s.join("a")
	s.give()
	s.give()
	<-first.ready
	select {
	case <-second.ready:
		t.Error("a got two slots before b")
	case <-b.ready:
	default:
		t.Error("nobody got the second slot")
	}
}

func TestSlotThatCameTooLate(t *testing.T) {
	t.Parallel()
	s := newSlots(0)
	late, next := s.join("a"), s.join("a")
	s.give()
	s.leave(late)
	<-next.ready
}
