package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"handoff.example/handoff/examples/procurement/erp"
	"handoff.example/handoff/examples/procurement/toolclient"
	"handoff.example/handoff/examples/procurement/toolserver"
)

var draft = erp.Order{
	Number: "PO-2026-0001", SKU: "BRG-0042", Units: 400, Warehouse: "SBY", Incoterm: "delivered",
	UnitPrice: 122_500, Total: 49_000_000, LeadTimeDays: 14,
}

var whereTools = regexp.MustCompile(`address=(\S+)`)

// toolServer starts a tool server over HTTP as a process, and returns where it is.
func toolServer(t *testing.T, program, keyName, key string, args ...string) toolclient.Server {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, program+exe), append(args, "-listen", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), keyName+"="+key)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	where := whereTools.FindStringSubmatch(line)
	if err != nil || where == nil {
		t.Fatalf("%s says %q, and no address (%v)", program, line, err)
	}
	return toolclient.Server{URL: where[1], Key: key}
}

// drafter starts erp-draft as a process that talks over its standard input.
func drafter(t *testing.T, file string, options *mcp.ClientOptions, args ...string) (*mcp.ClientSession, *exec.Cmd) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "erp-draft"+exe), append(args, "-erp", file)...)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session, cmd
}

func call(t *testing.T, s *mcp.ClientSession, tool, key string, arguments any) (*mcp.CallToolResult, string) {
	t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if key != "" {
		params.Meta = mcp.Meta{erp.IdempotencyKey: key}
	}
	result, err := s.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, c := range result.Content {
		said += c.(*mcp.TextContent).Text
	}
	return result, said
}

func TestReader(t *testing.T) {
	t.Parallel()
	server := toolServer(t, "erp-read", "ERP_READ_KEY", "r", "-erp", filepath.Join(t.TempDir(), "erp.db"))
	session, err := server.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if v := session.InitializeResult().ProtocolVersion; v != toolserver.Modern {
		t.Errorf("it speaks %s", v)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.OutputSchema == nil || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s has no output schema, or is not said to be read-only", tool.Name)
		}
	}
	if diff := cmp.Diff([]string{"get_order_status", "get_price", "get_stock_level"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if list.TTLMs != 30_000 || list.CacheScope != "public" {
		t.Errorf("the list may be kept for %d ms, %s", list.TTLMs, list.CacheScope)
	}
	var stock erp.Stock
	if err := server.Call(t.Context(), "get_stock_level", "", map[string]any{"sku": "BRG-0042", "warehouse": "SBY"}, &stock); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(erp.Stock{SKU: "BRG-0042", Warehouse: "SBY", City: "Surabaya", Units: 20}, stock); diff != "" {
		t.Errorf("stock (-want +got):\n%s", diff)
	}
	var refused *toolclient.RefusedError
	for _, arguments := range []map[string]any{
		{"sku": "BRG-9999", "warehouse": "SBY"}, {"sku": "' OR 1 --", "warehouse": "SBY"}, {"sku": "BRG-0042"}, {"sku": "BRG-0042", "warehouse": "SBY", "x": 1},
	} {
		if err := server.Call(t.Context(), "get_stock_level", "", arguments, &stock); !errors.As(err, &refused) {
			t.Errorf("%v: %v", arguments, err)
		}
	}
}

func TestResourcesMayBeKeptForAsLongAsTheyAreTrue(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "erp.db")
	server := toolServer(t, "erp-read", "ERP_READ_KEY", "r", "-erp", file)
	system, err := erp.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer system.Close()
	if _, err := system.DraftOrder(t.Context(), "k", draft); err != nil {
		t.Fatal(err)
	}
	session, err := server.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for uri, want := range map[string]struct {
		ttl         int
		scope, text string
	}{
		"erp://articles":            {30_000, "public", `"sku":"BRG-0042"`},
		"erp://stock/SRG":           {30_000, "public", `"city":"Semarang"`},
		"erp://orders/PO-2026-0001": {0, "private", `"status":"draft"`},
	} {
		got, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got.TTLMs != want.ttl || got.CacheScope != want.scope || !strings.Contains(got.Contents[0].Text, want.text) {
			t.Errorf("%s: %d ms, %s, %s", uri, got.TTLMs, got.CacheScope, got.Contents[0].Text)
		}
	}
	for _, uri := range []string{"erp://orders/PO-2026-0002", "erp://stock/XXX"} {
		if _, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s is there", uri)
		}
	}
}

