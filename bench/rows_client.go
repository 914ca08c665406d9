package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
)

// The clients are compared against the same node of ours. Each runs in a process of
// its own, so that its memory is its own.

// clientRun is what a client has used for its calls.
type clientRun struct {
	Rate        float64 // calls or events a second
	Allocations float64 // of each call or event
	Bytes       float64 // allocated for each call or event
	CPU         float64 // seconds for each call or event
	Live        float64 // bytes that were reachable at most when the collector had run, beside those before
	Heap        float64 // bytes of objects at most, reachable or not collected yet, beside those before
	Peak        float64 // bytes of memory that the process had at most, beside those before
}

// Whose client it is, and how it is used.
const (
	callsHandoff = "handoff"
	readsHandoff = "handoff-read"
	callsSDK     = "a2a-go"
)

// caller is one of the clients.
type caller interface {
	send(ctx context.Context, text string) error
	// stream counts the events of a message.
	stream(ctx context.Context, text string, each func()) error
}

type ourCaller struct {
	client *client.Client
	reads  bool // streams into one event, by Read and not by Next
}

func newOurCaller(binding, url string, http *http.Client, reads bool) (caller, error) {
	yes := true
	card := &a2a.AgentCard{
		Name: "Bench", Capabilities: a2a.AgentCapabilities{Streaming: &yes},
		SupportedInterfaces: []a2a.AgentInterface{{URL: url, ProtocolBinding: binding, ProtocolVersion: "1.0"}},
	}
	c, err := client.New(card, client.Options{HTTPClient: http})
	return ourCaller{c, reads}, err
}

func (c ourCaller) send(ctx context.Context, text string) error {
	answer, err := c.client.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(text))})
	if err == nil && (answer.Task == nil || answer.Task.Status.State != a2a.StateCompleted) {
		err = errors.New("the task is not completed")
	}
	return err
}

func (c ourCaller) stream(ctx context.Context, text string, each func()) error {
	stream, err := c.client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text(text))})
	if err != nil {
		return err
	}
	var e a2a.StreamResponse
	for {
		if c.reads {
			err = stream.Read(&e)
		} else {
			_, err = stream.Next()
		}
		switch err {
		case nil:
			each()
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

type theirCaller struct{ client *a2aclient.Client }

func newTheirCaller(ctx context.Context, binding, url string, http *http.Client) (caller, error) {
	c, err := a2aclient.NewFromEndpoints(ctx, []*sdk.AgentInterface{{URL: url, ProtocolBinding: sdk.TransportProtocol(binding), ProtocolVersion: "1.0"}},
		a2aclient.WithJSONRPCTransport(http), a2aclient.WithRESTTransport(http))
	return theirCaller{c}, err
}

func (c theirCaller) send(ctx context.Context, text string) error {
	answer, err := c.client.SendMessage(ctx, &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))})
	if err != nil {
		return err
	}
	if task, ok := answer.(*sdk.Task); !ok || task.Status.State != sdk.TaskStateCompleted {
		return errors.New("the task is not completed")
	}
	return nil
}

func (c theirCaller) stream(ctx context.Context, text string, each func()) error {
	for _, err := range c.client.SendStreamingMessage(ctx, &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart(text))}) {
		if err != nil {
			return err
		}
		each()
	}
	return nil
}

// runClient is the process of a client: whose it is, the binding, the address, the
// text, and how many calls over how many connections; none is one stream.
func runClient(args []string) error {
	n, _ := strconv.Atoi(args[4])
	connections, _ := strconv.Atoi(args[5])
	ctx, http := context.Background(), newClient(max(connections, 1))
	c, err := newOurCaller(args[1], args[2], http, args[0] == readsHandoff)
	if args[0] == callsSDK {
		c, err = newTheirCaller(ctx, args[1], args[2], http)
	}
	if err != nil {
		return err
	}
	if err := c.send(ctx, "echo warm"); err != nil {
		return err
	}
	var run clientRun
	if connections == 0 {
		run, err = measureStream(ctx, c, args[3], n)
	} else {
		run, err = measureSends(ctx, c, args[3], n, connections)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(run)
}

// used returns what the process has used since before, for each of n.
func (run *clientRun) used(before *runtime.MemStats, cpu float64, began time.Time, n int) error {
	run.Rate = float64(n) / time.Since(began).Seconds()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	run.Allocations = float64(after.Mallocs-before.Mallocs) / float64(n)
	run.Bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
	now, err := cpuOf(os.Getpid(), false)
	run.CPU = (now - cpu) / float64(n)
	return err
}

func measureSends(ctx context.Context, c caller, text string, n, connections int) (clientRun, error) {
	for range 4 * connections {
		if err := c.send(ctx, text); err != nil {
			return clientRun{}, err
		}
	}
	var run clientRun
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := cpuOf(os.Getpid(), false)
	if err != nil {
		return run, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, connections)
	began := time.Now()
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := c.send(ctx, text); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-errs:
		return run, err
	default:
	}
	return run, run.used(&before, cpu, began, n)
}

