// Package client holds Handoff's own client against agents that were written with
// the official SDKs. Each agent is a process that a test starts; what lies between
// it and the client is a proxy that counts messages and cuts connections.
package client

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"handoff.example/handoff/a2a"
)

// peer is an agent written with an official SDK. What it does with a message
// stands at the top of examples/fixture/handoff.yaml.
type peer struct {
	id      string // the name of its folder
	sdk     string // as the results have it
	dir     string
	command []string
	// version is that of the protocol.
	version string
	// draft says that it is of 1.0 before 1.0: it knows no returnImmediately, and
	// every send returns at once.
	draft bool
	// durable says that the SDK has a store that outlives the process.
	durable bool
	// bindings are those that both sides have.
	bindings []string
}

// peers are the agents.
func peers() []peer {
	return []peer{
		{id: "go", sdk: "a2a-go", dir: "../go", version: "1.0", bindings: spoken, command: []string{"build/server"}},
		{id: "js", sdk: "@a2a-js/sdk", dir: "../js", version: "1.0", bindings: spoken, command: []string{"node", "server.js"}},
		{id: "py", sdk: "a2a-sdk", dir: "../py", version: "1.0", bindings: spoken, durable: true, command: []string{"build/venv/bin/python", "server.py"}},
		{id: "py03", sdk: "a2a-sdk of 0.3", dir: "../py03", version: "0.3", bindings: spoken, durable: true, command: []string{"venv/bin/python", "server.py"}},
		{id: "java", sdk: "a2a-java", dir: "../java", version: "1.0", draft: true, bindings: []string{a2a.BindingJSONRPC, a2a.BindingREST}, command: []string{"java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "@build/arguments", "Server"}},
	}
}

// spoken are the bindings of the client.
var spoken = []string{a2a.BindingJSONRPC, a2a.BindingREST, a2a.BindingGRPC}

// agent is the process of a peer.
type agent struct {
	peer       peer
	http, grpc string // addresses
	dir        string // for its files
	lasting    bool   // its tasks outlive it
	cmd        *exec.Cmd
	input      io.Closer
}

// card is where the agent's card is.
func (a *agent) card() string { return "http://" + a.http + "/" }

// newAgent starts a peer. It ends with the test.
func newAgent(t *testing.T, p peer, lasting bool) *agent {
	t.Helper()
	a := &agent{peer: p, http: freeAddress(t), grpc: freeAddress(t), dir: t.TempDir(), lasting: lasting && p.durable}
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	return a
}

// start starts the process and waits until it listens.
func (a *agent) start() error {
	_, port, _ := net.SplitHostPort(a.http)
	_, grpcPort, _ := net.SplitHostPort(a.grpc)
	command := append(a.peer.command[:len(a.peer.command):len(a.peer.command)], "--port", port, "--grpc-port", grpcPort)
	if a.lasting {
		command = append(command, "--store", filepath.Join(a.dir, "tasks.db"))
	}
	a.cmd = exec.Command(command[0], command[1:]...)
	a.cmd.Dir = a.peer.dir
	log, err := os.Create(filepath.Join(a.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	a.cmd.Stderr = log
	// The agent ends with its input, even when the test is killed.
	if a.input, err = a.cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := a.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := a.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", a.peer.sdk, err)
	}
	late := time.AfterFunc(30*time.Second, func() { _ = a.cmd.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		a.kill()
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s is not ready: it said %q, %w\n%s", a.peer.sdk, line, err, said)
	}
	return nil
}

// kill ends the process at once, as kill -9 does.
func (a *agent) kill() {
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

// nextPort counts the ports that were tried, from anywhere on.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(10000)) }

// freeAddress returns an address that nothing listens on. Its port is not one that
// systems give to connections, nor one that another agent has, so that it is still
// free when an agent is started again.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+nextPort.Add(1)%10000))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free between 20000 and 30000")
	return ""
}
