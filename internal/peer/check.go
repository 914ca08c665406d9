package peer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/internal/card"
	"handoff.example/handoff/internal/oauth"
)

// Result is what became of a step of a check.
type Result string

// What can become of a step.
const (
	ResultOK      Result = "ok"
	ResultWarning Result = "warning" // it works, and is probably not meant so
	ResultFailed  Result = "failed"
	ResultSkipped Result = "skipped" // a step before it failed
)

// Step is a step of a check.
type Step struct {
	Name   string // card, signature, pin, interface, credentials, call or deduplicates
	Result Result
	Detail string // what was found
	Do     string // what to do about it; "" for nothing
	Took   time.Duration
}

// Report says step by step what works with a peer.
type Report struct {
	Peer  string
	OK    bool
	Steps []Step
}

// checkSteps are the names of the steps in their order.
var checkSteps = []string{"card", "signature", "pin", "interface", "credentials", "call"}

// stepTwice is the step of a check that sends.
const stepTwice = "deduplicates"

// Check tries a peer for a user, without changing anything there: it gets the
// card, verifies it, chooses an interface and credentials, and asks for a task that
// there is not. Its error is an *UnknownError; what does not work is in the report.
func (d *Directory) Check(ctx context.Context, name string, user User) (*Report, error) {
	return d.CheckBySending(ctx, name, user, "")
}

// CheckBySending is Check, and then sends a message of that text twice under one
// id, to see whether the peer takes it for one (A2A §3.3.1), which is kept among
// the facts. What the peer makes of it is told to cancel. Without a text it is
// Check alone.
func (d *Directory) CheckBySending(ctx context.Context, name string, user User, text string) (*Report, error) {
	e, err := d.find(name)
	if err != nil {
		return nil, err
	}
	c := &checking{directory: d, entry: e, report: &Report{Peer: name, OK: true}, text: text}
	c.run(ctx, user)
	steps := checkSteps
	if text != "" {
		steps = append(steps[:len(steps):len(steps)], stepTwice)
	}
	for i := len(c.report.Steps); i < len(steps); i++ {
		c.add(steps[i], ResultSkipped, "", "", 0)
	}
	return c.report, nil
}

// checking is a check under way.
type checking struct {
	directory *Directory
	entry     *entry
	report    *Report
	text      string // is sent twice; "": nothing is
}

// add adds the result of a step, and reports whether the check goes on.
func (c *checking) add(name string, r Result, detail, do string, took time.Duration) bool {
	c.report.Steps = append(c.report.Steps, Step{Name: name, Result: r, Detail: Clean(detail, maxDescription, false), Do: do, Took: took})
	if r == ResultFailed {
		c.report.OK = false
	}
	return r != ResultFailed
}

func (c *checking) run(ctx context.Context, user User) {
	d, e := c.directory, c.entry
	began := d.now()
	current, _, err := d.ensure(WithUser(ctx, user), e, true)
	took := d.now().Sub(began)
	e.mu.Lock()
	failure := e.failure
	e.mu.Unlock()
	held := isHeld(err)
	switch {
	case err != nil && !held:
		name := "card"
		if _, ok := errors.AsType[*card.SignatureError](err); ok {
			c.add("card", ResultOK, "fetched from "+c.place(), "", took)
			name = "signature"
		}
		c.add(name, ResultFailed, err.Error(), advice(e, err), took)
		return
	case failure != nil:
		c.add("card", ResultFailed, failure.Error()+"; the last one is still used", advice(e, failure), took)
	default:
		c.add("card", ResultOK, "fetched from "+c.place(), "", took)
	}
	row, rowErr := d.rows.get(ctx, e.name, rowAge)
	if rowErr != nil {
		c.add("signature", ResultFailed, rowErr.Error(), "", 0)
		return
	}
	c.signature(factsOf(row).Signature)
	if held {
		c.add("pin", ResultFailed, err.Error(), "look at it with `handoff peer show "+e.name+"`, then approve it with `handoff peer pin "+e.name+"`", 0)
		return
	}
	switch pinned := e.pinned(row); {
	case len(row.Held) > 0:
		c.add("pin", ResultWarning, "a changed card waits for approval; the one that was approved is still used", "approve it with `handoff peer pin "+e.name+"`", 0)
	case pinned == "":
		c.add("pin", ResultOK, "not pinned: the card is taken as it is each time", "", 0)
	default:
		c.add("pin", ResultOK, "pinned to "+pinned, "", 0)
	}
	if err := c.spoken(current); err != nil {
		return
	}
	set, err := choose(e.name, current.use, &e.config.Auth)
	if err != nil {
		c.add("credentials", ResultFailed, err.Error(), "set them in the configuration, under peers."+e.name+".auth", 0)
		return
	}
	c.call(ctx, current, user, set)
}

