//go:build unix

package backend

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// inheritedBySystem are further environment variables that programs need here.
var inheritedBySystem []string

// setGroup gives the process a group of its own, so that its children end with
// it.
func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the process and its children to end.
func terminate(p *os.Process) error { return signalGroup(p, syscall.SIGTERM) }

// killGroup ends what is left of a process group. The process itself may have
// been waited for: its group keeps the number while it has members.
func killGroup(p *os.Process) { _ = signalGroup(p, syscall.SIGKILL) }

func signalGroup(p *os.Process, signal syscall.Signal) error {
	err := syscall.Kill(-p.Pid, signal)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
