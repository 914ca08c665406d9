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
	countTwice       = "messages sent in two requests at once"
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
	countAway        = "refusals of a node without its store, each saying when to try again"
	countOverlaps    = "programs of a node that was away still running when another node went on"
)

// countUncommitted follows the name of an agent.
const countUncommitted = " begun before there was a task, cut off, and begun again when the client sent its message again"

var order = []string{
	countKills, countKillsAtStart, countKillsInRecovery, countFreezes, countStops, countStarts,
	countTasks, countMessages, countReplies, countRepeated, countTwice, countBroken, countUnavailable, countDrained, countResumed, countCanceled,
	countEvents, countStreams, countFrames, countSecond, countInterrupted,
}

// lines returns what was counted, in the order of order, and then the rest.
func (l *ledger) lines() []string {
	names := slices.DeleteFunc(slices.Clone(order), func(name string) bool {
		_, counted := l.counts[name]
		return !counted
	})
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

// singleText is the page about a run on one node, with a verb for the backquote.
const singleText = `# The chaos test

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
- Two attempts of a turn never ran at the same time, and no step that an attempt
  said after the next one had begun is in the history.
- The work of a task stops when its cancel is answered.
- An agent that is not run again never was: no turn has a second attempt, and a
  message that was cut off before it had a task is answered with a FAILED one
  when it is sent again. An agent that is run again handles such a message anew;
  these are counted.
- Nothing is WORKING for ever: all tasks are terminal, or wait for their client.
- No client got an error that it could not do anything about, and a server that
  was told to stop interrupted nothing.

`

// report writes a page: the text, and the counts. A text has %[1]s for each
// backquote.
func (l *ledger) report(w io.Writer, text, command string) {
	fmt.Fprint(w, strings.ReplaceAll(text, "%[1]s", "`"))
	fmt.Fprintf(w, "What %s%s%s counted:\n\n| count | what |\n| ---: | --- |\n", "`", command, "`")
	for _, line := range l.lines() {
		number, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(w, "| %s | %s |\n", number, name)
	}
	fmt.Fprintf(w, "| %d | **violations** |\n", len(l.violations))
}

// clusterText is the page about a run on a cluster, with a verb for the
// backquote and a place for the faults.
const clusterText = `# The chaos test of a cluster

Three nodes, PostgreSQL and NATS, each a process in a network namespace of its
own with one link to a common switch. PostgreSQL syncs to the disk; a lease is
2 s. Clients go round the three nodes, one request after the other, as behind a
balancer without stickiness: whatever breaks, or is silent for 4 s, they try on
the next node, under the same message id, or from the last event they saw. So a
stream is resumed on another node than the one that gave the event, a cancel
reaches another node than the one that works, and a message is sent in two
requests at once to two nodes.

Under this load one thing after the other goes wrong, and is put right again:

| fault | times | survived |
| --- | ---: | ---: |
FAULTS

Survived means that every node was ready again and ran a task of its own within
20 s, and that the checks below found nothing. A link that is down gives errors
to its own host; one that loses everything tells nobody.

While PostgreSQL or NATS is away, or one node cannot reach PostgreSQL, a stream
of a waiting task is open through each node. It must not end, and shows how the
task goes on afterwards. A node without PostgreSQL must be alive, refuse within
8 s also where packets vanish, and say with every refusal when to try again.

Afterwards everything that the clients were told is compared with the store and
with the journals of the programs that the agents ran, by the same checks as for
[one node](chaos.md):

- Every task whose id a client has ever received exists, and every message that
  was acknowledged is in the history of its task once, whichever nodes it was
  sent to.
- A terminal state that was seen never changed, and nothing follows it.
- Every client that watched a task, through whichever nodes, saw the same events
  in the same order: those of the log, numbered without a gap.
- The artifacts rebuilt from a stream, and from the log, are those of GetTask.
- A count that was interrupted goes on without a gap and without a repetition.
- Two attempts of a turn never ran at the same time, except that the program of
  a node that was frozen or had no way to the store may still have been running
  when another node went on. No step that it said after that is in the history.
- An agent that is not run again never was, whatever happened: no turn began
  twice.
- The work of a task stops within 1.5 s of the answer to its cancel; on a node
  that was away, when it is back.
- A rolling restart, and the loss of NATS, interrupted nothing.
- Nothing is WORKING for ever: all tasks are terminal, or wait for their client.
- No client got an error that it could not do anything about.
- No log has the password of the database, or a crash.

`
