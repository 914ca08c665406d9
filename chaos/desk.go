//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
)

// console speaks with the API of a node over its admin socket.
type console struct{ http *http.Client }

func newConsole(socket string) *console {
	return &console{&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 8,
	}}}
}

// apiError is what the API answers with when it refuses.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.text) }

// passing reports whether an error is one of a node that is not there right now.
func passing(err error) bool {
	refused, ok := errors.AsType[*apiError](err)
	return !ok || refused.status == http.StatusServiceUnavailable || refused.status == http.StatusTooManyRequests
}

func (c *console) open(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://node/api/v1"+path, body)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		q.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return nil, err
		}
		return nil, &apiError{answer.StatusCode, string(bytes.TrimSpace(text))}
	}
	return answer, nil
}

// do makes a call within a time, and reads its answer into out.
func (c *console) do(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := c.open(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil {
		_, err := io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.UnmarshalRead(answer.Body, out)
}

// insist makes a call until the node has answered it.
func (c *console) insist(ctx context.Context, counted func(string, int), method, path string, in, out any) error {
	for {
		err := c.do(ctx, method, path, in, out)
		if err == nil || !passing(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s %s got no answer in time: %w", method, path, err)
		}
		counted(countBroken, 1)
		wait(ctx, 20*time.Millisecond)
	}
}

// delegated is a delegation as the API shows it.
type delegated struct {
	ID     string  `json:"id"`
	To     string  `json:"to"`
	Peer   bool    `json:"peer"`
	Ref    string  `json:"ref"`
	State  string  `json:"state"`
	Root   string  `json:"root"`
	Parent string  `json:"parent"`
	Remote farSide `json:"remote"`
}

type farSide struct {
	Send     string `json:"send"`
	Task     string `json:"task"`
	State    string `json:"state"`
	Error    string `json:"error"`
	Attempts int    `json:"attempts"`
	Recalled bool   `json:"recalled"`
	Message  string `json:"message"`
	Channel  string `json:"channel"`
}

// delegations returns all of them.
func (c *console) delegations(ctx context.Context, filter string) ([]delegated, error) {
	var all []delegated
	for token := ""; ; {
		var page struct {
			Delegations []delegated `json:"delegations"`
			Next        string      `json:"next_page_token"`
		}
		if err := c.do(ctx, http.MethodGet, "/delegations?page_size=100&page_token="+url.QueryEscape(token)+filter, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Delegations...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

// stall is an item of the inbox.
type stall struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Task     string    `json:"task"`
	Text     string    `json:"text"`
	Created  time.Time `json:"created"`
	Settled  time.Time `json:"settled"`
	Decision string    `json:"decision"`
	By       string    `json:"by"`
	// history has what was done with it, in one word each.
	history []string
}

// silentSince returns since when the partner has been silent, as the item has it;
// not ok: the item does not say so.
func (s *stall) silentSince() (since time.Time, ok bool) {
	_, rest, ok := strings.Cut(s.Text, " has been silent since ")
	if !ok {
		return time.Time{}, false
	}
	text, _, _ := strings.Cut(rest, ": ")
	since, err := time.Parse(time.RFC3339, text)
	return since, err == nil
}

// stalls returns the items of the inbox.
func (c *console) stalls(ctx context.Context, settled bool) ([]stall, error) {
	var all []stall
	for token := ""; ; {
		var page struct {
			Items []stall `json:"items"`
			Next  string  `json:"next_page_token"`
		}
		path := "/inbox?page_size=100&settled=" + strconv.FormatBool(settled) + "&page_token=" + url.QueryEscape(token)
		if err := c.do(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if token = page.Next; token == "" {
			return all, nil
		}
	}
}

// record reads the history of an item.
func (c *console) record(ctx context.Context, s *stall) error {
	var detail struct {
		History []struct {
			What string `json:"what"`
		} `json:"history"`
	}
	if err := c.do(ctx, http.MethodGet, "/inbox/"+s.ID, nil, &detail); err != nil {
		return err
	}
	for _, h := range detail.History {
		s.history = append(s.history, h.What)
	}
	return nil
}

// desk is the load: buyers who place orders one after the other, watch what
// becomes of each and cancel some, and clerks who answer what comes into the
// inbox.
type desk struct {
	console *console
	seed    uint64
	counted func(string, int)
	violate func(task, format string, arguments ...any)
	buyers  sync.WaitGroup
	clerks  sync.WaitGroup
	closing chan struct{} // closed when nothing more is ordered
	closed  chan struct{} // closed when the clerks go home
	end     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	next    int
	placed  map[int]*placement
	refused map[string]string // why each item could not be settled, the last time
	given   map[string]string // how each item was settled, in the answer to a clerk
}

// placement is an order that was placed, as its buyer knows it.
type placement struct {
	order     *purchase
	id        string
	canceling bool // a cancel was sent
	canceled  bool // it was answered
	seen      []int64
	state     string // the last one that was seen
}

// newDesk opens a desk.
func newDesk(socket string, seed uint64, buyers int, counted func(string, int), violate func(string, string, ...any)) *desk {
	d := &desk{
		console: newConsole(socket), seed: seed, counted: counted, violate: violate,
		closing: make(chan struct{}), closed: make(chan struct{}), placed: map[int]*placement{}, given: map[string]string{}, refused: map[string]string{},
	}
	d.end, d.cancel = context.WithCancel(context.Background())
	for range buyers {
		d.buyers.Go(d.buy)
	}
	for range 2 {
		d.clerks.Go(d.serve)
	}
	return d
}

// close lets the buyers see to what they have ordered.
func (d *desk) close(within time.Duration) {
	close(d.closing)
	timer := time.AfterFunc(within, d.cancel)
	d.buyers.Wait()
	timer.Stop()
}

// leave lets the clerks go home.
func (d *desk) leave() {
	close(d.closed)
	d.clerks.Wait()
	d.cancel()
}

// buy places one order after the other.
func (d *desk) buy() {
	for {
		select {
		case <-d.closing:
			return
		default:
		}
		d.mu.Lock()
		d.next++
		o := drawOrder(d.seed, d.next)
		d.mu.Unlock()
		p := d.place(o)
		if p == nil {
			return
		}
		var hands sync.WaitGroup
		if o.cancel > 0 {
			hands.Go(func() {
				wait(d.end, o.cancel)
				d.recall(p)
			})
		}
		d.watch(p)
		hands.Wait()
	}
}

// place hands an order on, once.
func (d *desk) place(o *purchase) *placement {
	p := &placement{order: o}
	in := map[string]any{
		"to": o.to(), "ref": o.ref(),
		"message": map[string]any{"messageId": "place-" + o.ref(), "role": "ROLE_USER", "parts": []any{map[string]any{"text": o.text()}}},
	}
	var made delegated
	if err := d.console.insist(d.end, d.counted, http.MethodPost, "/delegations", in, &made); err != nil {
		d.violate("", "order %d could not be placed: %v", o.number, err)
		return nil
	}
	p.id = made.ID
	if o.number%8 == 0 { // once more
		var again delegated
		if err := d.console.insist(d.end, d.counted, http.MethodPost, "/delegations", in, &again); err != nil {
			d.violate(p.id, "order %d could not be placed once more: %v", o.number, err)
		} else if again.ID != p.id {
			d.violate(p.id, "order %d was placed once more and is %s too", o.number, again.ID)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.placed[o.number] = p
	d.counted("orders "+string(o.way), 1)
	return p
}

// recall cancels an order.
func (d *desk) recall(p *placement) {
	d.mu.Lock()
	p.canceling = true
	d.mu.Unlock()
	err := d.console.insist(d.end, d.counted, http.MethodPost, "/delegations/"+p.id+":cancel", nil, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	p.canceled = err == nil
	refused, ok := errors.AsType[*apiError](err)
	if err != nil && (!ok || refused.status != http.StatusBadRequest && refused.status != http.StatusConflict) {
		d.violate(p.id, "the cancel got an error: %v", err)
	}
}

// patience is how long a buyer watches one order.
const patience = 6 * time.Second

// watch follows the events of an order until it is over, for a time.
func (d *desk) watch(p *placement) {
	ctx, done := context.WithTimeout(d.end, patience)
	defer done()
	for ctx.Err() == nil {
		over, err := d.follow(ctx, p)
		if over {
			return
		}
		if err != nil && !passing(err) {
			d.violate(p.id, "the events cannot be followed: %v", err)
			return
		}
		d.counted(countResumed, 1)
		wait(ctx, 20*time.Millisecond)
	}
}

// follow follows the events of an order on one connection.
func (d *desk) follow(ctx context.Context, p *placement) (over bool, _ error) {
	path := "/tasks/" + p.id + "/events?follow"
	if n := len(p.seen); n > 0 {
		path += "&after=" + strconv.FormatInt(p.seen[n-1], 10)
	}
	answer, err := d.console.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false, nil // cut off, or drained
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e event
		var body a2a.StreamResponse
		if err := errors.Join(json.Unmarshal([]byte(data), &e), a2a.Unmarshal(e.Event, &body)); err != nil {
			return false, err
		}
		p.seen = append(p.seen, e.Seq)
		d.counted(countFrames, 1)
		if body.StatusUpdate != nil {
			p.state = body.StatusUpdate.Status.State.String()
			if body.StatusUpdate.Status.State.Terminal() {
				return true, nil
			}
		}
	}
}

// serve answers what is in the inbox. Two clerks do so at once; the first answer
// wins.
func (d *desk) serve() {
	for {
		items, err := d.console.stalls(d.end, false)
		if err == nil {
			for i := range items {
				d.settle(&items[i])
			}
		}
		select {
		case <-d.closed:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// settle answers an item.
func (d *desk) settle(s *stall) {
	number := orderIn(s.Text)
	if number == 0 || s.Kind != "question" && s.Kind != "grant" {
		return // a stall that nobody can do anything about
	}
	o := drawOrder(d.seed, number)
	path, in := "/inbox/"+s.ID+"/answer", map[string]any{"text": o.answer()}
	if s.Kind == "grant" {
		path, in = "/inbox/"+s.ID+"/decision", map[string]any{"decision": "approve", "note": "within the budget"}
		if o.denied() {
			in["decision"] = "deny"
		}
	}
	err := d.console.do(d.end, http.MethodPost, path, in, nil)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if how := d.given[s.ID]; how != "" {
			d.violate(s.Task, "two clerks were told that they have settled item %s", s.ID)
		}
		d.given[s.ID] = s.Kind
		return
	}
	refused, ok := errors.AsType[*apiError](err)
	if ok {
		d.mu.Lock()
		d.refused[s.ID] = err.Error()
		d.mu.Unlock()
	}
	if ok && refused.status/100 == 5 && !passing(err) {
		d.violate(s.Task, "item %s cannot be settled: %v", s.ID, err)
	}
}
