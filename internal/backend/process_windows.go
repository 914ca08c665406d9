package backend

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// inheritedBySystem are further environment variables that programs need here.
var inheritedBySystem = []string{"SystemRoot", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA"}

// setGroup separates the process from the console events of the node.
func setGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate ends the process and its children. There is no signal here that
// asks every kind of program.
func terminate(p *os.Process) error {
	taskkill := filepath.Join(os.Getenv("SystemRoot"), "System32", "taskkill.exe")
	if exec.Command(taskkill, "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() == nil {
		return nil
	}
	return p.Kill()
}

// killGroup does nothing: children can be found only while their parent runs.
func killGroup(*os.Process) {}
