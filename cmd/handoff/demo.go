package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"handoff.example/handoff/examples/demo"
)

// demoPace is how long the people of the demo think, so that whoever watches can read.
const demoPace = 3 * time.Second

func newDemoCommand(a *app) *cobra.Command {
	o := demo.Options{Out: a.stdout, Version: versionText(), Child: demoChild}
	var child string
	var hold bool
	cmd := &cobra.Command{
		Use: "demo", Short: "See a purchase by three agents, and the people between them",
		Long: `Play a purchase: an agent reads the stock, asks a supplier's agent for a quote and
finance's for the credit, and makes a draft of the order with a tool of the ERP system.
People answer what is asked, and post what was drafted. All of that runs in this process
and is removed at the end. On a terminal it runs on until Ctrl-C, with its console open
and a question for you in the inbox.

The agent follows a plan that is fixed. With the address of an API like OpenAI's in
HANDOFF_LLM_URL, such as http://127.0.0.1:11434/v1, it is the model HANDOFF_LLM_MODEL,
with the key HANDOFF_LLM_KEY.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if child != "" {
				return demo.RunChild(child, hold, versionText(), a.stdin, a.stdout)
			}
			if a.output != formatText {
				return usagef("demo is for people and writes text only")
			}
			if !cmd.Flags().Changed("exit") {
				o.Exit = !a.isTerminal
			}
			if a.asksPeople() {
				o.In = a.stdin
			}
			if a.isTerminal {
				noColor, _ := a.lookupEnv("NO_COLOR")
				kind, _ := a.lookupEnv("TERM")
				o.Width = a.columns()
				o.Color, o.Pace = noColor == "" && kind != "dumb", demoPace
			}
			o.Model = a.demoModel()
			return a.demo(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Break, "break", false, "kill the whole system with SIGKILL twice on the way, and start it again")
	flags.BoolVar(&o.Interactive, "interactive", false, "let me answer what the agents ask, in the console or on the terminal")
	flags.StringVar(&o.Dir, "keep", "", "keep the data in this `directory`, and go on with what is there")
	flags.IntVar(&o.Port, "port", 8080, "the `port` of the console; 0 takes one that is free")
	flags.BoolVar(&o.Exit, "exit", false, "end with the story, as without a terminal; --exit=false runs on until Ctrl-C")
	flags.StringVar(&child, "system", "", "run the system of a demo in this directory")
	flags.BoolVar(&hold, "hold", false, "keep back the answer to who makes a draft")
	_ = flags.MarkHidden("system")
	_ = flags.MarkHidden("hold")
	return cmd
}

// demoModel is the model that the environment names; nil: none.
func (a *app) demoModel() *demo.Model {
	address, _ := a.lookupEnv("HANDOFF_LLM_URL")
	if address == "" {
		return nil
	}
	name, _ := a.lookupEnv("HANDOFF_LLM_MODEL")
	return &demo.Model{URL: address, Name: cmp.Or(name, "default")}
}

func (a *app) demo(ctx context.Context, o demo.Options) error {
	err := demo.Run(ctx, o)
	if taken, ok := errors.AsType[*demo.AddressError](err); ok {
		f := failf(codeInternal, "the address %s cannot be used: %w", taken.Address, taken.Err)
		f.Hint = fmt.Sprintf("Stop the program that has it, or choose another port: handoff demo --port %d (make demo DEMO='--port %d'); --port 0 takes one that is free", o.Port+1, o.Port+1)
		return f
	}
	return err
}

// columns is how wide the terminal is; 0: nobody knows.
func (a *app) columns() int {
	f, ok := a.stdout.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// demoChild is this program as the system of a demo.
func demoChild(dir string, hold bool) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.Command(self, "demo", "--system", dir, fmt.Sprintf("--hold=%t", hold)) //nolint:noctx // it is killed when the story says so
}
