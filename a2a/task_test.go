package a2a

import "testing"

func TestTaskStates(t *testing.T) {
	t.Parallel()
	terminal := map[TaskState]bool{StateCompleted: true, StateFailed: true, StateCanceled: true, StateRejected: true}
	interrupted := map[TaskState]bool{StateInputRequired: true, StateAuthRequired: true}
	for s := StateUnspecified; s <= StateAuthRequired; s++ {
		if s.Terminal() != terminal[s] || s.Interrupted() != interrupted[s] {
			t.Errorf("%v: terminal %v, interrupted %v", s, s.Terminal(), s.Interrupted())
		}
		if got, ok := ParseTaskState(s.String()); !ok || got != s {
			t.Errorf("ParseTaskState(%v) = %v, %v", s, got, ok)
		}
	}
	for r := RoleUnspecified; r <= RoleAgent; r++ {
		if got, ok := ParseRole(r.String()); !ok || got != r {
			t.Errorf("ParseRole(%v) = %v, %v", r, got, ok)
		}
	}
	if _, ok := ParseTaskState("completed"); ok {
		t.Error("completed is a task state")
	}
	if _, ok := ParseRole("user"); ok {
		t.Error("user is a role")
	}
}

func TestMessageText(t *testing.T) {
	t.Parallel()
	m := Message{Parts: []Part{URL("u", "", ""), Text("a"), Text("b")}}
	if got := m.Text(); got != "a" {
		t.Errorf("the text is %q, want the first", got)
	}
	m.Parts = m.Parts[:1]
	if got := m.Text(); got != "" {
		t.Errorf("the text of a message without text is %q", got)
	}
}

// A data part made in Go without a value is null, since the key has to be there.
func TestDataPartWithoutValue(t *testing.T) {
	t.Parallel()
	p := Data(nil)
	if got, want := string(p.AppendJSON(nil)), `{"data":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
