// Command demo shows a task that survives the death of its server. It starts the
// delivery agent of the examples, gives it a task, answers its question, kills
// the server with SIGKILL in the middle of the work, starts it again and watches
// the same task finish. It needs Go and nothing else, and fails when anything is
// not as it should be.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	log := flag.Bool("log", false, "print what the server logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := newScreen(os.Stdout)
	if err := demonstrate(ctx, out, *log); err != nil {
		out.failed(err)
		stop()
		os.Exit(1)
	}
}

// longest is how long the demo may take after the programs are built.
const longest = time.Minute

// demonstrate builds what it needs in the checkout and runs the story.
func demonstrate(ctx context.Context, out *screen, log bool) error {
	root, err := checkout(ctx)
	if err != nil {
		return err
	}
	out.title("A task that survives the death of its server")
	programs := programs{
		handoff: filepath.Join(root, "bin", "handoff"+exe),
		agent:   filepath.Join(root, "examples", "delivery", "bin", "delivery-agent"+exe),
		config:  filepath.Join(root, "examples", "delivery", "handoff.yaml"),
	}
	out.step("Build bin/handoff and the delivery agent (the first time takes a minute or two)")
	if err := build(ctx, out, root, programs); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := tell(ctx, out, programs, log); err != nil {
		return err
	}
	out.goOn()
	return nil
}

// checkout returns the directory of the module.
func checkout(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("ask go for the module: %w", err)
	}
	file := strings.TrimSpace(string(text))
	if filepath.Base(file) != "go.mod" {
		return "", fmt.Errorf("start the demo inside of the checkout, such as with make demo")
	}
	return filepath.Dir(file), nil
}
