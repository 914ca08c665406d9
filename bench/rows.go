package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/internal/store"
	"handoff.example/handoff/internal/store/sqlite"
)

// withHandoff runs f against a node with a fresh store.
func withHandoff(ctx context.Context, f func(*process) error) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := startHandoff(ctx, dir)
	if err != nil {
		return err
	}
	defer p.stop()
	return f(p)
}

// compared are medians of the two servers, and what a request cost
// them.
type compared struct {
	handoff, peer         float64
	handoffCost, peerCost cost
}

// cost is what a process has used: memory allocated, and seconds of CPU.
type cost struct{ allocations, bytes, cpu float64 }

func (c cost) since(before cost, requests int) cost {
	n := float64(requests)
	return cost{(c.allocations - before.allocations) / n, (c.bytes - before.bytes) / n, (c.cpu - before.cpu) / n}
}

func (c cost) String() string {
	return fmt.Sprintf("%.0f µs of CPU, %.0f allocations, %.1f KB", c.cpu*1e6, c.allocations, c.bytes/1024)
}

// side is one of the servers: how it is measured, and with how many requests.
type side struct {
	requests int
	measure  func(url string) (float64, error)
}

// compare measures the two servers in turn.
func compare(ctx context.Context, rounds int, ours, theirs side) (compared, error) {
	var c compared
	peer, err := startPeer(ctx)
	if err != nil {
		return c, err
	}
	defer peer.stop()
	var a, b []float64
	err = withHandoff(ctx, func(p *process) error {
		ourBefore, err := p.cost()
		if err != nil {
			return err
		}
		theirBefore, err := peer.cost()
		if err != nil {
			return err
		}
		for range rounds {
			x, err := ours.measure(p.url)
			if err != nil {
				return fmt.Errorf("handoff: %w", err)
			}
			y, err := theirs.measure(peer.url)
			if err != nil {
				return fmt.Errorf("peer: %w", err)
			}
			a, b = append(a, x), append(b, y)
		}
		ourAfter, err := p.cost()
		if err != nil {
			return err
		}
		theirAfter, err := peer.cost()
		if err != nil {
			return err
		}
		c.handoffCost = ourAfter.since(ourBefore, rounds*ours.requests)
		c.peerCost = theirAfter.since(theirBefore, rounds*theirs.requests)
		return nil
	})
	if err != nil {
		return c, err
	}
	c.handoff, c.peer = median(a), median(b)
	return c, nil
}

func (c compared) comment(what string) string {
	return fmt.Sprintf("What the server spends on each %s: Handoff %s; a2a-go %s. The load generator has its share of the same two cores.", what, c.handoffCost, c.peerCost)
}

func benchSend(ctx context.Context, s scale) (row, error) {
	measure := func(n int) side {
		return side{n, func(url string) (float64, error) {
			return rate(ctx, url, "echo hello", "TASK_STATE_COMPLETED", n)
		}}
	}
	c, err := compare(ctx, s.rounds, measure(s.sends), measure(s.peerSends))
	return row{
		Name: "blocking SendMessage of a four-event task, 32 connections", Handoff: fmt.Sprintf("%.0f tasks/s", c.handoff),
		Peer: fmt.Sprintf("%.0f tasks/s", c.peer), Ratio: c.handoff / c.peer, Budget: ">= 6x", Held: c.handoff/c.peer >= 6,
		Comment: c.comment("task"),
	}, err
}

func benchMessage(ctx context.Context, s scale) (row, error) {
	measure := side{s.sends, func(url string) (float64, error) { return rate(ctx, url, "message hi", `"hi"`, s.sends) }}
	c, err := compare(ctx, s.rounds, measure, measure)
	return row{
		Name: "SendMessage answered by a Message, 32 connections", Handoff: fmt.Sprintf("%.0f/s", c.handoff),
		Peer: fmt.Sprintf("%.0f/s", c.peer), Ratio: c.handoff / c.peer, Budget: ">= 2x", Held: c.handoff/c.peer >= 2,
		Comment: c.comment("message") + " Nothing is written, so that HTTP is what is left for both: system calls, the scheduler and the two encodings. Half of that would have to vanish for twice the rate.",
	}, err
}

func benchChunks(ctx context.Context, s scale) (row, error) {
	measure := side{1, func(url string) (float64, error) {
		client := newClient(1)
		defer client.CloseIdleConnections()
		began := time.Now()
		stream, err := open(ctx, client, url, body("SendStreamingMessage", "burst 1600", ""))
		if err != nil {
			return 0, err
		}
		defer stream.Close()
		n, err := events(stream, nil)
		if err == nil && n < 1602 {
			err = fmt.Errorf("%d frames", n)
		}
		return time.Since(began).Seconds(), err
	}}
	c, err := compare(ctx, min(s.rounds, 3), measure, measure)
	return row{
		Name: "an artifact of 1,600 chunks of 40 bytes, streamed", Handoff: fmt.Sprintf("%.3f s", c.handoff),
		Peer: fmt.Sprintf("%.3f s", c.peer), Ratio: c.handoff / c.peer, Budget: "<= 0.05x", Held: c.handoff/c.peer <= 0.05,
		Comment: c.comment("stream"),
	}, err
}

