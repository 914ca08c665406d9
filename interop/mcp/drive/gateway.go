package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gateway is one that was started before the suite's server.
type gateway struct {
	base     string // its URL, without a path
	endpoint string
	stop     func()
}

// configuration is that of a gateway before one server.
func configuration(url, scenario string, f facts) map[string]any {
	server := map[string]any{"url": url}
	if strings.HasPrefix(scenario, "auth/") {
		oauth := map[string]any{"flow": "authorization_code"}
		if strings.HasPrefix(scenario, "auth/client-credentials") {
			oauth["flow"] = "client_credentials"
		}
		if f.ClientID != "" {
			oauth["client_id"] = f.ClientID
		}
		if f.ClientSecret != "" {
			oauth["client_secret"] = f.ClientSecret
		}
		if scenario == "auth/basic-cimd" {
			// The suite knows this one; nobody can read a document on the loopback interface.
			oauth["client_id"] = "https://conformance-test.local/client-metadata.json"
		}
		server["auth"] = map[string]any{"oauth": oauth}
	}
	return map[string]any{"mcp": map[string]any{"servers": map[string]any{"suite": server}}}
}

// startGateway starts a gateway on a free port. Its own address is part of its
// configuration, so somebody may take the port before it does: then it is another.
func startGateway(ctx context.Context, dir string, c map[string]any) (g *gateway, err error) {
	for range 5 {
		if g, err = startOnce(ctx, dir, c); err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	return g, err
}

func startOnce(ctx context.Context, dir string, c map[string]any) (*gateway, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, err
	}
	c["public_url"] = "http://" + address // where people come back to from their login
	c["secret_key"] = "file:secret.key"
	raw, err := json.Marshal(c) // which is YAML
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "handoff.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return nil, err
	}
	key := make([]byte, 32) // that tokens are sealed with
	_, _ = rand.Read(key)
	keyFile := filepath.Join(dir, "secret.key")
	if err := os.WriteFile(keyFile, []byte(hex.EncodeToString(key)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Getenv("HANDOFF"), "serve", "-c", file, "--listen", address, "--anonymous", "loopback", "--store", "sqlite:"+filepath.Join(dir, "store.db"))
	cmd.Dir, cmd.Stderr = dir, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start gateway: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	g := &gateway{base: "http://" + address, endpoint: "/mcp", stop: func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
		}
	}}
	for {
		if r, err := http.Get(g.base + "/readyz"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return g, nil
			}
		}
		select {
		case <-ctx.Done():
			g.stop()
			return nil, fmt.Errorf("wait for gateway: %w", ctx.Err())
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			return nil, fmt.Errorf("the gateway has ended: %w\n%s", err, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answer says what the client does when it is asked.
type answer func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error)

func accept(content map[string]any) answer {
	return func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

func (g *gateway) connect(ctx context.Context, a answer) (*mcp.ClientSession, error) {
	o := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
	if a != nil {
		o.Capabilities.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return a(ctx, r.Params) }
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "handoff-conformance", Version: "1.0.0"}, o)
	s, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: g.base + g.endpoint}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to gateway: %w", err)
	}
	return s, nil
}

// call lists the tools, and calls one of them.
func (g *gateway) call(ctx context.Context, a answer, c call) error {
	s, err := g.connect(ctx, a)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.ListTools(ctx, nil); err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	if c.Arguments == nil {
		c.Arguments = map[string]any{}
	}
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
	if err != nil {
		return fmt.Errorf("call %s: %w", c.Name, err)
	}
	if res.IsError {
		return fmt.Errorf("%s failed: %v", c.Name, res.Content)
	}
	return nil
}

type rawTool struct {
	Name        string          `json:"name"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// headers are the arguments that the schema wants as headers too.
func (t rawTool) headers(arguments map[string]any) map[string]string {
	var schema struct {
		Properties map[string]struct {
			Header string `json:"x-mcp-header"`
		}
	}
	headers := map[string]string{}
	if json.Unmarshal(t.InputSchema, &schema) == nil {
		for name, p := range schema.Properties {
			if v, ok := arguments[name]; ok && p.Header != "" {
				headers["Mcp-Param-"+p.Header] = fmt.Sprint(v)
			}
		}
	}
	return headers
}

func (g *gateway) rawTools(ctx context.Context) ([]rawTool, error) {
	res, err := g.raw(ctx, "tools/list", "", map[string]any{}, nil)
	if err != nil {
		return nil, err
	}
	var listed struct{ Tools []rawTool }
	if err := json.Unmarshal(res, &listed); err != nil {
		return nil, fmt.Errorf("decode list of tools: %w", err)
	}
	return listed.Tools, nil
}

func (g *gateway) rawCall(ctx context.Context, name string, arguments map[string]any, headers map[string]string) error {
	_, err := g.raw(ctx, "tools/call", name, map[string]any{"name": name, "arguments": arguments}, headers)
	return err
}

// raw makes a request without the SDK, and returns the result as it came.
func (g *gateway) raw(ctx context.Context, method, name string, params map[string]any, headers map[string]string) (json.RawMessage, error) {
	const revision = "2026-07-28"
	params["_meta"] = map[string]any{mcp.MetaKeyProtocolVersion: revision, mcp.MetaKeyClientCapabilities: map[string]any{}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+g.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision, "Mcp-Method": method} {
		r.Header.Set(k, v)
	}
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	for k, v := range headers {
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(said) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				said = data // the response is the last event
			}
		}
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(said, &m); err != nil {
		return nil, fmt.Errorf("decode response (%s): %w: %.300s", res.Status, err, said)
	}
	if m.Error != nil {
		return nil, fmt.Errorf("%s: %s: %s", method, res.Status, m.Error)
	}
	return m.Result, nil
}
