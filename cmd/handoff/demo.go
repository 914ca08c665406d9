package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"handoff.example/handoff"
	"handoff.example/handoff/a2a"
	"handoff.example/handoff/client"
	"handoff.example/handoff/config"
	"handoff.example/handoff/internal/card"
)

// demoConfig is the configuration of the demo.
const demoConfig = `listen: 127.0.0.1:0
store: sqlite:handoff.db
agents:
  hello:
    name: Hello
    description: Greets people, and asks for a name when it gets none.
    version: 1.0.0
    skills:
      - {id: greet, name: Greet, description: Greets somebody., tags: [demo]}
    run:
      script:
        - when: {text: "^hello$", turn: 1}
          do:
            - ask: Whom shall I greet?
        - do:
            - working: Thinking of something nice.
            - artifact: {name: greeting, parts: [{text: "Hello, {{.Text}}!"}]}
            - complete: Done.
`

func newDemoCommand(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "See a node and a conversation with its agent",
		Long: `Start a node with one small agent, whose store is removed at the end, and have a
conversation with it. The demo of what a node survives is make demo.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.output != formatText {
				return usagef("demo is for people and writes text only")
			}
			return a.demo(cmd.Context(), keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "let the node run on until Ctrl-C")
	return cmd
}

func (a *app) demo(ctx context.Context, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "handoff-demo")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, configFile)
	if err := os.WriteFile(file, []byte(demoConfig), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	c, err := config.Load(file)
	if err != nil {
		return err
	}
	node, err := handoff.New(c, handoff.Options{Logger: slog.New(slog.DiscardHandler), Version: versionText()})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return errors.Join(listenFailure(c.Listen, err), node.Shutdown(ctx))
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- node.Serve(serving, listener) }()
	err = a.converse(ctx, card.Address("http://"+listener.Addr().String(), "hello", ""))
	if keep && err == nil {
		a.note("The node runs on. Stop it with Ctrl-C.")
		<-ctx.Done()
	}
	stop()
	return errors.Join(err, <-served)
}

// converse has a conversation with the agent of the demo.
func (a *app) converse(ctx context.Context, address string) error {
	p := &printer{w: a.stdout}
	p.write("A node is running with the agent hello, at " + address + "\n\n")
	p.write("$ handoff card get " + address + "\n")
	c, err := client.Dial(ctx, address, client.Options{})
	if err != nil {
		return err
	}
	v := &view{printer: p, location: a.location}
	v.field("Name", c.Card().Name)
	v.field("Description", c.Card().Description)
	p.write("\n$ handoff send hello -a " + address + "\n")
	first, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.NewMessage(a2a.Text("hello"))})
	if err != nil {
		return err
	}
	if first.Task == nil {
		return errors.New("the agent of the demo made no task")
	}
	a.tellTask(v, first.Task)
	p.write("\nThe task waits, and costs nothing but a row in the store. The answer goes on with it:\n\n")
	p.write("$ handoff send World -a " + address + " --task-id " + first.Task.ID + "\n")
	second, err := c.SendMessage(ctx, &a2a.SendMessageRequest{Message: client.FollowUp(first.Task, a2a.Text("World"))})
	if err != nil {
		return err
	}
	if second.Task == nil {
		return errors.New("the agent of the demo made no task")
	}
	a.tellTask(v, second.Task)
	p.write("\nMake an agent of yours with: handoff card new\n")
	return p.err
}

// tellTask writes the gist of a task.
func (a *app) tellTask(v *view, t *a2a.Task) {
	v.field("Task ID", t.ID)
	v.field("State", stateText(t.Status.State))
	if m := t.Status.Message; m != nil {
		v.field("Message", strings.TrimSpace(m.Text()))
	}
	for i := range t.Artifacts {
		v.artifact(&t.Artifacts[i])
	}
}
