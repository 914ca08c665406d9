package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// buses are the two ways of hints.
func withBuses(ctx context.Context, f func(d *database, name, address string) error) error {
	d, err := startDatabase(ctx, false)
	if err != nil {
		return err
	}
	defer d.stop()
	bus, err := startNATS(ctx)
	if err != nil {
		return err
	}
	defer bus.stop()
	if err := f(d, "NATS", bus.address); err != nil {
		return fmt.Errorf("NATS: %w", err)
	}
	if err := f(d, "LISTEN/NOTIFY", ""); err != nil {
		return fmt.Errorf("LISTEN/NOTIFY: %w", err)
	}
	return nil
}

// benchDelay measures how much later than a subscriber of the node where a task
// runs a subscriber of another node has its frames.
func benchDelay(ctx context.Context, s scale) (rows []row, err error) {
	rounds := max(s.rounds-2, 1)
	err = withBuses(ctx, func(d *database, name, address string) error {
		_, url := d.schema()
		nodes, err := setup{nodes: 2, store: url, bus: address}.start(ctx)
		if err != nil {
			return err
		}
		defer nodes.stop()
		if err := nodes.warm(ctx); err != nil {
			return err
		}
		var quiet, loaded measured
		rate := 0.0
		for range rounds {
			more, err := delays(ctx, nodes, s)
			if err != nil {
				return err
			}
			quiet.add(more)
			r, err := nodes.underLoad(ctx, func() error {
				more, err := delays(ctx, nodes, s)
				loaded.add(more)
				return err
			})
			if err != nil {
				return err
			}
			rate += r / float64(rounds)
		}
		for _, m := range []struct {
			what   string
			values measured
		}{{"nothing else to do", quiet}, {fmt.Sprintf("%.0f tasks/s beside it", rate), loaded}} {
			r := row{
				Name: "added delay of a subscriber on the other node, " + name + ", " + m.what, Nodes: true,
				Handoff: "p50 " + m.values.percentiles(0.5) + ", p99 " + m.values.percentiles(0.99) + " ms",
			}
			if name == "NATS" {
				r.Budget, r.Held = "p99 <= 50 ms", m.values.median(0.99) <= 50
			}
			rows = append(rows, r)
		}
		return nil
	})
	if len(rows) > 0 {
		rows[0].Comment = fmt.Sprintf("%d tasks stream an event every 20 ms, %d each; a subscriber of either node notes when it has each event, and the difference is what is counted. The median of the p50 or p99 of %d rounds, with the least and the greatest. The load is half of what the two nodes could take just before.",
			s.streamed, s.frames, rounds)
	}
	return rows, err
}

// measured is values of several rounds.
type measured [][]float64

func (m *measured) add(round []float64) { *m = append(*m, round) }

func (m measured) of(p float64) (values []float64) {
	for _, round := range m {
		values = append(values, percentile(round, p))
	}
	return values
}

func (m measured) median(p float64) float64 { return median(m.of(p)) }

// percentiles writes the median of a percentile, and its range.
func (m measured) percentiles(p float64) string {
	values := m.of(p)
	if len(values) == 1 {
		return fmt.Sprintf("%.1f", values[0])
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f)", median(values), percentile(values, 0), percentile(values, 1))
}

// delays streams tasks of the first node from both, and returns how many
// milliseconds later the second one had each event.
func delays(ctx context.Context, nodes *cluster, s scale) ([]float64, error) {
	client := newClient(2*s.streamed + 4)
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var found []float64
	var failed error
	var group sync.WaitGroup
	for range s.streamed {
		answer, err := call(ctx, client, nodes.urls[0], body("SendMessage", "pulse "+strconv.Itoa(s.frames), `,"configuration":{"returnImmediately":true}`), `"task"`)
		if err != nil {
			return nil, err
		}
		id := string(taskID.FindSubmatch(answer)[1])
		group.Go(func() {
			differences, err := delaysOf(ctx, client, nodes.urls, id)
			mu.Lock()
			defer mu.Unlock()
			found = append(found, differences...)
			if err == nil && len(differences) < s.frames {
				err = fmt.Errorf("%d of %d events were seen on both nodes", len(differences), s.frames)
			}
			if err != nil {
				failed = err
			}
		})
	}
	group.Wait()
	return found, failed
}

