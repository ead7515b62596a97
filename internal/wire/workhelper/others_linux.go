package workhelper

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// reserved are the threads that a program may not have, so that the helper, which is
// of the same user, has them when it needs them.
const reserved = 24

// reserveThreads lowers the number of processes that a program may have which is
// started before the returned function is called.
func reserveThreads() (restore func()) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil || limit.Cur <= 2*reserved {
		return func() {}
	}
	_ = syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: limit.Cur - reserved, Max: limit.Max}) // it is lower than what is allowed
	return func() { _ = syscall.Setrlimit(unix.RLIMIT_NPROC, &limit) }
}

// endOthers ends every other process of the helper's namespace. Without one the
// sandbox ends them with the helper.
func endOthers() {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL) // there may be none
	}
}

// inSession makes the shell the first process of a session at its terminal. Without
// namespaces the sandbox has done that for the helper, and the shell has no jobs.
func inSession(cmd *exec.Cmd) {
	if os.Getpid() == 1 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	}
}

// keepSignals keeps what is typed, and the end of the line, from ending the helper where
// it is in the session of the shell.
func keepSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
}
