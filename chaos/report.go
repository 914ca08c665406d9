//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// What is counted, beside the tasks of each agent by state.
const (
	countTasks       = "tasks in the store"
	countMessages    = "messages acknowledged with a task"
	countReplies     = "messages answered with a message"
	countRepeated    = "messages sent again after their answer"
	countBroken      = "calls and streams cut off"
	countUnavailable = "calls refused by a server that was stopping or starting"
	countDrained     = "streams ended with the hint to reconnect"
	countResumed     = "streams resumed with Last-Event-ID"
	countCanceled    = "tasks canceled"
	countEvents      = "events in the logs of the tasks"
	countStreams     = "streams compared with the logs"
	countFrames      = "events on these streams"
	countSecond      = "turns run again after an interruption"
	countInterrupted = "tasks failed because they are not run again"
)

// countUncommitted follows the name of an agent.
const countUncommitted = " begun before there was a task, cut off, and begun again when the client sent its message again"

var order = []string{
	countKills, countKillsAtStart, countKillsInRecovery, countFreezes, countStops, countStarts,
	countTasks, countMessages, countReplies, countRepeated, countBroken, countUnavailable, countDrained, countResumed, countCanceled,
	countEvents, countStreams, countFrames, countSecond, countInterrupted,
}

// lines returns what was counted, in the order of order, and then the rest.
func (l *ledger) lines() []string {
	names := slices.Clone(order)
	for _, name := range slices.Sorted(maps.Keys(l.counts)) {
		if !slices.Contains(order, name) {
			names = append(names, name)
		}
	}
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = fmt.Sprintf("%8d  %s", l.counts[name], name)
	}
	return lines
}

const reportText = `# The chaos test

A load of many clients on one server over SQLite, while the server is killed
with SIGKILL again and again: under load, before it is ready, and within its
recovery. Beside that it is frozen for longer than its lease, and told to stop
in its own way. The clients see everything through: what breaks, they send
again under the same message id, or follow on from the last event they saw.

The agents are a script, which goes on after an interruption where it was, and a
program that writes a journal of its side effects, once as an agent that is not
run again (%[1]sonce%[1]s) and once as one that is (%[1]sagain%[1]s).

Afterwards everything that the clients were told is compared with the store, and
with the journals:

- Every task whose id a client has ever received exists.
- Every message that was acknowledged is in the history of its task once. A
  message that was sent again made nothing twice, acknowledged or not.
- A terminal state that was seen never changed, and nothing follows it.
- Every client that watched a task saw the same events in the same order: those
  of the log, numbered without a gap, from where it began.
- The artifacts rebuilt from a stream, and from the log, are those of GetTask.
- A count that was interrupted goes on without a gap and without a repetition.
- Two attempts of a turn never ran at the same time.
- An agent that is not run again never was: no turn has a second attempt, and a
  message that was cut off before it had a task is answered with a FAILED one
  when it is sent again. An agent that is run again handles such a message anew;
  these are counted.
- Nothing is WORKING for ever: all tasks are terminal, or wait for their client.
- No client got an error that it could not do anything about, and a server that
  was told to stop interrupted nothing.

`

// report writes the counts as a page.
func (l *ledger) report(w io.Writer, command string) {
	fmt.Fprintf(w, reportText, "`")
	fmt.Fprintf(w, "What %s%s%s counted:\n\n| count | what |\n| ---: | --- |\n", "`", command, "`")
	for _, line := range l.lines() {
		number, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(w, "| %s | %s |\n", number, name)
	}
	fmt.Fprintf(w, "| %d | **violations** |\n", len(l.violations))
}