// Each server has a key of its own, and the reader's opens nothing else.
func TestKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "erp.db")
	read := toolServer(t, "erp-read", "ERP_READ_KEY", "r", "-erp", file)
	post := toolServer(t, "erp-post", "ERP_POST_KEY", "p", "-erp", file)
	books := toolServer(t, "books", "BOOKS_KEY", "b", "-books", filepath.Join(t.TempDir(), "books.db"))
	for _, server := range []toolclient.Server{read, post, books} {
		for _, key := range []string{"r", "p", "b", ""} {
			session, err := toolclient.Server{URL: server.URL, Key: key}.Connect(t.Context())
			if err == nil {
				_ = session.Close()
			}
			if own := key == server.Key; own != (err == nil) {
				t.Errorf("the key %q at %s: %v", key, server.URL, err)
			}
		}
	}
	if _, err := toolserver.Handler(nil, ""); err == nil {
		t.Error("a server without a key is served")
	}
}

// A web page of somewhere else that the browser of an operator shows does nothing.
func TestPagesOfElsewhere(t *testing.T) {
	t.Parallel()
	handler, err := toolserver.Handler(toolserver.New("x", "", 0), "k")
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader("{}"))
	r.Header.Set("Origin", "https://elsewhere.example")
	r.Header.Set("Authorization", "Bearer k")
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("it is answered with %d", w.Code)
	}
}

// What erp-draft makes is there once under its key, whoever asks and whatever died.
func TestDrafts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "erp.db")
	session, cmd := drafter(t, file, nil)
	first, said := call(t, session, "draft_order", "k-1", draft)
	if first.IsError {
		t.Fatal(said)
	}
	_ = cmd.Process.Kill()
	session, _ = drafter(t, file, nil)
	if again, text := call(t, session, "draft_order", "k-1", draft); again.IsError || text != said {
		t.Errorf("again it is\n%s\nand not\n%s", text, said)
	}

	with := func(change func(*erp.Order)) erp.Order {
		o := draft
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		key  string
		o    erp.Order
		want string
	}{
		"no key":               {"", with(func(o *erp.Order) { o.Number = "PO-2026-0002" }), "no idempotency key"},
		"other arguments":      {"k-1", with(func(o *erp.Order) { o.Incoterm = "FOB" }), "other arguments"},
		"another key":          {"k-2", draft, "of that number already"},
		"a total that is less": {"k-3", with(func(o *erp.Order) { o.Number, o.Total = "PO-2026-0003", 1 }), "the total is not"},
		"no such article":      {"k-4", with(func(o *erp.Order) { o.Number, o.SKU = "PO-2026-0004", "BRG-9999" }), "no such thing"},
		"no such warehouse":    {"k-5", with(func(o *erp.Order) { o.Number, o.Warehouse = "PO-2026-0005", "XXX" }), "no such thing"},
		"bad number":           {"k-6", with(func(o *erp.Order) { o.Number = "1" }), "pattern"},
		"posted":               {"k-7", with(func(o *erp.Order) { o.Number, o.Status = "PO-2026-0007", "posted" }), "status"},
	} {
		if result, text := call(t, session, "draft_order", c.key, c.o); !result.IsError || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	receipt := map[string]any{"number": "GRN-2026-0001", "purchaseOrder": draft.Number, "units": 400}
	for range 2 {
		if result, text := call(t, session, "draft_receipt", "k-1", receipt); result.IsError || !strings.Contains(text, `"status":"draft"`) {
			t.Error(text)
		}
	}
}