// measureStream reads one stream twice: as it is, for what the process has at most,
// and once more while the collector runs now and then, for what is reachable.
func measureStream(ctx context.Context, c caller, text string, n int) (clientRun, error) {
	var run clientRun
	runtime.GC()
	debug.FreeOSMemory()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	heap, resident := heapMetric(heapObjects), residentPeak()
	cpu, err := cpuOf(os.Getpid(), false)
	if err != nil {
		return run, err
	}
	every := max(n/400, 1)
	events, began := 0, time.Now()
	err = c.stream(ctx, text, func() {
		if events++; events%every == 0 {
			run.Heap = max(run.Heap, heapMetric(heapObjects)-heap)
		}
	})
	if err != nil {
		return run, err
	}
	if err := run.used(&before, cpu, began, events); err != nil {
		return run, err
	}
	if events < n {
		return run, fmt.Errorf("%d events of %d", events, n)
	}
	run.Peak = residentPeak() - resident
	runtime.GC()
	live := heapMetric(heapLive)
	events, every = 0, max(n/40, 1)
	err = c.stream(ctx, text, func() {
		if events++; events%every == 0 {
			runtime.GC()
			run.Live = max(run.Live, heapMetric(heapLive)-live)
		}
	})
	return run, err
}

// Metrics of the heap, in bytes.
const (
	heapLive    = "/gc/heap/live:bytes"
	heapObjects = "/memory/classes/heap/objects:bytes"
)

func heapMetric(name string) float64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// residentPeak returns the most memory that this process has had, in bytes.
func residentPeak() float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024
		}
	}
	return 0
}

// startClient runs a client to its end.
func startClient(ctx context.Context, who, binding, url, text string, n, connections int) (clientRun, error) {
	var run clientRun
	self, err := os.Executable()
	if err != nil {
		return run, err
	}
	cmd := exec.CommandContext(ctx, self, "client", who, binding, url, text, strconv.Itoa(n), strconv.Itoa(connections))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return run, fmt.Errorf("client %s over %s: %w", who, binding, err)
	}
	return run, json.NewDecoder(io.Reader(bytes.NewReader(out))).Decode(&run)
}

// middle returns the medians of runs.
func middle(runs []clientRun) clientRun {
	of := func(field func(*clientRun) float64) float64 {
		var values []float64
		for i := range runs {
			values = append(values, field(&runs[i]))
		}
		return median(values)
	}
	return clientRun{
		Rate: of(func(r *clientRun) float64 { return r.Rate }), Allocations: of(func(r *clientRun) float64 { return r.Allocations }),
		Bytes: of(func(r *clientRun) float64 { return r.Bytes }), CPU: of(func(r *clientRun) float64 { return r.CPU }),
		Live: of(func(r *clientRun) float64 { return r.Live }), Heap: of(func(r *clientRun) float64 { return r.Heap }), Peak: of(func(r *clientRun) float64 { return r.Peak }),
	}
}

