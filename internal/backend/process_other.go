//go:build !linux

package backend

import "os/exec"

// endWithNode does nothing: there is no such service here, and a program that
// outlives its node ends at its next output.
func endWithNode(*exec.Cmd) (release func()) { return func() {} }