// Only people post, with erp-post: an order and a receipt, once each, after which the
// stock is there.
func TestPosting(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "erp.db")
	session, _ := drafter(t, file, nil)
	call(t, session, "draft_order", "k-1", draft)
	call(t, session, "draft_receipt", "k-2", erp.Receipt{Number: "GRN-2026-0001", PurchaseOrder: draft.Number, Units: 400})
	read := toolServer(t, "erp-read", "ERP_READ_KEY", "r", "-erp", file)
	post := toolServer(t, "erp-post", "ERP_POST_KEY", "p", "-erp", file)
	steps := []struct {
		tool string
		args map[string]any
	}{
		{"post_order", map[string]any{"number": draft.Number, "by": "Dewi"}},
		{"post_receipt", map[string]any{"number": "GRN-2026-0001", "period": "2026-10", "by": "Dewi"}},
	}
	for _, step := range steps {
		var posted struct {
			Status   string `json:"status"`
			PostedBy string `json:"postedBy"`
		}
		if err := post.Call(t.Context(), step.tool, "", step.args, &posted); err != nil || posted.Status != "posted" || posted.PostedBy != "Dewi" {
			t.Errorf("%s: %v, %+v", step.tool, err, posted)
		}
		if err := post.Call(t.Context(), step.tool, "", step.args, &posted); err == nil || !strings.Contains(err.Error(), "posted already") {
			t.Errorf("%s again: %v", step.tool, err)
		}
	}
	var stock erp.Stock
	if err := read.Call(t.Context(), "get_stock_level", "", map[string]any{"sku": draft.SKU, "warehouse": "SBY"}, &stock); err != nil || stock.Units != 420 {
		t.Errorf("stock: %v, %+v", err, stock)
	}
	for _, tool := range []string{"post_order", "post_receipt"} {
		if err := read.Call(t.Context(), tool, "", steps[0].args, &stock); err == nil {
			t.Errorf("erp-read has %s", tool)
		}
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: steps[0].args}); err == nil {
			t.Errorf("erp-draft has %s", tool)
		}
	}
}

// The valuation is killed with SIGKILL half-way. The next call goes on where it was,
// and comes to what one that nobody disturbed comes to.
func TestValuationGoesOn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "erp.db")
	counting := func() (*mcp.ClientOptions, chan float64) {
		steps := make(chan float64, 1000)
		return &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { steps <- r.Params.Progress }}, steps
	}
	begin := func(s *mcp.ClientSession) chan error {
		params := &mcp.CallToolParams{Name: "rebuild_stock_valuation", Arguments: map[string]any{"period": "2026-09"}}
		params.SetProgressToken("p")
		ended := make(chan error, 1)
		go func() {
			result, err := s.CallTool(t.Context(), params)
			if err == nil && result.IsError {
				err = fmt.Errorf("%v", result.Content[0].(*mcp.TextContent).Text)
			}
			ended <- err
		}()
		return ended
	}
	options, steps := counting()
	session, cmd := drafter(t, file, options, "-pace", "50ms")
	ended := begin(session)
	for 30 > <-steps {
	}
	_ = cmd.Process.Kill()
	if err := <-ended; err == nil {
		t.Fatal("it was killed, and has ended well")
	}

	options, steps = counting()
	session, _ = drafter(t, file, options)
	if err := <-begin(session); err != nil {
		t.Fatal(err)
	}
	if first := <-steps; first <= 30 {
		t.Errorf("it has begun anew: %v", first)
	}
	_, got := call(t, session, "rebuild_stock_valuation", "", map[string]any{"period": "2026-09"}) // there is nothing left to do
	undisturbed, _ := drafter(t, filepath.Join(t.TempDir(), "erp.db"), nil)
	_, want := call(t, undisturbed, "rebuild_stock_valuation", "", map[string]any{"period": "2026-09"})
	if want = strings.Replace(want, `"begun":1`, `"begun":2`, 1); got != want || !strings.Contains(got, `"articles":60`) {
		t.Errorf("it has come to\n%s\nand not\n%s", got, want)
	}
}
