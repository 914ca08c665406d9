//go:build unix

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// entry is a line of the journal of a program.
type entry struct {
	what    string
	turn    turn
	attempt int
	message string
	host    string // where it ran
	at      time.Time
}

type turn struct {
	task   string
	number int
}

func parseEntry(line string) (e entry, err error) {
	var at int64
	_, err = fmt.Sscanf(line, "%s %s %d %d %s %s %d", &e.what, &e.turn.task, &e.turn.number, &e.attempt, &e.message, &e.host, &at)
	e.at = time.UnixMicro(at)
	return e, err
}

// isolation is a time in which a host, or with "" every host, was frozen or had
// no way to the store. Its programs may go on for that long, and until it has
// noticed; what they say may not be in a history.
type isolation struct {
	span
	host string
}

// noticing is how long a host may take to see that others have taken over its
// turns, beside a lease: connections that hang have to be given up.
const noticing = 3 * time.Second

// canceling is how long work may go on after its cancel was answered.
const canceling = 1500 * time.Millisecond

// apart says whether a host was isolated within a time.
func (c *checker) apart(host string, from, to time.Time) bool {
	for _, i := range c.isolated {
		if (i.host == "" || i.host == host) && from.Before(i.to.Add(c.site.lease+noticing)) && to.After(i.from) {
			return true
		}
	}
	return false
}

// checkJournals checks what has really run.
func (c *checker) checkJournals(tasks []stored) error {
	states := map[string]a2a.TaskState{}
	for i := range tasks {
		states[tasks[i].Task.ID] = tasks[i].Task.Status.State
	}
	for _, agent := range programs {
		text, err := os.ReadFile(c.site.journal(agent))
		if err != nil {
			return err
		}
		c.journal(agent, string(text), states)
	}
	return nil
}

// history is what a journal says about all tasks.
type history struct {
	begun     map[turn][]entry
	ended     map[string]bool
	byMessage map[string]map[string]bool
	latest    map[string]entry // the last one that has begun, by task
}

func (c *checker) journal(agent, text string, states map[string]a2a.TaskState) {
	h := &history{map[turn][]entry{}, map[string]bool{}, map[string]map[string]bool{}, map[string]entry{}}
	for line := range strings.Lines(text) {
		e, err := parseEntry(line)
		if err != nil {
			c.ledger.violate("", "the journal of %s has the line %q", agent, line)
			continue
		}
		c.entry(agent, h, &e)
	}
	for t, begun := range h.begun {
		if agent == "once" && len(begun) > 1 {
			c.ledger.violate(t.task, "agent once ran turn %d %d times", t.number, len(begun))
		}
		c.ledger.count(countSecond, len(begun)-1)
	}
	for message, tasks := range h.byMessage {
		if agent == "once" && len(tasks) > 1 {
			c.ledger.violate("", "agent once ran for message %s %d times", message, len(tasks))
		}
		c.ledger.count("first turns of "+agent+countUncommitted, len(tasks)-1)
	}
	for id, state := range states {
		if state == a2a.StateCompleted && h.begun[turn{id, 1}] != nil && !h.ended[id] {
			c.ledger.violate(id, "the task is completed, and its program has not ended")
		}
	}
	c.fences(h)
}

// entry checks a line against those before it.
func (c *checker) entry(agent string, h *history, e *entry) {
	task := e.turn.task
	if stopped := c.ledger.stopped(task); !stopped.IsZero() && e.at.After(stopped.Add(canceling)) && !c.apart(e.host, stopped, e.at) {
		c.ledger.violate(task, "the program of agent %s still ran %s after the cancel was answered", agent, e.at.Sub(stopped))
	}
	switch e.what {
	case journalOverlap:
		holder := h.latest[task]
		if !c.apart(holder.host, e.at, e.at) {
			c.ledger.violate(task, "agent %s ran attempt %d of turn %d while another one was running", agent, e.attempt, e.turn.number)
		}
		c.ledger.count(countOverlaps, 1)
	case journalEnd:
		h.ended[task] = true
	case journalBegin:
		c.ledger.count("programs run by "+agent, 1)
		if before := h.begun[e.turn]; len(before) > 0 && !c.apart(e.host, e.at, e.at) {
			if last := before[len(before)-1].attempt; e.attempt <= last {
				c.ledger.violate(task, "agent %s ran attempt %d of turn %d after attempt %d", agent, e.attempt, e.turn.number, last)
			}
		}
		h.begun[e.turn] = append(h.begun[e.turn], *e)
		h.latest[task] = *e
		if h.byMessage[e.message] == nil {
			h.byMessage[e.message] = map[string]bool{}
		}
		h.byMessage[e.message][task] = true
	}
}

// fences checks that no step of an attempt was committed that was said after
// the next attempt had begun.
func (c *checker) fences(h *history) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for task, marks := range c.marks {
		for _, m := range marks {
			for _, e := range h.begun[turn{task, m.Turn}] {
				if e.attempt > m.Attempt && e.at.Before(time.UnixMicro(m.At)) {
					c.ledger.violate(task, "a step that attempt %d said after attempt %d of turn %d had begun is in the history", m.Attempt, e.attempt, m.Turn)
				}
			}
		}
	}
}
