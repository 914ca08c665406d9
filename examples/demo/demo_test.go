package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"handoff.example/handoff/examples/procurement/erp"
)

// The program of the tests is the child of the demos in them.
const childDir, childHold = "DEMO_CHILD_DIR", "DEMO_CHILD_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := RunChild(dir, os.Getenv(childHold) == "true", "test", os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func testChild(dir string, hold bool) *exec.Cmd {
	cmd := exec.Command(os.Args[0]) //nolint:noctx // the demo kills it
	cmd.Env = append(os.Environ(), childDir+"="+dir, childHold+"="+strconv.FormatBool(hold))
	return cmd
}

// text is what a demo has said, for tests that wait for it.
type text struct {
	mu    sync.Mutex
	all   bytes.Buffer
	wrote chan struct{}
	over  chan struct{} // no more comes
}

func newText() *text { return &text{wrote: make(chan struct{}, 1), over: make(chan struct{})} }

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case x.wrote <- struct{}{}:
	default:
	}
	return x.all.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.String()
}

// wait returns when the demo has said something.
func (x *text) wait(ctx context.Context, t *testing.T, what string) {
	t.Helper()
	for !strings.Contains(x.String(), what) {
		select {
		case <-ctx.Done():
			t.Fatalf("nobody says %q:\n%s", what, x)
		case <-x.over:
			t.Fatalf("nobody has said %q:\n%s", what, x)
		case <-x.wrote:
		}
	}
}

// says fails the test unless a text has these words in this order.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(text), " ")
	for _, want := range words {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("nothing says %q there:\n%s", want, text)
			return
		}
		rest = after
	}
}

func bounded(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx, cancel
}

var theStory = []string{
	"Rina orders Order 400 units of BRG-0042 for SBY, PO-2026-0184",
	"procurement calls a tool erp-read: get_stock_level",
	"There are 20 of BRG-0042 in Surabaya",
	"procurement asks supplier Quote 400 units of BRG-0042, delivery Surabaya",
	"supplier asks back Incoterm? FOB or delivered?",
	"Rina answers incoterm: delivered (after",
	"supplier has answered after",
	"The quote is IDR 49000000, delivered, in 14 days",
	"procurement asks finance Is there credit for PO-2026-0184?",
	"finance wants approval PO-2026-0184 is IDR 49000000",
	"Budi approves within the budget (after",
	"finance has answered after",
	"calls a tool erp-draft: draft_order",
	"procurement is done PO-2026-0184 is a draft",
	"the ERP system PO-2026-0184 is a draft",
	"the agent can call draft_order, draft_receipt, get_order_status, get_price, get_stock_level, rebuild_stock_valuation Who",
	"for supplier of which", "for Rina", "for finance of which", "for Budi",
	"in the inbox, of PO-2026-0185: Incoterm? FOB or delivered?",
	"find the order by its number: PO-2026-0184",
}