// clients lets clients do the same in turn, against one node, and returns what
// each used.
func clients(ctx context.Context, rounds int, binding, text string, n, connections int, who ...string) (map[string]clientRun, error) {
	runs := map[string][]clientRun{}
	err := withHandoff(ctx, func(p *process) error {
		url := p.url
		if binding == a2a.BindingREST {
			url = strings.TrimSuffix(url, "rpc") + "v1"
		}
		for range rounds {
			for _, w := range who {
				run, err := startClient(ctx, w, binding, url, text, n, connections)
				if err != nil {
					return err
				}
				runs[w] = append(runs[w], run)
			}
		}
		return nil
	})
	medians := map[string]clientRun{}
	for w, list := range runs {
		medians[w] = middle(list)
	}
	return medians, err
}

func (r clientRun) perCall() string {
	return fmt.Sprintf("%.0f calls/s, %.0f allocations and %.1f KB for each", r.Rate, r.Allocations, r.Bytes/1024)
}

func (r clientRun) perEvent(n int) string {
	cpu := ""
	if n >= 10_000 { // it is counted in hundredths of a second
		cpu = fmt.Sprintf("%.1f µs of CPU, ", r.CPU*1e6)
	}
	return fmt.Sprintf("%s%.1f allocations, %.0f bytes; reachable at most %.0f KB, with what is not collected yet %.1f MB, memory of the process %.1f MB", cpu, r.Allocations, r.Bytes, r.Live/1024, r.Heap/(1<<20), r.Peak/(1<<20))
}

func benchClient(ctx context.Context, s scale) ([]row, error) {
	var rows []row
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		runs, err := clients(ctx, s.rounds, binding, "echo hello", s.clientSends, connections, callsHandoff, callsSDK)
		if err != nil {
			return nil, err
		}
		ours, theirs := runs[callsHandoff], runs[callsSDK]
		ratio := ours.CPU / theirs.CPU // the rate is mostly that of the node
		rows = append(rows, row{
			Name:    "client: CPU of a blocking SendMessage over " + binding,
			Handoff: fmt.Sprintf("%.0f µs", ours.CPU*1e6), Peer: fmt.Sprintf("%.0f µs", theirs.CPU*1e6),
			Ratio: ratio, Budget: "<= 1x", Held: ratio <= 1,
			Comment: fmt.Sprintf("%d connections to the same node of Handoff, which has its share of the same two cores. Handoff %s; a2a-go %s.", connections, ours.perCall(), theirs.perCall()),
		})
	}
	const (
		floor     = " Nothing but the event is allocated: an event of the caller's has 416 bytes, 368 for its structs and 48 for the text, so that `Next` cannot get to a tenth."
		collector = " Go's collector begins at 4 MB of objects, whoever makes them, so that most of what a process has at most is garbage: with `Read` it comes together later."
		text      = " There is no budget: the text is a string of the caller's, and the 64 KB that it has are a third of what a2a-go allocates."
	)
	for _, one := range []struct {
		verb, what, budget, note string
		n                        int
	}{
		{"burst", "a stream of 1600 chunks of 40 bytes", "<= 0.1x", floor, 1600},
		{"burst", fmt.Sprintf("a stream of %d chunks of 40 bytes", s.clientEvents), "<= 0.1x", collector, s.clientEvents},
		{"flood", "an artifact of 20 MB in 320 chunks of 64 KB", "", text, 320},
	} {
		runs, err := clients(ctx, min(s.rounds, 3), a2a.BindingJSONRPC, one.verb+" "+strconv.Itoa(one.n), one.n, 0, callsHandoff, readsHandoff, callsSDK)
		if err != nil {
			return nil, err
		}
		ours, theirs := runs[readsHandoff], runs[callsSDK]
		ratio := ours.Bytes / theirs.Bytes
		rows = append(rows, row{
			Name:    "client: " + one.what + ", allocated for each",
			Handoff: fmt.Sprintf("%.0f bytes", ours.Bytes), Peer: fmt.Sprintf("%.0f bytes", theirs.Bytes),
			Ratio: ratio, Budget: one.budget, Held: one.budget != "" && ratio <= 0.1,
			Comment: fmt.Sprintf("With `Stream.Read`, which uses one event again and again. What the client spends on each chunk: Handoff %s. With `Stream.Next`, whose events are the caller's: %s. a2a-go: %s. Memory is counted beside what there was before.%s", ours.perEvent(one.n), runs[callsHandoff].perEvent(one.n), theirs.perEvent(one.n), one.note),
		})
	}
	return rows, nil
}