var taskID = regexp.MustCompile(`"task":\{"id":"([^"]+)"`)

func benchSubscribers(ctx context.Context, s scale) (row, error) {
	const want = 200
	var perSubscriber float64
	err := withHandoff(ctx, func(p *process) error {
		client := newClient(s.subscribers + 10)
		defer client.CloseIdleConnections()
		if _, err := rate(ctx, p.url, "echo warm", "COMPLETED", 500); err != nil {
			return err
		}
		answer, err := call(ctx, client, p.url, body("SendMessage", "ticks "+strconv.Itoa(want), `,"configuration":{"returnImmediately":true}`), `"task"`)
		if err != nil {
			return err
		}
		id := string(taskID.FindSubmatch(answer)[1])
		before, err := p.memory()
		if err != nil {
			return err
		}
		errs := make(chan error, s.subscribers)
		var opened, done sync.WaitGroup
		opened.Add(s.subscribers)
		for range s.subscribers {
			time.Sleep(4 * time.Millisecond) // they come one after the other
			done.Go(func() {
				request := `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"` + id + `"}}`
				stream, err := open(ctx, client, p.url, request)
				opened.Done()
				if err != nil {
					errs <- err
					return
				}
				defer stream.Close()
				last, chunks := 0, 0
				_, err = events(stream, func(id, data string) error {
					seq, err := strconv.Atoi(id)
					if err != nil || seq <= last {
						return fmt.Errorf("event %q after %d", id, last)
					}
					last = seq
					chunks += strings.Count(data, `"artifactUpdate"`)
					return nil
				})
				if err == nil && chunks != want {
					err = fmt.Errorf("%d chunks of %d", chunks, want)
				}
				if err != nil {
					errs <- err
				}
			})
		}
		opened.Wait()
		time.Sleep(3 * time.Second) // they are idle, as subscribers mostly are
		after, err := p.memory()
		if err != nil {
			return err
		}
		perSubscriber = (after - before) / float64(s.subscribers)
		done.Wait()
		select {
		case err := <-errs:
			return err
		default:
			return nil
		}
	})
	return row{
		Name:    fmt.Sprintf("%d subscribers of one task, 200 events each, in order", s.subscribers),
		Handoff: fmt.Sprintf("%.1f KB per idle subscriber", perSubscriber/1024), Budget: "<= 24 KB", Held: perSubscriber <= 24*1024,
	}, err
}