// delaysOf watches one task from two nodes.
func delaysOf(ctx context.Context, client *http.Client, urls []string, task string) ([]float64, error) {
	var seen [2]map[string]time.Time
	var errs [2]error
	var group sync.WaitGroup
	for i := range seen {
		group.Go(func() { seen[i], errs[i] = arrivals(ctx, client, urls[i], task) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	var differences []float64
	for id, here := range seen[0] {
		if there, ok := seen[1][id]; ok {
			differences = append(differences, there.Sub(here).Seconds()*1000)
		}
	}
	return differences, nil
}

// arrivals subscribes to a task and returns when each chunk came, by the id of
// its event.
func arrivals(ctx context.Context, client *http.Client, url, task string) (map[string]time.Time, error) {
	stream, err := open(ctx, client, url, `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"`+task+`"}}`)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	at := map[string]time.Time{}
	_, err = events(stream, func(id, data string) error {
		if strings.Contains(data, `"artifactUpdate"`) {
			at[id] = time.Now()
		}
		return nil
	})
	return at, err
}

// hold is the program of an agent: it tells an address which task it works on,
// and works until it is ended.
func hold(arguments []string) {
	conn, err := net.Dial("tcp", arguments[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(conn, os.Getenv("HANDOFF_TASK_ID"))
	_, _ = conn.Read(make([]byte, 1)) // the connection ends with the program
}

// programs hears of the programs of tasks.
type programs struct {
	listener net.Listener
	begun    chan program
}

type program struct {
	task  string
	ended chan time.Time
}

func watchPrograms() (*programs, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &programs{listener: l, begun: make(chan program, 64)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				task, err := r.ReadString('\n')
				if err != nil {
					return
				}
				p := program{strings.TrimSpace(task), make(chan time.Time, 1)}
				w.begun <- p
				_, _ = r.ReadByte()
				p.ended <- time.Now()
			}()
		}
	}()
	return w, nil
}

// benchCancel measures how long the program of a task runs on that is canceled
// on another node.
func benchCancel(ctx context.Context, s scale) (rows []row, err error) {
	watch, err := watchPrograms()
	if err != nil {
		return nil, err
	}
	defer watch.listener.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	holder := fmt.Sprintf(`
  holder:
    name: Holder
    description: Holds on until it is ended.
    version: 1.0.0
    skills: [{id: hold, name: Hold, description: Holds on., tags: [bench]}]
    run: {exec: [%q, hold, %q]}
`, self, watch.listener.Addr().String())
	err = withBuses(ctx, func(d *database, name, address string) error {
		_, url := d.schema()
		nodes, err := setup{nodes: 2, store: url, bus: address, more: holder}.start(ctx)
		if err != nil {
			return err
		}
		defer nodes.stop()
		if err := nodes.warm(ctx); err != nil {
			return err
		}
		var here, there, loaded []float64
		for i := range s.cancels {
			for _, m := range []struct {
				at    int
				times *[]float64
			}{{i % 2, &here}, {1 - i%2, &there}} {
				if err := cancelOnce(ctx, nodes, watch, i%2, m.at, m.times); err != nil {
					return err
				}
			}
		}
		rate, err := nodes.underLoad(ctx, func() error {
			for i := range s.cancels {
				if err := cancelOnce(ctx, nodes, watch, i%2, 1-i%2, &loaded); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		p := func(times []float64) string {
			return fmt.Sprintf("p50 %.0f, p99 %.0f ms", percentile(times, 0.5), percentile(times, 0.99))
		}
		rows = append(rows, row{
			Name: "cancel through the other node until the program has ended, " + name, Nodes: true,
			Handoff: p(there) + fmt.Sprintf("; with %.0f tasks/s beside it ", rate) + p(loaded),
			Budget:  "p99 < 1 s", Held: percentile(there, 0.99) < 1000 && percentile(loaded, 0.99) < 1000,
			Comment: fmt.Sprintf("%d cancels one after the other of programs that end at SIGTERM. Through the node of the program: %s.", s.cancels, p(here)),
		})
		return nil
	})
	return rows, err
}

// cancelOnce has a node run a program, cancels it through a node, and adds how
// many milliseconds later the program was gone.
func cancelOnce(ctx context.Context, nodes *cluster, watch *programs, runs, cancels int, times *[]float64) error {
	client := newClient(1)
	defer client.CloseIdleConnections()
	url := func(i int) string { return strings.Replace(nodes.urls[i], "/agents/bench/", "/agents/holder/", 1) }
	answer, err := call(ctx, client, url(runs), body("SendMessage", "hold", `,"configuration":{"returnImmediately":true}`), `"task"`)
	if err != nil {
		return err
	}
	id := string(taskID.FindSubmatch(answer)[1])
	var p program
	select {
	case p = <-watch.begun:
	case <-time.After(20 * time.Second):
		return fmt.Errorf("the program of task %s does not begin", id)
	}
	if p.task != id {
		return fmt.Errorf("the program is that of task %q, not %s", p.task, id)
	}
	began := time.Now()
	if _, err := call(ctx, client, url(cancels), `{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"`+id+`"}}`, "TASK_STATE_CANCELED"); err != nil {
		return err
	}
	select {
	case at := <-p.ended:
		*times = append(*times, at.Sub(began).Seconds()*1000)
		return nil
	case <-time.After(20 * time.Second):
		return fmt.Errorf("the program of task %s does not end", id)
	}
}
