package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// exe ends the name of a program.
var exe = map[bool]string{true: ".exe"}[runtime.GOOS == "windows"]

// programs are the files that the demo runs.
type programs struct {
	handoff string
	agent   string
	config  string // the handoff.yaml of the delivery example
}

// build compiles the programs and shows how far it is.
func build(ctx context.Context, out *screen, root string, p programs) error {
	began := time.Now()
	for _, target := range [][2]string{{p.handoff, "./cmd/handoff"}, {p.agent, "./examples/delivery/agent"}} {
		if err := compile(ctx, out, root, target[0], target[1]); err != nil {
			return err
		}
	}
	out.clearProgress()
	out.say("done in %.1f s", time.Since(began).Seconds())
	return nil
}

func compile(ctx context.Context, out *screen, root, program, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-o", program, pkg)
	cmd.Dir = root
	messages, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("build %s: %w", pkg, err)
	}
	var lines []string
	for scanner := bufio.NewScanner(messages); scanner.Scan(); {
		lines = append(lines, scanner.Text())
		out.progress("%s: %d packages, %s", pkg, len(lines), scanner.Text())
	}
	if err := cmd.Wait(); err != nil {
		out.clearProgress()
		return fmt.Errorf("build %s: %w\n%s", pkg, err, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	return nil
}
