package workhelper

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"agentd/internal/wire/sandbox"
)

// hangUpTime is how long a shell has to end by itself when its line is cut.
const hangUpTime = time.Second

// helpTerminal runs a shell at the terminal that the helper was given.
func helpTerminal(in io.Reader, out io.Writer) error {
	keepSignals()
	r, sent, err := unpack(in)
	if err != nil {
		return err
	}
	tty := os.NewFile(sandbox.TerminalFD, "terminal")
	cmd := shell()
	cmd.Dir = filepath.FromSlash(filepath.Join(".", r.Dir))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	inSession(cmd)
	restore := reserveThreads()
	err = cmd.Start()
	restore()
	tty.Close()
	if err != nil {
		return handOver(out, sent, &Answer{Failed: err.Error(), ExitCode: -1})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state says how it ended
	}()
	orders := make(chan byte)
	go readOrders(in, orders)
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case order, ok := <-orders:
			if !ok {
				hangUp(cmd, ended)
				going = false
			} else if order == SaveOrder {
				if err := handOver(out, sent, &Answer{More: true}); err != nil {
					return err
				}
			}
		}
	}
	endOthers()
	return handOver(out, sent, &Answer{ExitCode: exitCode(cmd.ProcessState)})
}

// shell is the best shell of the machine. Files of the system that configure it cannot be
// read, and it shall leave no history behind in the workspace.
func shell() *exec.Cmd {
	cmd := exec.Command("sh") //nolint:noctx // it ends with the helper
	if path, err := exec.LookPath("bash"); err == nil {
		cmd = exec.Command(path, "--noprofile", "--norc", "-i") //nolint:noctx // it ends with the helper
	}
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "SHELL="+cmd.Path, `PS1=\w $ `,
		"HISTFILE=/dev/null", "LESSHISTFILE=-", "PYTHON_HISTORY=/dev/null")
	if filepath.Base(cmd.Path) == "sh" {
		cmd.Env = append(cmd.Env, "PS1=$ ")
	}
	return cmd
}

// readOrders is a goroutine, which ends with the helper.
func readOrders(in io.Reader, orders chan<- byte) {
	defer close(orders)
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(in, one); err != nil {
			return
		}
		orders <- one[0]
	}
}

// hangUp ends the shell, as the end of a line does.
func hangUp(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGHUP) // it may have ended
	select {
	case <-ended:
		return
	case <-time.After(hangUpTime):
	}
	endOthers()
	_ = cmd.Process.Kill() // it may have ended
	<-ended
}

// exitCode is that of a shell; one that a signal ended has 128 and the signal's number, as
// shells say.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
