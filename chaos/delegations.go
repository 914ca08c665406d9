//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"handoff.example/handoff/a2a"
)

// What is counted of a run of delegations.
const (
	countKillsOfOthers = "kills of the other nodes of the chain"
	countOrders        = "orders"
	countSends         = "messages that the partner got and did not refuse for certain"
	countTasksThere    = "tasks of the partner"
	countItems         = "stalls in the inbox"
	countUnknown       = "orders of which nobody knows, and the partner tells nothing"
	countCancels       = "cancels that reached the partner"
)

// exchange is a run of delegations: three nodes in a chain, and a partner.
type exchange struct {
	options *options
	dir     string
	ledger  *ledger
	partner *partner
	nodes   map[string]*server // A, B, C
	desk    *desk
	random  dice
	doubted map[int]bool // orders that were put away
}

// runDelegations kills nodes that delegate, and judges what became of it.
func runDelegations(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return err
	}
	x := &exchange{options: o, dir: dir, ledger: newLedger(), nodes: map[string]*server{}, doubted: map[int]bool{}, random: dice{seeded(o.seed)}}
	defer func() {
		if err = errors.Join(err, x.end()); err != nil && ctx.Err() == nil || o.keep {
			fmt.Println("stores and logs are in", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if o.clients == 0 {
		o.clients = 16
	}
	fmt.Println("seed", o.seed)
	began := time.Now()
	if err := x.start(ctx); err != nil {
		return err
	}
	x.desk = newDesk(x.nodes["A"].socket, o.seed, o.clients, x.ledger.count, x.ledger.violate)
	if err := x.harm(ctx); err != nil {
		x.ledger.violate("", "%v", err)
	}
	fmt.Println("settle")
	x.desk.close(60 * time.Second)
	if err := x.settle(ctx); err != nil {
		return err
	}
	x.desk.leave()
	fmt.Println("check")
	if err := x.judge(ctx); err != nil {
		return err
	}
	for _, line := range x.ledger.lines() {
		fmt.Println(line)
	}
	fmt.Printf("took %s\n", time.Since(began).Round(time.Second))
	if err := x.explain(ctx); err != nil {
		return err
	}
	if o.report == "" {
		return nil
	}
	file, err := os.Create(o.report)
	if err != nil {
		return err
	}
	x.report(file)
	return file.Close()
}

// freeAddress returns an address whose port was free a moment ago: every process
// of a node has the same one.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// start brings up the partner and the nodes.
func (x *exchange) start(ctx context.Context) error {
	var err error
	if x.partner, err = newPartner(x.options.seed, x.ledger.count); err != nil {
		return err
	}
	addresses := map[string]string{}
	for _, name := range []string{"A", "B", "C"} {
		if addresses[name], err = freeAddress(); err != nil {
			return err
		}
	}
	texts := map[string]string{
		"A": firstNode(x.partner.address, addresses["B"]),
		"B": middleNode(addresses["C"]),
		"C": lastNode,
	}
	for _, name := range []string{"C", "B", "A"} {
		dir := filepath.Join(x.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		node, err := newServer("node "+name, x.options.program, dir, addresses[name], fmt.Sprintf(nodeHead, addresses[name], addresses[name])+texts[name])
		if err != nil {
			return err
		}
		node.socket = filepath.Join(dir, "store.db.sock")
		x.nodes[name] = node
		if err := errors.Join(node.start(), node.ready(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) end() error {
	var errs []error
	if x.partner != nil {
		errs = append(errs, x.partner.close())
	}
	for _, node := range x.nodes {
		errs = append(errs, node.end())
	}
	return errors.Join(errs...)
}

// harm kills nodes.
func (x *exchange) harm(ctx context.Context) error {
	began := time.Now()
	for i := range x.options.kills {
		wait(ctx, x.random.between(100, 900))
		if x.ledger.broken() > 0 || ctx.Err() != nil {
			break // the sooner it ends, the less there is to read
		}
		kind := []string{countKills, countKills, countKillsAtStart, countKillsInRecovery}[x.random.IntN(4)]
		other := []string{"", "", "B", "C"}[x.random.IntN(4)]
		fmt.Printf("%3d/%d %s %s\n", i+1, x.options.kills, kind, other)
		x.ledger.count(kind, 1)
		if other != "" {
			x.ledger.count(countKillsOfOthers, 1)
			if err := x.nodes[other].kill(); err != nil {
				return err
			}
			if err := x.nodes[other].start(); err != nil {
				return err
			}
		}
		if err := x.killFirst(ctx, kind); err != nil {
			return err
		}
		if other != "" {
			if err := x.nodes[other].ready(ctx); err != nil {
				return err
			}
		}
	}
	wait(ctx, x.options.duration-time.Since(began))
	n := 0
	for _, node := range x.nodes {
		n += node.starts
	}
	x.ledger.count(countStarts, n)
	return ctx.Err()
}

// killFirst kills the node that delegates, once, and is done when it is ready
// again.
func (x *exchange) killFirst(ctx context.Context, kind string) error {
	node := x.nodes["A"]
	switch kind {
	case countKillsAtStart, countKillsInRecovery:
		// Stopping is no kill: what is counted is the one that follows.
		if err := node.stop(ctx); err != nil {
			return err
		}
		if err := node.start(); err != nil {
			return err
		}
		if kind == countKillsInRecovery {
			if err := node.ready(ctx); err != nil {
				return err
			}
			wait(ctx, x.random.between(0, 200))
		} else {
			wait(ctx, x.random.between(0, 80))
		}
	}
	if err := node.kill(); err != nil {
		return err
	}
	x.partner.died()
	return errors.Join(node.start(), node.ready(ctx))
}

// settle waits until every order has come to its end, or to where nobody can
// know it, and puts those away.
func (x *exchange) settle(ctx context.Context) error {
	c := x.desk.console
	deadline := time.Now().Add(90 * time.Second)
	for round := 0; ; round++ {
		open, err := c.delegations(ctx, "&open=true")
		if err != nil {
			return err
		}
		accounts, err := x.accounts(ctx, open)
		if err != nil {
			return err
		}
		left := 0
		number := numbersOf(open)
		items, err := c.stalls(ctx, false)
		if err != nil {
			return err
		}
		told := map[string]bool{}
		for i := range items {
			told[items[i].Task] = told[items[i].Task] || items[i].Kind == "stuck"
		}
		for _, d := range open {
			if a := accounts[number[d.ID]]; a != nil && a.delegation != nil && a.order.way != wayChain && a.delegation.send == "unknown" && a.truly() && told[a.delegation.id] {
				continue
			}
			left++
			if d.Peer && round%8 == 7 && d.State == a2a.StateWorking.String() {
				// What an operator does who does not want to wait for the next try.
				if err := c.do(ctx, "POST", "/delegations/"+d.ID+":resume", nil, nil); err != nil && passing(err) {
					return err
				}
			}
		}
		if left == 0 {
			return x.putAway(ctx, open)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return x.putAway(ctx, open)
		}
		wait(ctx, 250*time.Millisecond)
	}
}

// Violations that end when the partner was told of a cancel. Whoever dies while he
// tells it is followed by another only after his claim of the job, 15 seconds.
var untold = []string{"it is canceled, and at the partner", "and the partner tells of it", "for ever", "at node", "below a task"}

// putAway cancels the orders of which nobody can know what became of them, and
// waits until what is to be told to the partner was told.
func (x *exchange) putAway(ctx context.Context, open []delegated) error {
	c := x.desk.console
	accounts, err := x.accounts(ctx, open)
	if err != nil {
		return err
	}
	for number, a := range accounts {
		if a.order.way == wayChain || a.delegation == nil || a.delegation.state.Terminal() || a.delegation.send != "unknown" || !a.truly() {
			continue
		}
		x.ledger.count(countUnknown, 1)
		x.doubted[number] = true
		p := x.desk.placed[number]
		if p == nil {
			continue
		}
		x.desk.recall(p)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		all, err := c.delegations(ctx, "")
		if err != nil {
			return err
		}
		left := 0
		accounts, err := x.accounts(ctx, all)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			for _, what := range a.violations() {
				if slices.ContainsFunc(untold, func(one string) bool { return strings.Contains(what, one) }) {
					left++
				}
			}
		}
		if left == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			return ctx.Err()
		}
		wait(ctx, 500*time.Millisecond)
	}
}

// accounts collects all that is known of the orders of some delegations.
func (x *exchange) accounts(ctx context.Context, list []delegated) (map[int]*account, error) {
	accounts := map[int]*account{}
	numbers := numbersOf(list)
	for i := range list {
		d := &list[i]
		number := numbers[d.ID]
		if number == 0 {
			continue
		}
		a := accounts[number]
		if a == nil {
			o := drawOrder(x.options.seed, number)
			a = &account{order: o, shop: o.shop, sends: map[string]int{}, chain: map[string][]ware{}}
			accounts[number] = a
		}
		f := &followed{id: d.ID, state: stateNamed(d.State), send: d.Remote.Send, remote: d.Remote.Task, message: d.Remote.Message}
		if d.Parent == "" {
			a.root = f
		}
		if d.Peer && a.order.way != wayChain {
			a.delegation = f
		}
	}
	for number, a := range accounts {
		if a.root == nil {
			delete(accounts, number) // its root is over already, or not listed
			continue
		}
		x.partner.account(a)
		a.doubted = x.doubted[number]
		if p := x.desk.placement(number); p != nil {
			a.canceling, a.canceled, a.seen, a.lastSeen = p.canceling, p.canceled, p.seen, p.state
		}
	}
	return accounts, ctx.Err()
}

// numbersOf returns the number of the order that each delegation is of.
func numbersOf(list []delegated) map[string]int {
	numbers := map[string]int{}
	for i := range list {
		numbers[list[i].ID] = orderIn(strings.Replace(list[i].Ref, "PO-", "order ", 1))
	}
	for i := range list {
		if d := &list[i]; d.Parent != "" {
			numbers[d.ID] = numbers[d.Root]
		}
	}
	return numbers
}

// placement returns what the buyer of an order knows.
func (d *desk) placement(number int) *placement {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.placed[number]
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// account adds what the partner knows of an order.
func (p *partner) account(a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.goods = nil
	for _, g := range p.ordered[a.order.number] {
		w := ware{id: g.ID, state: g.Status.State, goods: goodsOf(&g.Task)}
		for i := range g.History {
			if g.History[i].Role == a2a.RoleUser {
				w.messages = append(w.messages, g.History[i].MessageID)
			}
		}
		a.goods = append(a.goods, w)
	}
	maps.Copy(a.sends, p.sends[a.order.number])
	a.cancels = p.cancels[a.order.number]
}

// goodsOf returns the text of the artifacts of a task.
func goodsOf(t *a2a.Task) string {
	var b strings.Builder
	for i := range t.Artifacts {
		for j := range t.Artifacts[i].Parts {
			b.WriteString(t.Artifacts[i].Parts[j].Text)
		}
	}
	return b.String()
}

// judge collects what is known of every order, and counts what must never happen.
func (x *exchange) judge(ctx context.Context) error {
	c := x.desk.console
	all, err := c.delegations(ctx, "")
	if err != nil {
		return err
	}
	accounts, err := x.accounts(ctx, all)
	if err != nil {
		return err
	}
	if err := x.stalls(ctx, accounts, all); err != nil {
		return err
	}
	if err := x.chains(ctx, accounts); err != nil {
		return err
	}
	states, numbers := map[string]string{}, numbersOf(all)
	for i := range all {
		states[all[i].ID] = all[i].State
	}
	read := newAdmin([]string{x.nodes["A"].socket})
	for _, number := range slices.Sorted(maps.Keys(accounts)) {
		a := accounts[number]
		for _, f := range []*followed{a.root, a.delegation} {
			if f == nil {
				continue
			}
			if err := f.read(ctx, read); err != nil {
				return err
			}
		}
		for i := range all {
			d := &all[i]
			if d.Parent != "" && numbers[d.ID] == number &&
				stateNamed(states[d.Parent]).Terminal() && !stateNamed(d.State).Terminal() {
				a.openBelow = append(a.openBelow, d.ID)
			}
		}
		x.sum(a)
		for _, text := range a.violations() {
			x.ledger.violate(a.root.id, "order %d, %s, %s, fault %q, answer %q, flaw %q, at %v: %s",
				number, a.order.way, a.order.work, a.order.fault, a.order.answerFault, a.order.flaw, a.order.shop, text)
		}
	}
	for number, p := range x.desk.placed {
		if accounts[number] == nil {
			x.ledger.violate(p.id, "order %d was placed, and the node does not know it", number)
		}
	}
	if x.partner.strays > 0 {
		x.ledger.violate("", "%d requests followed a redirect", x.partner.strays)
	}
	return nil
}

// read reads a task and its log.
func (f *followed) read(ctx context.Context, from *admin) error {
	var task stored
	if err := from.get(ctx, "/tasks/"+f.id, &task); err != nil {
		return err
	}
	f.goods = goodsOf(&task.Task)
	if m := task.Task.Status.Message; m != nil {
		f.text = m.Text()
	}
	log, err := from.events(ctx, f.id)
	if err != nil {
		return err
	}
	f.trail = nil
	for _, e := range log {
		var body a2a.StreamResponse
		if err := a2a.Unmarshal(e.Event, &body); err != nil {
			return err
		}
		t := trace{seq: e.Seq}
		if body.StatusUpdate != nil {
			t.state = body.StatusUpdate.Status.State
		}
		f.trail = append(f.trail, t)
	}
	return nil
}

// stalls adds the items of the inbox.
func (x *exchange) stalls(ctx context.Context, accounts map[int]*account, all []delegated) error {
	roots, below := map[string]*account{}, map[string]*account{}
	for _, a := range accounts {
		roots[a.root.id] = a
	}
	for i := range all {
		if d := &all[i]; d.Parent != "" {
			below[d.ID] = roots[d.Root]
		}
	}
	for _, settled := range []bool{false, true} {
		items, err := x.desk.console.stalls(ctx, settled)
		if err != nil {
			return err
		}
		for i := range items {
			s := &items[i]
			if err := x.desk.console.record(ctx, s); err != nil {
				return err
			}
			x.ledger.count(countItems+": "+s.Kind+" "+s.Decision, 1)
			switch {
			case roots[s.Task] != nil:
				roots[s.Task].items = append(roots[s.Task].items, *s)
			case below[s.Task] != nil && s.Kind != "stuck":
				below[s.Task].strayItems++
			case below[s.Task] != nil:
				below[s.Task].items = append(below[s.Task].items, *s)
			default:
				x.ledger.violate(s.Task, "item %s is of no order", s.ID)
			}
		}
	}
	return nil
}

// chains adds the tasks of the other nodes.
func (x *exchange) chains(ctx context.Context, accounts map[int]*account) error {
	for _, name := range []string{"B", "C"} {
		tasks, err := newAdmin([]string{x.nodes[name].socket}).tasks(ctx)
		if err != nil {
			return err
		}
		for i := range tasks {
			t := &tasks[i]
			if strings.HasPrefix(t.Agent, "peer:") {
				continue
			}
			var whole stored
			if err := newAdmin([]string{x.nodes[name].socket}).get(ctx, "/tasks/"+t.Task.ID, &whole); err != nil {
				return err
			}
			number := 0
			if len(whole.Task.History) > 0 {
				number = orderIn(whole.Task.History[0].Text())
			}
			a := accounts[number]
			if a == nil {
				x.ledger.violate(t.Task.ID, "a task of node %s is of no order", name)
				continue
			}
			a.chain[name] = append(a.chain[name], ware{id: t.Task.ID, state: whole.Task.Status.State, goods: goodsOf(&whole.Task)})
		}
	}
	return nil
}

// sum counts an order.
func (x *exchange) sum(a *account) {
	l := x.ledger
	l.count(countOrders, 1)
	l.count("orders that ended "+a.root.state.String(), 1)
	l.count(countEvents, len(a.root.trail))
	for _, n := range a.sends {
		l.count(countSends, n)
	}
	l.count(countTasksThere, len(a.goods))
	if a.cancels > 0 {
		l.count(countCancels, 1)
	}
}

// explain prints what must never happen, and has.
func (x *exchange) explain(ctx context.Context) error {
	const most = 12
	read := newAdmin([]string{x.nodes["A"].socket})
	for i, v := range x.ledger.violations {
		if i == most {
			fmt.Printf("… and %d more\n", len(x.ledger.violations)-most)
			break
		}
		fmt.Printf("\nVIOLATION: %s\n", v.text)
		if v.task == "" {
			continue
		}
		fmt.Printf("task %s\n", v.task)
		events, err := read.events(ctx, v.task)
		if err != nil {
			fmt.Println(err)
		}
		for i, e := range events {
			if i > 10 && i < len(events)-10 {
				continue
			}
			var body a2a.StreamResponse
			if err := a2a.Unmarshal(e.Event, &body); err != nil {
				return err
			}
			switch {
			case body.Message != nil:
				fmt.Printf("  %4d message  %.200q\n", e.Seq, body.Message.Text())
			case body.StatusUpdate != nil:
				text := ""
				if m := body.StatusUpdate.Status.Message; m != nil {
					text = m.MessageID + " " + m.Text()
				}
				fmt.Printf("  %4d status   %s %s %.300q\n", e.Seq, body.StatusUpdate.Status.Timestamp.Format("15:04:05.000"), body.StatusUpdate.Status.State, text)
			default:
				fmt.Printf("  %4d %-8s %.300s\n", e.Seq, e.Kind, e.Event)
			}
		}
		var d delegated
		if err := x.desk.console.do(ctx, "GET", "/delegations/"+v.task, nil, &d); err == nil {
			fmt.Printf("  %+v\n", d)
		}
		for _, settled := range []bool{false, true} {
			items, err := x.desk.console.stalls(ctx, settled)
			if err != nil {
				return err
			}
			for _, s := range items {
				if s.Task == v.task {
					fmt.Printf("  item %+v, refused: %s\n", s, x.desk.refused[s.ID])
				}
			}
		}
	}
	if n := len(x.ledger.violations); n > 0 {
		return fmt.Errorf("%d violations, with seed %d", n, x.options.seed)
	}
	return nil
}

// report writes the page about a run without a violation.
func (x *exchange) report(w io.Writer) {
	x.ledger.report(w, delegationText, fmt.Sprintf("go run ./chaos -delegations -kills %d -seed %d", x.options.kills, x.options.seed))
}
