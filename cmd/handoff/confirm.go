package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// asksPeople reports whether a person can answer on standard input.
func (a *app) asksPeople() bool {
	f, ok := a.stdin.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// confirm asks whether to do something that is hard to undo.
func (a *app) confirm(what string) error {
	if !a.asksPeople() {
		return usagef("this would %s", what).hint("Say that it is meant with --yes")
	}
	fmt.Fprintf(a.stderr, "This would %s. Go on? [y/N] ", what)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return failf(codeInterrupted, "nothing was done")
	}
	return nil
}
