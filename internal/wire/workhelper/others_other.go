//go:build !linux

package workhelper

import "os/exec"

// endOthers does nothing where there is no sandbox.
func endOthers() {}

// reserveThreads does nothing where there is no sandbox.
func reserveThreads() (restore func()) { return func() {} }

// inSession does nothing where there is no sandbox.
func inSession(*exec.Cmd) {}

// keepSignals does nothing where there is no sandbox.
func keepSignals() {}
