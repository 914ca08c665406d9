//go:build postgres

package handoff_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	handoff "handoff.example/handoff"
)

// doomedServer is the variable with the configuration of the node that this process
// is to be, and to serve, instead of a test.
const doomedServer = "HANDOFF_TEST_DOOMED_SERVER"

func init() {
	if file := os.Getenv(doomedServer); file != "" {
		if err := beServer(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// beServer is a node that says its URL and serves until it is killed.
func beServer(file string) error {
	c, err := handoff.LoadConfig(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(c, handoff.Options{})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return node.Serve(context.Background(), listener)
}

// A call of a tool that has become a task goes on at another node when its own dies:
// it is made again where that is harmless, else it ends, and says that nobody knows
// what came of it. It is never made twice (TSK-05, TSK-21).
func TestAnotherNodeTakesOverACallOfATool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy, status, says string
		calls                int32
	}{
		"idempotent": {`{task: {after: 0s}, idempotent: true}`, "completed", "call 2 of rebuild", 2},
		"unknown":    {`{task: {after: 0s}}`, "failed", "known", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			begun, never := make(chan struct{}, 1), make(chan struct{})
			s := mcp.NewServer(&mcp.Implementation{Name: "erp", Version: "1"}, nil)
			mcp.AddTool(s, &mcp.Tool{Name: "rebuild", Description: "Takes long"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				n := calls.Add(1)
				if n == 1 {
					begun <- struct{}{}
					select {
					case <-never:
					case <-ctx.Done():
					}
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("call %d of rebuild", n)}}}, nil, nil
			})
			tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
			t.Cleanup(tools.Close)
			t.Cleanup(func() { close(never) })
			config := fmt.Sprintf("store: sqlite:tasks.db\nsecret_key: 0123456789abcdef0123456789abcdef\nlease: 1s\ncallers: {anonymous: loopback}\n"+
				"mcp: {servers: {erp: {url: %q, tools: {rebuild: %s}}}}\n", tools.URL, c.policy)
			address := aSchema(t)
			heir := join(t, address, config)
			kill, url := doom(t, doomedServer, strings.Replace(config, "sqlite:tasks.db", address, 1))

			var made struct {
				Task taskView `json:"result"`
			}
			rpc(t, url, "tools/call", "rebuild", `"name":"rebuild","arguments":{}`, &made)
			if made.Task.ID == "" {
				t.Fatal("the call has not become a task")
			}
			select {
			case <-begun:
			case <-time.After(20 * time.Second):
				t.Fatal("the tool has not begun")
			}
			kill()
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			for {
				var got struct {
					Task taskView `json:"result"`
				}
				rpc(t, heir.server.URL, "tasks/get", made.Task.ID, `"taskId":"`+made.Task.ID+`"`, &got)
				if got.Task.Status != "working" {
					if got.Task.Status != c.status || !strings.Contains(got.Task.all, c.says) {
						t.Errorf("the task is %s", got.Task.all)
					}
					break
				}
				select {
				case <-time.After(50 * time.Millisecond): // as its poll interval asks
				case <-ctx.Done():
					t.Fatal("the task does not end")
				}
			}
			if n := calls.Load(); n != c.calls {
				t.Errorf("the tool was called %d times, want %d", n, c.calls)
			}
		})
	}
}

// taskView is what a client sees of a task.
type taskView struct {
	ID     string
	Status string
	all    string
}

// UnmarshalJSON keeps all of it for messages.
func (v *taskView) UnmarshalJSON(data []byte) error {
	var known struct {
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return err
	}
	*v = taskView{known.ID, known.Status, string(data)}
	return nil
}

// rpc makes a request of a client that knows tasks.
func rpc(t *testing.T, url, method, name, params string, into any) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var raw struct {
		Error any `json:"error"`
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &raw); err != nil || raw.Error != nil {
		t.Fatalf("%s: %s, %v", method, data, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}
