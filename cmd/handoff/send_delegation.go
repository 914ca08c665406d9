package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/config"
)

// periodValue is the value of a flag that is a duration of more than 0.
type periodValue struct{ duration *config.Duration }

func (v *periodValue) String() string {
	if v.duration == nil || *v.duration == 0 {
		return ""
	}
	return v.duration.String()
}

// Set reads the duration.
func (v *periodValue) Set(text string) error {
	if err := v.duration.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if *v.duration <= 0 {
		return errors.New("has to be more than 0")
	}
	return nil
}

// Type is for the help.
func (v *periodValue) Type() string { return "duration" }

// delegationFlags say how a message to a peer goes through the ledger of the
// node.
type delegationFlags struct {
	ref      string
	again    bool
	deadline config.Duration // 0: as the peer is configured
}

func (f *delegationFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.ref, "ref", "", "to a peer of the node: the key by which the work is found again, such as an order number")
	fs.BoolVar(&f.again, "again", false, "to a peer of the node: although an open delegation to it has the reference")
	fs.Var(&periodValue{&f.deadline}, "deadline", "to a peer of the node: how long the work may take (default: as the peer is configured)")
}

func (f *delegationFlags) empty() bool { return *f == delegationFlags{} }

// ledgerNode returns the node that hands a message to a peer, which the agent
// names: the one of --node, or that of ./handoff.yaml while it runs. Without
// one, a message goes out directly.
func (c *sendCommand) ledgerNode(ctx context.Context, named string) (node *nodeAPI, peer string, err error) {
	if named == "" {
		named = c.flags.agentCard
	}
	url := c.flags.node
	if url == "" {
		url, _ = c.lookupEnv("HANDOFF_NODE")
	}
	asked := !c.delegation.empty()
	if url != "" {
		if !asked {
			return nil, "", nil
		}
		node, err := c.openNode(&apiFlags{node: url, tls: c.flags.tls})
		return node, named, err
	}
	local, err := loadLocal()
	switch {
	case err != nil:
		return nil, "", nil // findTarget says what is wrong
	case local == nil && asked:
		return nil, "", usagef("--ref, --again and --deadline are for the peers of a node").
			hint("Run the command beside the %s of the node, or name the node with --node URL", configFile)
	case local == nil || !asked && local.Peers[named] == nil && !c.added(ctx, local, named):
		return nil, "", nil
	case c.taskID != "" && !asked:
		// The task is one of the peer's, or a delegation, which has a command of
		// its own.
		return nil, "", nil
	}
	if name := c.wireFlag(); name != "" {
		if asked {
			return nil, "", usagef("--%s is for messages that go to the agent directly, and --ref, --again and --deadline for those that the node sends", name)
		}
		if local.Peers[named] == nil {
			return nil, "", nil // findTarget says that only the node reaches it
		}
		c.warn("with --%s the message goes to the peer directly, and nobody keeps hold of what becomes of it", name)
		return nil, "", nil
	}
	node, err = socketNode(local)
	if err == nil {
		if err = node.ready(ctx); err != nil {
			node.close()
		}
	}
	if err == nil {
		return node, named, nil
	}
	if asked {
		return nil, "", err
	}
	if f, ok := errors.AsType[*failure](err); ok && (f.Code == codeUnreachable || f.Code == codeUsage) {
		c.warn("the node does not run: the message goes to the peer directly, and nobody keeps hold of what becomes of it")
		return nil, "", nil
	}
	return nil, "", err
}

// wireFlag returns an option of the command line that is about the connection to
// the agent, "" when there is none.
func (c *sendCommand) wireFlag() string {
	for _, name := range [...]string{"debug", "transport", "a2a-version", "bearer", "api-key", "svc-param", "insecure"} {
		if f := c.flags.set.Lookup(name); f != nil && byFlag(f) {
			return name
		}
	}
	return ""
}