// fill writes tasks of one owner into a store that no node has open.
func fill(ctx context.Context, dir string, n int, state a2a.TaskState) error {
	st, err := sqlite.Open(ctx, filepath.Join(dir, "bench.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	return fillStore(ctx, st, n, state, 64)
}

// fillStore writes tasks of one owner, some at a time.
func fillStore(ctx context.Context, st store.Store, n int, state a2a.TaskState, parallel int) error {
	next := make(chan int)
	errs := make(chan error, parallel)
	var group sync.WaitGroup
	for range parallel {
		group.Go(func() {
			for i := range next {
				id := fmt.Sprintf("task-%08d", i)
				contextID := "context-" + strconv.Itoa(i%100)
				status := `{"statusUpdate":{"taskId":"` + id + `","contextId":"` + contextID + `","status":{"state":"` + state.String() + `","timestamp":"`
				err := st.Commit(ctx, &store.Change{
					Insert: &store.Task{ID: id, Agent: "bench", Context: contextID, State: state, Turn: 1, Attempt: 1, Messages: 1, Read: 1, Created: time.Now(), Meta: []byte("{}")},
					Events: []store.Event{
						{Kind: store.KindMessage, Body: []byte(`{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}`)},
						{Kind: store.KindStatus, Stamp: len(status), Body: []byte(status + `0000-00-00T00:00:00.000Z"}}}`)},
					},
				})
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case err := <-errs:
			return err
		}
	}
	close(next)
	group.Wait()
	return nil
}

func benchList(ctx context.Context, s scale) (row, error) {
	var p99 [2]float64
	for i, n := range []int{min(10_000, s.tasks), s.tasks} {
		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		if err := fill(ctx, dir, n, a2a.StateCompleted); err != nil {
			return row{}, err
		}
		p, err := startHandoff(ctx, dir)
		if err != nil {
			return row{}, err
		}
		times, err := listTimes(ctx, p.url)
		p.stop()
		if err != nil {
			return row{}, err
		}
		p99[i] = percentile(times, 0.99)
	}
	return listRow(s, p99), nil
}

// listTimes lists tasks and returns how many milliseconds each page took.
func listTimes(ctx context.Context, url string) (times []float64, err error) {
	queries := []string{`{}`, `{"status":"TASK_STATE_COMPLETED"}`, `{"contextId":"context-7"}`}
	client := newClient(1)
	defer client.CloseIdleConnections()
	for j := range 600 {
		request := `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":` + queries[j%len(queries)] + `}`
		began := time.Now()
		if _, err := call(ctx, client, url, request, `"totalSize":`); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began).Seconds()*1000)
	}
	return times, nil
}

func listRow(s scale, p99 [2]float64) row {
	return row{
		Name:    fmt.Sprintf("ListTasks with %d tasks of one owner, p99 (50 a page; unfiltered, by state, by context)", s.tasks),
		Handoff: fmt.Sprintf("%.1f ms; with 10,000 tasks %.1f ms", p99[1], p99[0]),
		Budget:  "<= 10 ms, the same", Held: p99[1] <= 10,
	}
}

func benchParked(ctx context.Context, s scale) (row, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	empty, err := startHandoff(ctx, dir)
	if err != nil {
		return row{}, err
	}
	none, err := empty.memory()
	empty.stop()
	if err != nil {
		return row{}, err
	}
	if err := fill(ctx, dir, s.parked, a2a.StateInputRequired); err != nil {
		return row{}, err
	}
	p, err := startHandoff(ctx, dir)
	if err != nil {
		return row{}, err
	}
	defer p.stop()
	with, err := p.memory()
	more := max(with-none, 0) / (1 << 20)
	return row{
		Name:    fmt.Sprintf("%d parked tasks", s.parked),
		Handoff: fmt.Sprintf("%.0f MB more than none, ready after %.0f ms", more, p.took.Seconds()*1000),
		Budget:  "<= 64 MB more, <= 2 s", Held: more <= 64 && p.took <= 2*time.Second,
	}, err
}

func benchKill(ctx context.Context, s scale) (row, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return row{}, err
	}
	defer os.RemoveAll(dir)
	p, err := startHandoff(ctx, dir)
	if err != nil {
		return row{}, err
	}
	client := newClient(connections)
	var mu sync.Mutex
	var acknowledged []string
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for range s.inFlight / connections {
				answer, cerr := call(ctx, client, p.url, body("SendMessage", "slow 600", `,"configuration":{"returnImmediately":true}`), `"task"`)
				mu.Lock()
				if cerr != nil {
					err = cerr
				} else {
					acknowledged = append(acknowledged, string(taskID.FindSubmatch(answer)[1]))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	p.stop() // SIGKILL
	if err != nil {
		return row{}, err
	}
	p, err = startHandoff(ctx, dir)
	if err != nil {
		return row{}, err
	}
	defer p.stop()
	began := time.Now()
	for {
		resumed, err := p.metric("handoff_turn_attempts_total")
		if err != nil {
			return row{}, err
		}
		if int(resumed) >= len(acknowledged) {
			break
		}
		if time.Since(began) > time.Minute {
			return row{}, fmt.Errorf("%v of %d resumed after a minute", resumed, len(acknowledged))
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(began)
	missing := 0
	for _, id := range acknowledged {
		if _, err := call(ctx, client, p.url, `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"`+id+`","historyLength":0}}`, "WORKING"); err != nil {
			missing++
		}
	}
	return row{
		Name:    fmt.Sprintf("kill -9 with %d tasks in flight", len(acknowledged)),
		Handoff: fmt.Sprintf("%d missing, all resumed %.1f s after ready", missing, took.Seconds()),
		Budget:  "none missing, <= 10 s", Held: missing == 0 && took <= 10*time.Second,
	}, nil
}

func benchStart(ctx context.Context, s scale) (row, error) {
	var times, memory, own []float64
	for range max(s.rounds, 3) {
		if err := withHandoff(ctx, func(p *process) error {
			times = append(times, p.took.Seconds()*1000)
			m, err := p.memory()
			if err != nil {
				return err
			}
			memory = append(memory, m/(1<<20))
			m, err = p.resident("RssAnon:")
			own = append(own, m/(1<<20))
			return err
		}); err != nil {
			return row{}, err
		}
	}
	return row{
		Name: "start of serve; idle memory", Handoff: fmt.Sprintf("%.0f ms; %.0f MB", median(times), median(memory)),
		Budget: "<= 150 ms; <= 40 MB", Held: median(times) <= 150 && median(memory) <= 40,
		Comment: fmt.Sprintf("%.0f MB of the memory are the process's own; the rest are pages of the program's file, which the system takes back when it needs them.", median(own)),
	}, nil
}