// place returns where the card comes from.
func (c *checking) place() string {
	if ref := c.entry.config.Card.Ref(); ref != "" {
		return ref
	}
	return "the configuration"
}

func (c *checking) signature(outcome string) {
	switch policy := c.entry.config.Signatures.Policy; outcome {
	case string(card.OutcomeVerified), string(card.OutcomePartial):
		c.add("signature", ResultOK, outcome, "", 0)
	case string(card.OutcomeUnverified):
		c.add("signature", ResultWarning, "signed by a key that is not known", "name the peer's keys in signatures.trust", 0)
	default:
		c.add("signature", ResultOK, strings.TrimSpace(outcome+" (policy "+policy+")"), "", 0)
	}
}

// spoken finds the interface, and checks that it is where requests may go.
func (c *checking) spoken(current *current) error {
	e := c.entry
	one, err := e.client(current, User{})
	if _, ok := errors.AsType[*CredentialsError](err); ok { // that is the next step
		one, err = client.New(current.use, e.options())
	}
	if err != nil {
		c.add("interface", ResultFailed, err.Error(), advice(e, err), 0)
		return err
	}
	c.add("interface", ResultOK, InterfaceOf(one), "", 0)
	return nil
}

// call asks for a task that there is not.
func (c *checking) call(ctx context.Context, current *current, user User, set []chosen) {
	d, e := c.directory, c.entry
	named := make([]string, len(set))
	for i, one := range set {
		named[i] = one.String()
	}
	used := "none are asked for"
	if len(named) > 0 {
		used = strings.Join(named, ", ")
	}
	one, err := e.client(current, user)
	if err != nil {
		c.add("credentials", ResultFailed, err.Error(), advice(e, err), 0)
		return
	}
	began := d.now()
	_, err = one.GetTask(ctx, &a2a.GetTaskRequest{ID: newTaskID()})
	took := d.now().Sub(began)
	o := Observation{Interface: InterfaceOf(one), Version: one.Interface().ProtocolVersion, Latency: took}
	protocol, isProtocol := errors.AsType[*a2a.Error](err)
	transport, isTransport := errors.AsType[*client.TransportError](err)
	switch {
	case isTransport && transport.Kind == client.KindCredentials:
		c.add("credentials", ResultFailed, err.Error(), advice(e, err), took)
		o.Err = err
	case isProtocol && (protocol.Code == a2a.CodeUnauthenticated || protocol.Code == a2a.CodePermissionDenied):
		c.add("credentials", ResultFailed, "the peer refuses them ("+used+"): "+protocol.Message, "check peers."+e.name+".auth: the token may have expired, or lack a scope", took)
		o.Err = err
	case err == nil || isProtocol && protocol.Code == a2a.CodeTaskNotFound:
		c.add("credentials", ResultOK, used, "", 0)
		c.add("call", ResultOK, "the peer knows no task that there is not", "", took)
	case isProtocol:
		c.add("credentials", ResultOK, used, "", 0)
		c.add("call", ResultWarning, "asked for a task that there is not, the peer answers: "+protocol.Message, "it should say that there is no such task (A2A §3.1.3)", took)
	default:
		c.add("credentials", ResultOK, used, "", 0)
		c.add("call", ResultFailed, err.Error(), advice(e, err), took)
		o.Err = err
	}
	d.Observe(ctx, e.name, o)
	if c.text != "" && c.report.OK {
		c.twice(ctx, one)
	}
	_ = d.flush(ctx, e) // people look at the facts next
}

// advice says what to do about an error.
func advice(e *entry, err error) string {
	if _, ok := errors.AsType[*LoginError](err); ok {
		return "log in with `handoff peer login " + e.name + "`"
	}
	_, isToken := errors.AsType[*oauth.TokenError](err)
	if _, isMetadata := errors.AsType[*oauth.MetadataError](err); isToken || isMetadata {
		return "check peers." + e.name + ".auth.oauth2"
	}
	if _, ok := errors.AsType[*card.SignatureError](err); ok {
		return "look at it with `handoff card verify`, and name the peer's keys in peers." + e.name + ".signatures.trust"
	}
	if _, ok := errors.AsType[*client.InterfaceError](err); ok {
		return "ask the peer for an interface that is spoken here"
	}
	t, ok := errors.AsType[*client.TransportError](err)
	if !ok {
		return ""
	}
	switch t.Kind {
	case client.KindRefused:
		return fmt.Sprintf("if the address is right, list it in peers.%s.origins", e.name)
	case client.KindResolve:
		return "check the name of the host in peers." + e.name + ".card"
	case client.KindTLS:
		return "name the certificates to verify the peer's with in peers." + e.name + ".ca"
	case client.KindConnect, client.KindTimeout:
		return "check that the peer runs and can be reached from here"
	}
	return ""
}

// newTaskID returns an id that no task has.
func newTaskID() string { return "handoff-check-" + strings.ToLower(rand.Text()) }
