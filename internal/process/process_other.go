//go:build !linux

package process

import "os/exec"

// EndWithNode does nothing: there is no such service here, and a program that
// outlives its node ends at its next output.
func EndWithNode(*exec.Cmd) (release func()) { return func() {} }