// delegate hands a message to a peer through the node, and waits for what becomes
// of it.
func (c *sendCommand) delegate(ctx context.Context, node *nodeAPI, peer string, req *a2a.SendMessageRequest) error {
	if c.taskID != "" {
		return usagef("a delegation goes on with: handoff delegation send %s", quoteShell(c.taskID))
	}
	if c.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.flags.timeout)
		defer cancel()
	}
	body := struct {
		To       string `json:"to"`
		Message  any    `json:"message"`
		Ref      string `json:"ref,omitzero"`
		Again    bool   `json:"again,omitzero"`
		Deadline string `json:"deadline,omitzero"`
	}{To: peer, Message: messageBody(req.Message), Ref: c.delegation.ref, Again: c.delegation.again}
	if c.delegation.deadline != 0 {
		body.Deadline = c.delegation.deadline.Std().String()
	}
	var d delegationInfo
	if _, err := node.get(ctx, "POST", "/delegations", &body, &d); err != nil {
		return err
	}
	if c.async {
		return c.showDelegated(ctx, node, d.ID)
	}
	telling, enough := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		c.tellTrouble(telling, node, d.ID)
	}()
	v := c.newView(c.flags.verbose)
	err := c.watchTask(ctx, node, d.ID, func(e *a2a.StreamResponse) (bool, error) {
		if c.stream {
			if c.output != formatText {
				if err := c.writeObject(e, true); err != nil {
					return true, err
				}
			} else if v.event(e); v.err != nil {
				return true, v.err
			}
		}
		return e.StatusUpdate != nil && e.StatusUpdate.Status.State.Interrupted(), nil
	})
	enough()
	<-told // what comes now is said after it
	if err != nil {
		f := classify(err)
		switch ctx.Err() {
		case context.DeadlineExceeded:
			f = failf(codeTimeout, "it is not over after %s", c.flags.timeout)
		case context.Canceled:
			f = failf(codeInterrupted, "interrupted")
		}
		return f.hint("The delegation goes on; follow it with: handoff delegation watch %s", c.handle(d.ID))
	}
	return c.throughAbsence(ctx, node, func() error { return c.delegated(ctx, node, d.ID, !c.stream) })
}

// troublePause is how often the trouble with a peer is asked for.
const troublePause = 2 * time.Second

// tellTrouble warns of what keeps a delegation from its peer, which is no event of
// its task, until ctx ends.
func (c *sendCommand) tellTrouble(ctx context.Context, node *nodeAPI, id string) {
	last := ""
	for wait := troublePause / 4; pause(ctx, wait) == nil; wait = troublePause {
		var d delegationInfo
		if _, err := node.get(ctx, "GET", delegationPath(id, ""), nil, &d); err != nil || d.Remote == nil || d.Remote.Error == last {
			continue // whoever watches the task tells of a node that is away
		}
		if d.Task.Status.State.Terminal() {
			return // why it has ended is told with its end
		}
		if last = d.Remote.Error; last != "" {
			c.warn("%s is not reached: %s. The work waits, and so does this command; Ctrl-C leaves it to the node", d.To, strings.TrimSuffix(last, "."))
		}
	}
}

// handle is how a person names the delegation in the next command: by the
// reference that was given, as long as it can mean no other.
func (c *sendCommand) handle(id string) string {
	if ref := c.delegation.ref; ref != "" && ref[0] != '-' && !c.delegation.again {
		return quoteShell(ref)
	}
	return id
}

// delegated says what became of a delegation, and how to go on.
func (c *sendCommand) delegated(ctx context.Context, node *nodeAPI, id string, show bool) error {
	var d delegationInfo
	value, err := node.get(ctx, "GET", delegationPath(id, ""), nil, &d)
	if err != nil {
		return err
	}
	if show {
		if c.output != formatText {
			if err := c.writeDocument(c.output, value, false); err != nil {
				return err
			}
		} else {
			v := c.newView(c.flags.verbose)
			v.field("Delegation", d.ID)
			v.field("Ref", d.Ref)
			v.task(d.Task)
			if v.err != nil {
				return v.err
			}
		}
	}
	status := exitOK
	switch state := d.Task.Status.State; {
	case state == a2a.StateInputRequired:
		c.warn("the peer waits for an answer; give it with: handoff delegation send %s \"<reply>\"", c.handle(d.ID))
		status = exitWaiting
	case state == a2a.StateAuthRequired:
		c.warn("the peer waits for an authorization; see it with: handoff admin grant")
		status = exitWaiting
	case state.Terminal() && state != a2a.StateCompleted:
		c.warn("the delegation ended as %s", stateText(state))
		status = exitNotDone
	}
	if c.exitState && status != exitOK {
		return exitStatus(status)
	}
	return nil
}

// showDelegated writes a delegation that nobody waits for.
func (c *sendCommand) showDelegated(ctx context.Context, node *nodeAPI, id string) error {
	var d delegationInfo
	value, err := node.get(ctx, "GET", delegationPath(id, ""), nil, &d)
	if err != nil {
		return err
	}
	if c.output != formatText {
		return c.writeDocument(c.output, value, false)
	}
	p := printer{w: c.stdout}
	c.tellDelegation(&p, &d)
	p.field("Follow", "handoff delegation watch "+c.handle(d.ID))
	return p.err
}
