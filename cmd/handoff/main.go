// Command handoff runs a node of agents and speaks to agents of anybody. As a
// client it follows the a2a-cli specification, version 0.2.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// Exit codes (a2a-cli §11.6). The last three are ours: two come with
// --exit-state only, and an interrupt exits as shells expect.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitAuth        = 4
	exitTimeout     = 5
	exitNotDone     = 10 // the task failed, was rejected or canceled
	exitWaiting     = 11 // the task waits for input or authorization
	exitInterrupted = 130
)

// app is the surroundings of the process, and what every command shares.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	lookupEnv  func(string) (string, bool)
	isTerminal bool // whether a person watches stdout
	now        func() time.Time
	location   *time.Location // in which text output tells times

	output format // -o
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	a := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		lookupEnv:  os.LookupEnv,
		isTerminal: isatty.IsTerminal(os.Stdout.Fd()),
		now:        time.Now,
		location:   time.Local,
	}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// run runs one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	e := failureOf(ctx, err)
	streamed := slices.ContainsFunc(args, func(arg string) bool { return arg == "--stream" || arg == "--stream=true" })
	a.printFailure(e, a.failureFormat(args), streamed)
	return e.Exit
}

// exitStatus ends a command that has said everything with an exit code.
type exitStatus int

// Error is for the interface; nobody prints it.
func (s exitStatus) Error() string { return "exit" }

// newRoot builds the tree of commands.
func newRoot(a *app) *cobra.Command {
	root := newGroup("handoff", "Publish agents, and hand work to agents of anybody, over A2A")
	root.Version = versionText()
	root.SetVersionTemplate("handoff {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.Name() == "send" && strings.HasPrefix(err.Error(), "unknown shorthand flag: 'c'") {
			return usagef("%v", err).hint("Run the command in the directory of the %s whose agent or peer is meant, or name the node with --node URL", configFile)
		}
		return usagef("%v", err).hint("See: %s --help", cmd.CommandPath())
	})
	a.output = formatText
	root.PersistentFlags().VarP(&a.output, "output", "o", "output format: text, json or yaml")
	settable(root.PersistentFlags(), "output")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	for _, construct := range []func(*app) *cobra.Command{
		newCardCommand,
		newSendCommand,
		newTaskCommand,
		newConfigCommand,
		newCompletionCommand,
		newInitCommand,
		newCheckCommand,
		newServeCommand,
		newConsoleCommand,
		newReloadCommand,
		newBackupCommand,
		newRestoreCommand,
		newMigrateCommand,
		newVersionCommand,
		newDoctorCommand,
		newBenchCommand,
		newConformanceCommand,
		newDemoCommand,
		newKeysCommand,
		newPeerCommand,
		newInboxCommand,
		newAdminCommand,
		newDelegationCommand,
		newMCPCommand,
	} {
		root.AddCommand(construct(a))
	}
	root.SetHelpCommand(newHelpCommand())
	a.prepare(root)
	return root
}

// prepare wraps what every command runs: options come from the environment and
// from files first, and an error is told from one of the command line itself.
func (a *app) prepare(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := a.resolveSettings(cmd); err != nil {
				return &commandError{err}
			}
			if err := run(cmd, args); err != nil {
				return &commandError{err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		a.prepare(sub)
	}
}

// commandError is an error of a command, as opposed to one that cobra found on
// the command line.
type commandError struct{ err error }

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// newGroup returns a command that only has commands below it.
func newGroup(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args:                       cobra.ArbitraryArgs,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			e := usagef("there is no command %q", cmd.CommandPath()+" "+args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return e.hint("Did you mean: %s %s", cmd.CommandPath(), near[0])
			}
			return e.hint("See: %s --help", cmd.CommandPath())
		},
	}
}

// needs refuses a command line without the one argument that a command takes.
func needs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := cmd.Parent().CommandPath() + " " + cmd.Use
		switch len(args) {
		case 0:
			return usagef("%s needs %s: %s", cmd.Name(), what, usage)
		case 1:
			return nil
		}
		return usagef("%s takes one argument and not %d: %s", cmd.Name(), len(args), usage).hint("Put what has blanks in quotes")
	}
}

// newHelpCommand returns help, which refuses what is no command.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show how a command is used",
		RunE: func(help *cobra.Command, args []string) error {
			cmd, rest, err := help.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q", strings.Join(append([]string{"handoff"}, args...), " ")).hint("See: handoff --help")
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// failureFormat returns the format that a failure is told in. When the command
// line itself is wrong, -o may stand behind the mistake.
func (a *app) failureFormat(args []string) format {
	if a.output != formatText {
		return a.output
	}
	for i, arg := range args {
		var text string
		switch {
		case arg == "--":
			return formatText
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			text = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			text = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			text = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		default:
			continue
		}
		return asFormat(text)
	}
	text, _ := a.lookupEnv(envPrefix + "OUTPUT")
	return asFormat(text)
}

func asFormat(text string) format {
	if slices.Contains(formats, format(text)) {
		return format(text)
	}
	return formatText
}

// versionText returns the version of the program, as the module was built.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
