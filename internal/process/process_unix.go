//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inherited are further environment variables that programs need here.
var inherited []string

// SetGroup gives the process a group of its own, so that its children end with
// it.
func SetGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks a process and its children to end.
func Terminate(p *os.Process) error { return signalGroup(p, syscall.SIGTERM) }

// KillGroup ends what is left of a process group. The process itself may have
// been waited for: its group keeps the number while it has members.
func KillGroup(p *os.Process) { _ = signalGroup(p, syscall.SIGKILL) }

func signalGroup(p *os.Process, signal syscall.Signal) error {
	err := syscall.Kill(-p.Pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
