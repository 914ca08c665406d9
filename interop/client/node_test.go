package client

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
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
)

// node is a process of the server, which hands work to the agents. It is spoken to
// over its admin socket.
type node struct {
	dir string
	cmd *exec.Cmd
	api *http.Client
}

// newNode starts a node. It ends with the test.
func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "node-") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(dir, "store.db.sock"))
	}
	transport := &http.Transport{DialContext: socket}
	t.Cleanup(transport.CloseIdleConnections)
	n := &node{dir: dir, api: &http.Client{Transport: transport}}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	address := freeAddress(t)
	configuration := fmt.Sprintf("listen: %s\npublic_url: http://%[1]s\nstore: sqlite:store.db\nsecret_key: %s\nlease: 1s\n", address, hex.EncodeToString(key))
	if err := os.WriteFile(filepath.Join(dir, "handoff.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

// start starts the process and waits until it answers.
func (n *node) start() error {
	program := os.Getenv("HANDOFF")
	if program == "" {
		program = "../../bin/handoff"
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(program, "serve", "-c", "handoff.yaml")
	n.cmd.Dir, n.cmd.Stderr = n.dir, log
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("start node (make build makes it): %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		err := n.call(ctx, http.MethodGet, "/status", nil, nil)
		if err == nil {
			return nil
		}
		if wait(ctx) != nil {
			n.kill()
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the node is not ready: %w\n%s", err, said)
		}
	}
}

// kill ends the process at once, as kill -9 does.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// call calls the node's API.
func (n *node) call(ctx context.Context, method, path string, body, out any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://node/api/v1"+path, content)
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// delegation is work that a node has handed to an agent.
type delegation struct {
	node  *node
	ID    string
	State string
	// Remote is what the node knows of the agent's side.
	Remote struct {
		Task, Context, State, Send, Channel, Error string
		Recalled                                   bool
	}
	Task json.RawMessage
	task *a2a.Task
}

// item is what waits for a person in the inbox of a node.
type item struct{ ID, Text, Decision string }

// hand lets a node hand work to the agent of the session, which is added to its
// peers with these settings.
func (s *session) hand(ctx context.Context, n *node, text string, settings map[string]any) (*delegation, error) {
	name := "p" + strings.ToLower(rand.Text())
	peer := map[string]any{
		"card":    json.RawMessage(s.card.AppendJSON(nil)),
		"origins": []string{"http://" + s.proxy.address()},
		"poll":    map[string]any{"min": "500ms", "max": "2s"},
	}
	for key, value := range settings {
		peer[key] = value
	}
	if err := n.call(ctx, http.MethodPost, "/peers", map[string]any{"name": name, "config": peer}, nil); err != nil {
		return nil, err
	}
	d := &delegation{node: n}
	err := n.call(ctx, http.MethodPost, "/delegations", map[string]any{"to": name, "ref": "PO-" + name, "message": text}, d)
	return d, err
}

// look asks the node for the delegation.
func (d *delegation) look(ctx context.Context) error {
	if err := d.node.call(ctx, http.MethodGet, "/delegations/"+url.PathEscape(d.ID), nil, d); err != nil {
		return err
	}
	d.task = new(a2a.Task)
	return a2a.Unmarshal(d.Task, d.task)
}

// until waits until the delegation is so. It may be over before.
func (d *delegation) until(ctx context.Context, so func() bool) error {
	for {
		if err := d.look(ctx); err != nil {
			return err
		}
		switch {
		case so():
			return nil
		case d.task.Status.State.Terminal():
			return d.odd()
		}
		if wait(ctx) != nil {
			return d.odd()
		}
	}
}

// odd says how the delegation is.
func (d *delegation) odd() error {
	said := ""
	if m := d.task.Status.Message; m != nil {
		said = m.Text()
	}
	return fmt.Errorf("the delegation is %s (%q), and the peer's task %s (%s, %s: %s)",
		d.State, said, d.Remote.State, d.Remote.Send, d.Remote.Channel, d.Remote.Error)
}

// ends waits for the end of the delegation, and for that text in its artifacts.
func (d *delegation) ends(ctx context.Context, text string) error {
	if err := d.until(ctx, func() bool { return d.task.Status.State == a2a.StateCompleted }); err != nil {
		return err
	}
	return check(d.task, a2a.StateCompleted, text)
}

// streams waits until two chunks of the agent have come.
func (d *delegation) streams(ctx context.Context) error {
	return d.until(ctx, func() bool {
		return len(d.task.Artifacts) > 0 && len(d.task.Artifacts[0].Parts) >= 2
	})
}

// asks waits until the agent asks, and returns the item of the inbox.
func (d *delegation) asks(ctx context.Context) (*item, error) {
	if err := d.until(ctx, func() bool { return d.task.Status.State == a2a.StateInputRequired }); err != nil {
		return nil, err
	}
	items, err := d.items(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(items) != 1 || items[0].Text != "What is it?" {
		return nil, fmt.Errorf("the inbox has %v", items)
	}
	return &items[0], nil
}

// answer answers an item of the inbox, and waits for the end of the task that has
// asked: it was asked once, and answered once.
func (d *delegation) answer(ctx context.Context, i *item) error {
	asked := d.Remote.Task
	if err := d.node.call(ctx, http.MethodPost, "/inbox/"+i.ID+"/answer", map[string]any{"text": "an answer"}, nil); err != nil {
		return err
	}
	if err := d.ends(ctx, "an answer"); err != nil {
		return err
	}
	if d.Remote.Task != asked {
		return fmt.Errorf("the answer went to task %s, want %s", d.Remote.Task, asked)
	}
	items, err := d.items(ctx, true)
	if err != nil {
		return err
	}
	if len(items) != 1 || items[0].Decision != "answered" {
		return fmt.Errorf("what was settled is %v", items)
	}
	return nil
}

func (d *delegation) items(ctx context.Context, settled bool) ([]item, error) {
	var list struct{ Items []item }
	err := d.node.call(ctx, http.MethodGet, fmt.Sprintf("/inbox?task=%s&settled=%t", url.QueryEscape(d.ID), settled), nil, &list)
	return list.Items, err
}
