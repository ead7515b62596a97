//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"
)

// childArg is the one argument of a process that becomes a command.
const childArg = "sandbox-exec"

// The pipes of a child, which end with its becoming the command.
const (
	orderFD  = 3
	answerFD = 4
)

// init turns the process into a sandboxed command if Start made it for that. It does not
// wait for main, because the program's other packages, whose tables take longer to set up
// than everything else that a start needs, are initialized after this one, which imports
// little.
func init() { //nolint:gochecknoinits // see above
	if len(os.Args) != 2 || os.Args[1] != childArg {
		return
	}
	// Privileges belong to a thread; the thread that calls exec stays.
	runtime.LockOSThread()
	missing, err := become()
	answer := report{Missing: missing}
	if err != nil {
		answer.Error = err.Error()
	}
	text, err := json.Marshal(answer)
	if err == nil {
		_, err = unix.Write(answerFD, text)
	}
	if err != nil || answer.Error != "" {
		os.Exit(1)
	}
	os.Exit(0)
}

// become returns only on an error, and from a probe.
func become() (missing []string, err error) {
	orders := os.NewFile(orderFD, "orders")
	text, err := io.ReadAll(orders)
	if err != nil {
		return nil, fmt.Errorf("%s is for agentd itself: %w", childArg, err)
	}
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	if err := o.enter(); err != nil {
		return nil, err
	}
	fs, err := o.landlock() // with the rights to open what it may read
	switch {
	case errors.Is(err, errNoRuleset):
		missing = append(missing, missingLandlock)
	case err != nil:
		return nil, err
	case fs.abi < scopesABI && !o.Namespaces:
		missing = append(missing, "Landlock scopes (Linux 6.12): commands can send signals to agentd")
	}
	filter := o.filter()
	if err := o.dropPrivileges(); err != nil {
		return nil, err
	}
	if err := o.dieWithParent(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("no_new_privs: %w", err)
	}
	if fs != nil {
		if err := fs.restrict(); err != nil {
			return nil, err
		}
	}
	if err := unix.CloseRange(orderFD, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for fd := orderFD; fd < 256; fd++ { // before Linux 5.11
			unix.CloseOnExec(fd)
		}
	}
	if o.Terminal {
		if _, err := unix.FcntlInt(TerminalFD, unix.F_SETFD, 0); err != nil {
			return nil, fmt.Errorf("the terminal: %w", err)
		}
	}
	if err := o.setLimits(); err != nil {
		return nil, err
	}
	if err := filter.install(); err != nil {
		return nil, err
	}
	if o.Probe {
		return missing, nil
	}
	if err := syscall.Exec(o.Path, o.Argv, o.Env); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return nil, nil
}

// enter completes the namespaces and goes to the command's directory. A
// directory of its own file system bounds everything that is written together.
func (o *order) enter() error {
	if o.Namespaces && !o.SetUser {
		id := fmt.Sprintf("%d %d 1", o.UID, o.UID)
		gid := fmt.Sprintf("%d %d 1", o.GID, o.GID)
		for _, w := range [][2]string{{"setgroups", "deny"}, {"uid_map", id}, {"gid_map", gid}} {
			if err := os.WriteFile("/proc/self/"+w[0], []byte(w[1]), 0); err != nil {
				return err
			}
		}
	}
	if o.Namespaces {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("mounts of its own: %w", err)
		}
		options := fmt.Sprintf("size=%dm,nr_inodes=%d,mode=0700,uid=%d,gid=%d", o.Limits.DiskMiB, 16*1024, o.UID, o.GID)
		if err := unix.Mount("agentd", o.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
			return fmt.Errorf("a file system of its own: %w", err)
		}
		// Containers that hide parts of /proc allow no second one. Then the
		// first stays, of which Landlock shows little.
		o.ownProc = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") == nil
	}
	// The kernel that runs out of memory ends the command before agentd.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // it is a hint
	return os.Chdir(o.Dir)
}

// lastCapability is beyond what kernels have.
const lastCapability = 63

// dropPrivileges leaves nothing that exec could bring back.
func (o *order) dropPrivileges() error {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // fails where there are none
	for c := range uintptr(lastCapability + 1) {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // fails where there is nothing to drop
	}
	if !o.SetUser {
		return nil
	}
	if err := unix.Setgroups(nil); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if err := unix.Setresgid(o.GID, o.GID, o.GID); err != nil {
		return fmt.Errorf("group %d: %w", o.GID, err)
	}
	if err := unix.Setresuid(o.UID, o.UID, o.UID); err != nil {
		return fmt.Errorf("user %d: %w", o.UID, err)
	}
	return nil
}

var errOrphan = errors.New("agentd ended")

// dieWithParent has the kernel kill this process when agentd ends, and fails if
// that has happened: the pipe for the answer has no reader.
func (o *order) dieWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("to end with agentd: %w", err)
	}
	poll := []unix.PollFd{{Fd: answerFD}}
	if _, err := unix.Poll(poll, 0); err == nil && poll[0].Revents&unix.POLLERR != 0 {
		return errOrphan
	}
	return nil
}

// setLimits is called last, as it binds this process as well.
func (o *order) setLimits() error {
	const mib = 1 << 20
	for _, l := range []struct {
		name     string
		resource int
		max      int
	}{
		{"core", unix.RLIMIT_CORE, 0},
		{"cpu", unix.RLIMIT_CPU, o.Limits.CPUSeconds},
		{"file size", unix.RLIMIT_FSIZE, o.Limits.DiskMiB * mib},
		{"files", unix.RLIMIT_NOFILE, o.Limits.Files},
		{"locked memory", unix.RLIMIT_MEMLOCK, mib},
		{"messages", unix.RLIMIT_MSGQUEUE, 0},
		{"processes", unix.RLIMIT_NPROC, o.Limits.Processes},
		// Programs reserve addresses far beyond what they use (Go, Node); what
		// they may write to is what takes memory.
		{"memory", unix.RLIMIT_DATA, o.Limits.MemoryMiB * mib},
	} {
		limit := syscall.Rlimit{Cur: uint64(l.max), Max: uint64(l.max)}
		var old syscall.Rlimit
		if err := syscall.Getrlimit(l.resource, &old); err == nil && old.Max < limit.Max {
			limit = syscall.Rlimit{Cur: old.Max, Max: old.Max} // agentd's own is stricter
		}
		if err := syscall.Setrlimit(l.resource, &limit); err != nil {
			return fmt.Errorf("the limit of %s to %s: %w", l.name, strconv.Itoa(l.max), err)
		}
	}
	return nil
}
