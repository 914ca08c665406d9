package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// EndWithNode lets the kernel kill the process when this one dies, so that a
// program never goes on while the next node runs its turn again. What counts
// there is the thread that starts the process, so the goroutine stays on it
// until release is called, after the process has been waited for.
func EndWithNode(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}