func TestStory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	ctx, _ := bounded(t)
	out := newText()
	if err := Run(ctx, Options{Out: out, Exit: true, Version: "test"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out.String(), theStory...)
	for line := range strings.Lines(out.String()) {
		if n := len(strings.TrimSuffix(line, "\n")); n > narrowest {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("there are colors without a terminal:\n%q", out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v behind: %v", left, err)
	}
}

var killed = regexp.MustCompile(`process (\d+)`)

// The system is killed with SIGKILL while its question waits, and again when the draft
// is written and its answer is not. There is one order in the end, and no process.
func TestBreak(t *testing.T) {
	t.Parallel()
	ctx, _ := bounded(t)
	out := newText()
	dir := t.TempDir()
	if err := Run(ctx, Options{Out: out, Exit: true, Break: true, Dir: dir, Version: "test", Child: testChild}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out.String(),
		"will be killed twice", "supplier asks back", "kill -9 process", "started process", "kept The question is still in the inbox: Incoterm?",
		"Rina answers", "calls a tool erp-draft: draft_order", "kill -9 process", "will not hear so", "started process",
		"kept PO-2026-0184 is a draft in the ERP system", "calls a tool erp-draft: draft_order", "is done PO-2026-0184 is a draft")
	if n := strings.Count(out.String(), "asks supplier"); n != 1 {
		t.Errorf("the supplier is asked %d times", n)
	}
	pids := map[string]bool{}
	for _, m := range killed.FindAllStringSubmatch(out.String(), -1) {
		pids[m[1]] = true
		pid, _ := strconv.Atoi(m[1])
		if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d is left behind", pid)
		}
	}
	if len(pids) != 3 {
		t.Errorf("there were the processes %v, not three", pids)
	}
	system, err := erp.OpenToRead(ctx, filepath.Join(dir, "erp.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer system.Close()
	got, err := system.Order(ctx, "PO-2026-0184")
	want := erp.Order{
		Number: "PO-2026-0184", SKU: "BRG-0042", Units: 400, Warehouse: "SBY", Incoterm: "delivered",
		UnitPrice: 122_500, Total: 49_000_000, LeadTimeDays: 14, Status: "draft",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("the order (-want +got):\n%s%v", diff, err)
	}
}

// onlooker reads the place of a demo that runs.
func onlooker(t *testing.T, dir string) *record {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, placeFile))
	if err != nil {
		t.Fatal(err)
	}
	p, err := read(dir, text)
	if err != nil {
		t.Fatal(err)
	}
	return newRecord(p)
}

// answers settles the one item of an order that waits.
func (r *record) answers(ctx context.Context, t *testing.T, number, path string, body any) {
	t.Helper()
	open, err := r.waitsFor(ctx, number)
	if err != nil || len(open) != 1 {
		t.Fatalf("%d items of %s wait: %v", len(open), number, err)
	}
	if err := r.call(ctx, reader, "POST", "/inbox/"+open[0].ID+path, body, nil); err != nil {
		t.Fatal(err)
	}
}

// waitsFor returns what waits of an order.
func (r *record) waitsFor(ctx context.Context, number string) (open []item, err error) {
	var list struct {
		Items []struct {
			ID  string `json:"id"`
			Ref string `json:"ref"`
		} `json:"items"`
	}
	err = r.get(ctx, "/inbox", &list)
	for _, i := range list.Items {
		if i.Ref == number {
			open = append(open, item{ID: i.ID})
		}
	}
	return open, err
}

// started runs a demo until the test has seen enough.
func started(ctx context.Context, o Options) (out *text, ended chan error) {
	out, ended = newText(), make(chan error, 1)
	o.Out, o.Version = out, "test"
	go func() {
		ended <- Run(ctx, o)
		close(out.over)
	}()
	return out, ended
}

// What the console does is done here through the node's API.
func TestInteractive(t *testing.T) {
	t.Parallel()
	ctx, stop := bounded(t)
	dir := t.TempDir()
	out, ended := started(ctx, Options{Dir: dir, Interactive: true})
	out.wait(ctx, t, "/console/?once=")
	r := onlooker(t, dir)
	r.answers(ctx, t, "PO-2026-0184", "/answer", map[string]any{"data": map[string]string{"incoterm": "FOB"}})
	out.wait(ctx, t, "be bought on credit?\n                         Answer in the console, in the inbox:\n")
	r.answers(ctx, t, "PO-2026-0184", "/decision", map[string]any{"decision": "approve", "note": "so be it"})
	out.wait(ctx, t, "Ctrl-C ends the demo.")
	r.answers(ctx, t, "PO-2026-0185", "/answer", map[string]any{"data": map[string]string{"incoterm": "delivered"}})
	out.wait(ctx, t, "That was all.")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	says(t, out.String(), "The quote is IDR 47200000, FOB", "demo approves so be it", "Ctrl-C ends the demo.", "demo answers incoterm: delivered", "PO-2026-0185 is a draft", "Go on with: handoff demo --keep")
}

// On a terminal somebody types the answers. What is not understood is asked again, and
// a denial ends the order, and not the demo.
func TestAnswersOnATerminal(t *testing.T) {
	t.Parallel()
	ctx, _ := bounded(t)
	in, keyboard := io.Pipe()
	defer keyboard.Close()
	out, ended := started(ctx, Options{Dir: t.TempDir(), Interactive: true, Exit: true, In: in, Color: true})
	for _, step := range [][2]string{{"Type FOB or delivered", "neither\n"}, {"Which one?\n", "fob\n"}, {"Type yes or no", "no not this year\n"}} {
		out.wait(ctx, t, step[0])
		if _, err := io.WriteString(keyboard, step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out.String(), ""),
		"Rina answers neither", "I can quote FOB or delivered", "Rina answers incoterm: FOB", "Budi denies not this year", "procurement failed", "not this year", "Who waited for whom", "of PO-2026-0185")
	if !strings.Contains(out.String(), "\x1b[33mRina") {
		t.Errorf("people have no color:\n%q", out)
	}
}

// Somebody types an answer that somebody else has given meanwhile.
func TestAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	ctx, _ := bounded(t)
	p, open, err := settle(ctx, t.TempDir(), 0)
	if err == nil {
		err = p.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := &system{place: p, version: "test"}
	if err := in.start(open); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := in.close(); err != nil {
			t.Error(err)
		}
	}()
	out := newText()
	o := &Options{Out: out, Interactive: true}
	s := &story{o: o, screen: newScreen(o), place: p, record: newRecord(p), machine: in, people: newPeople(strings.NewReader("fob\n")), acted: map[string]bool{}}
	given, err := s.give(ctx, oneOrder)
	for err == nil && len(given.open) == 0 {
		err = s.look(ctx, given, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	item := given.open[0]
	s.record.answers(ctx, t, given.number, "/answer", map[string]any{"data": map[string]string{"incoterm": "delivered"}})
	for !strings.Contains(out.String(), "not taken") {
		if err := s.act(ctx, &item); err != nil {
			t.Fatal(err)
		}
	}
	says(t, out.String(), "not taken This was settled already (answered), by demo")
}

// What is kept goes on: the orders are other ones, and the question of before waits.
func TestKeep(t *testing.T) {
	t.Parallel()
	ctx, stop := bounded(t)
	dir := filepath.Join(t.TempDir(), "kept")
	if err := Run(ctx, Options{Out: io.Discard, Dir: dir, Exit: true, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	out, ended := started(ctx, Options{Dir: dir})
	out.wait(ctx, t, "Ctrl-C ends the demo.")
	r := onlooker(t, dir)
	for _, number := range []string{"PO-2026-0185", "PO-2026-0187"} {
		if open, err := r.waitsFor(ctx, number); err != nil || len(open) != 1 {
			t.Errorf("%d items of %s wait: %v", len(open), number, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	says(t, out.String(), "PO-2026-0186 is a draft", "of PO-2026-0187: Incoterm?", "kept in "+dir)
}

func TestAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, broken := range []bool{false, true} {
		out := newText()
		err := Run(t.Context(), Options{Out: out, Exit: true, Break: broken, Port: port, Dir: t.TempDir(), Child: testChild})
		taken, ok := errors.AsType[*AddressError](err)
		if !ok || taken.Address != listener.Addr().String() || out.String() != "" {
			t.Errorf("the demo says %v\n%s", err, out)
		}
	}
}

// A system that does not start says why.
func TestAChildThatDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, _ := bounded(t)
	p, open, err := settle(ctx, dir, 0)
	if err == nil {
		err = p.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(open) // its addresses are taken
	_, err = startChild(ctx, testChild(dir, false))
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the child says %v", err)
	}
}
