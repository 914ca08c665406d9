//go:build unix

package main

// delegationText is the page about a run of delegations, with a verb for the
// backquote.
const delegationText = `# The chaos test of delegations

A node over SQLite hands on work, order after order, while it is killed with
SIGKILL again and again: under load, before it is ready, and within its
recovery. It is started again at once. Now and then the other two nodes are
killed as well. What happens is decided by the seed, for each order by its
number.

The orders go four ways: straight to a peer over the API, through an agent that
relays everything, through an agent that delegates in a step, and from node to
node, three hops, with INPUT_REQUIRED and AUTH_REQUIRED at the far end. Buyers
place each order until that is acknowledged, now and then once more, follow its
events from the last one that they saw, and cancel some. Two clerks at once
answer and decide what comes into the inbox of the first node.

The peers are agents of one partner, which is a real HTTP server: one streams
and lists its tasks, one does not stream, one pushes and lists nothing, one does
none of that, and one takes a message that comes twice for one. They do the work
at once, in a while, after a question, after an approval, never, or refuse it;
and they do wrong what the list of faults below has, with the order itself and
with the answer to a question.

Afterwards what the node says of each order is compared with what the partner has
really done, with what the other nodes have, and with what buyers and clerks were
told:

- Every order that was acknowledged exists, once, and has ended.
- It is COMPLETED when the partner's task is, with the partner's artifact. It is
  FAILED or REJECTED when the partner says so, and CANCELED when a buyer has
  canceled it.
- What became of a message is unknown or lost only where the partner does not have
  it or tells nobody. Somebody is told of each
  silence, once. Such orders are put away
  at the end, by a cancel.
- No message is sent twice to a partner that does not deduplicate. Counted is what
  was not refused for certain (429, 503 with %[1]sRetry-After%[1]s, and no pushes).
  There are no more tasks at the partner than messages, and one for each order at
  most; likewise at each node of the chain.
- Every stall is one item in the inbox, of the task at the root, and was settled
  once. Of two clerks one was told that it was him.
- A cancel that was answered has ended the order, and has reached the partner or
  the end of the chain.
- Nothing is open below a task that is over. An agent that delegates ends as its
  delegation does.
- Every log is numbered without a gap, nothing follows its end, and who watched it
  saw it without a gap and without a repetition, whatever was killed meanwhile.
- A redirect to another origin was never followed.

%[1]schaos/verdict_test.go%[1]s breaks each of these rules, in an account that is
made up, and holds that it is found.

The states of the orders are those at the end: CANCELED has those that were put
away in it.

`
