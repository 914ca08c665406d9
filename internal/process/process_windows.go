package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// inherited are further environment variables that programs need here.
var inherited = []string{"SystemRoot", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA"}

// SetGroup separates the process from the console events of the node.
func SetGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Terminate ends the process and its children. There is no signal here that
// asks every kind of program.
func Terminate(p *os.Process) error {
	taskkill := filepath.Join(os.Getenv("SystemRoot"), "System32", "taskkill.exe")
	if exec.Command(taskkill, "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() == nil {
		return nil
	}
	return p.Kill()
}

// KillGroup does nothing: children can be found only while their parent runs.
func KillGroup(*os.Process) {}
