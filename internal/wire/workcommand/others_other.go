//go:build !linux

package workcommand

// endOthers does nothing where there is no sandbox.
func endOthers() {}

// reserveThreads does nothing where there is no sandbox.
func reserveThreads() (restore func()) { return func() {} }
