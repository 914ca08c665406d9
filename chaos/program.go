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

	"github.com/go-json-experiment/json"

	"handoff.example/handoff/a2a"
	"handoff.example/handoff/agent"
)

// What the program of the exec agents writes into its journal.
const (
	journalBegin   = "begin"
	journalStep    = "step" // it has done another part of its work
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
		line := fmt.Sprintf("%s %s %d %d %s %s %d\n", what, turn.TaskID, turn.Number, turn.Attempt, message.MessageID, whereabouts(), time.Now().UnixMicro())
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
	w := work{turn: turn, note: note}
	if err := w.do(message.Parts[0].Text); err != nil {
		return err
	}
	return note(journalEnd)
}

// whereabouts returns where the program runs.
func whereabouts() string {
	name, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "here"
	}
	return name
}

// mark is what the program writes beside each chunk, so that the history shows
// which attempt has made it, and when.
type mark struct {
	Turn    int   `json:"turn"`
	Attempt int   `json:"attempt"`
	At      int64 `json:"at"` // microseconds since 1970
}

// work is what a program does in a turn.
type work struct {
	turn *agent.TurnData
	note func(what string) error
}

// do does what the message says: "work N" takes N milliseconds for the chunks
// of an artifact, "quiet N" says nothing for so long and then everything, "ask"
// asks in the first turn and ends in the second.
func (w *work) do(text string) error {
	verb, argument, _ := strings.Cut(text, " ")
	if verb == "ask" && w.turn.Number == 1 {
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
		if err := w.note(journalStep); err != nil {
			return err
		}
		if err := w.chunk(i); err != nil {
			return err
		}
	}
	return nil
}

// chunk emits a chunk of the artifact.
func (w *work) chunk(i int) error {
	metadata, err := json.Marshal(mark{Turn: w.turn.Number, Attempt: w.turn.Attempt, At: time.Now().UnixMicro()})
	if err != nil {
		return err
	}
	part := a2a.Text(strconv.Itoa(i+1) + " ")
	part.Metadata = a2a.JSON(metadata)
	return emit(agent.Step{Artifact: &agent.Artifact{ID: "work", Append: i > 0, Last: i == chunksOfProgram-1, Parts: []a2a.Part{part}}})
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
