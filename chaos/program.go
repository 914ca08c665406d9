//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// What the program of the exec agents writes into its journal.
const (
	journalBegin   = "begin"
	journalEnd     = "end"
	journalOverlap = "overlap" // another attempt of the task was running
)

// chunksOfProgram is how many chunks its artifact has.
const chunksOfProgram = 5

// runProgram is the agent that the server runs for the exec agents: this very
// binary. Its side effect is a line in a journal when it begins and one when it
// ends, and it holds a lock of its task meanwhile, so that nothing that the
// server says is needed to know what has really run.
func runProgram(journal string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	turn, err := agent.ParseTurn(input)
	if err != nil {
		return err
	}
	message := turn.Messages[len(turn.Messages)-1]
	note := func(what string) error {
		line := fmt.Sprintf("%s %s %d %d %d %s\n", what, turn.TaskID, turn.Number, turn.Attempt, os.Getpid(), message.MessageID)
		return appendLine(journal, line)
	}
	lock, err := os.OpenFile(filepath.Join(journal+".locks", turn.TaskID), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		if err := note(journalOverlap); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := note(journalBegin); err != nil {
		return err
	}
	if err := work(message, turn.Number); err != nil {
		return err
	}
	return note(journalEnd)
}

// work does what the message says: "work N" takes N milliseconds for the chunks
// of an artifact, "quiet N" says nothing for so long and then everything, "ask"
// asks in the first turn and ends in the second.
func work(message a2a.Message, turn int) error {
	verb, argument, _ := strings.Cut(message.Parts[0].Text, " ")
	if verb == "ask" && turn == 1 {
		return emit(agent.Step{Ask: &agent.Ask{Content: *agent.Say("What next?")}})
	}
	milliseconds, _ := strconv.Atoi(argument)
	pause := time.Duration(milliseconds) * time.Millisecond / chunksOfProgram
	if verb == "quiet" {
		time.Sleep(pause * chunksOfProgram)
		pause = 0
	}
	for i := range chunksOfProgram {
		time.Sleep(pause)
		step := agent.Step{Artifact: &agent.Artifact{ID: "work", Append: i > 0, Last: i == chunksOfProgram-1, Parts: []a2a.Part{a2a.Text(strconv.Itoa(i+1) + " ")}}}
		if err := emit(step); err != nil {
			return err
		}
	}
	return nil
}

func emit(s agent.Step) error {
	_, err := os.Stdout.Write(append(s.AppendJSON(nil), '\n'))
	return err
}

// appendLine adds a line in one write, so that lines of several processes do
// not mix.
func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
