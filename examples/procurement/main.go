// Command procurement plays a purchase on the terminal: it starts the three agents
// of the example as processes of their own, in a directory of its own, orders, kills
// agents where they wait, answers from the inbox of the buyer, and shows what is on
// the order in the end. It fails when anything is not as it should be.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	logs := flag.Bool("log", false, "print what the agents log")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, os.Stdout, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "The story failed:", err)
		stop()
		os.Exit(1)
	}
}

// longest is how long the story may take once the programs are built.
const longest = time.Minute

func play(ctx context.Context, out io.Writer, logs bool) (err error) {
	dir, err := os.MkdirTemp("", "procurement")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	_, _ = fmt.Fprintln(out, "Building the programs (the first time takes a minute or two)")
	if err := build(ctx, dir, out); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := found(dir, dir)
	if err != nil {
		return err
	}
	if logs {
		c.log = os.Stderr
	}
	defer c.close()
	return tell(ctx, out, c)
}

// build compiles the command line and the programs of the example into a directory.
func build(ctx context.Context, dir string, out io.Writer) error {
	const module = "handoff.example/handoff"
	began := time.Now()
	for _, pkg := range append([]string{"/cmd/handoff"}, binaries...) {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, path.Base(pkg)+exe), module+pkg)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, strings.TrimSpace(string(text)))
		}
		_, _ = fmt.Fprintf(out, "%6.2f s  %s\n", time.Since(began).Seconds(), path.Base(pkg))
	}
	return nil
}

// binaries are the programs of the example.
var binaries = []string{
	packages + buyer, packages + supplier, packages + finance,
	packages + "erp-read", packages + "erp-draft", packages + "erp-post", packages + "books",
}

const packages = "/examples/procurement/cmd/"
