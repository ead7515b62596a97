//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden are the calls that reach into other processes, change what the
// system is made of, or take memory that no limit counts. Programs that serve a
// protocol need none of them.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,

	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOVE_MOUNT,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_ACCT,

	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_LOOKUP_DCOOKIE,

	unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
}

// absent are the calls that programs do without where the kernel has none:
// memory files, which no limit counts, and two that a filter cannot look into.
var absent = []uint32{unix.SYS_MEMFD_CREATE, unix.SYS_IO_URING_SETUP, unix.SYS_CLONE3}

// namespaceFlags of clone make namespaces, in which a program has rights that it
// does not have here.
const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Answers of a filter.
const (
	allow  = unix.SECCOMP_RET_ALLOW
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unmade = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	family = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// program is a filter of system calls, in the instructions of the kernel
// (seccomp(2)). It loads a word of the call, compares it and answers.
type program []unix.SockFilter

// Places of a call's words in what a filter sees.
const (
	atNumber = 0
	atArch   = 4
)

// atArg is the lower half of an argument; both architectures are little-endian.
func atArg(n int) uint32 { return uint32(16 + 8*n) }

func (p *program) load(at uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}

func (p *program) answer(with uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with})
}

func (p *program) mask(with uint32) {
	*p = append(*p, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: with})
}

// unless skips the next instruction where the word that was loaded equals value.
func (p *program) unless(value uint32) { p.compare(value, 1, 0) }

// compare skips as many instructions as are given for a word that equals value,
// and for another. Programs here are short.
func (p *program) compare(value uint32, equal, other int) {
	*p = append(*p, unix.SockFilter{
		Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: uint8(equal), Jf: uint8(other), K: value,
	})
}

// call adds instructions that apply to one system call. They end with an answer.
func (p *program) call(number uint32, body func(*program)) {
	var part program
	body(&part)
	p.load(atNumber)
	p.compare(number, 0, len(part))
	*p = append(*p, part...)
}

// only allows a system call where an argument is one of some values.
func only(arg int, otherwise uint32, values ...uint32) func(*program) {
	return func(p *program) {
		p.load(atArg(arg))
		for i, v := range values {
			p.compare(v, len(values)-i, 0)
		}
		p.answer(otherwise)
		p.answer(allow)
	}
}

// filter returns the system calls of a command.
func (o *order) filter() program {
	var p program
	// Calls of another architecture have other numbers.
	p.load(atArch)
	p.unless(auditArch)
	p.answer(unix.SECCOMP_RET_KILL_PROCESS)
	p.otherNumbers()

	for _, number := range forbidden {
		p.call(number, func(p *program) { p.answer(refuse) })
	}
	for _, number := range absent {
		p.call(number, func(p *program) { p.answer(unmade) })
	}
	p.call(unix.SYS_CLONE, func(p *program) {
		p.load(atArg(0))
		p.mask(namespaceFlags)
		p.unless(0)
		p.answer(refuse)
		p.answer(allow)
	})
	// Memory that processes share is counted for none of them.
	p.call(unix.SYS_MMAP, func(p *program) {
		p.load(atArg(3))
		p.mask(unix.MAP_SHARED | unix.MAP_ANONYMOUS)
		p.compare(unix.MAP_SHARED|unix.MAP_ANONYMOUS, 0, 1)
		p.answer(refuse)
		p.answer(allow)
	})
	// Its own limits and priority, not those of a process of the same user.
	p.call(unix.SYS_PRLIMIT64, only(0, refuse, 0))
	p.call(unix.SYS_SETPRIORITY, func(p *program) {
		p.load(atArg(0))
		p.unless(unix.PRIO_PROCESS)
		p.answer(refuse)
		only(1, refuse, 0)(p)
	})
	p.call(unix.SYS_SOCKETPAIR, only(0, family, unix.AF_UNIX))
	if o.Offline {
		p.call(unix.SYS_SOCKET, func(p *program) { p.answer(family) })
	} else {
		// Not AF_UNIX: behind paths and abstract names are databases, container
		// engines and buses that trust the user.
		p.call(unix.SYS_SOCKET, only(0, family, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK))
	}
	if !o.Namespaces {
		// What stays in its process group can be killed with it; in a namespace
		// the kernel kills everything.
		p.call(unix.SYS_SETSID, func(p *program) { p.answer(refuse) })
		p.call(unix.SYS_SETPGID, func(p *program) { p.answer(refuse) })
		for _, number := range []uint32{
			unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR,
		} {
			p.call(number, only(0, refuse, 0))
		}
	}
	p.answer(allow)
	return p
}

// install binds the thread, and what it becomes, to the filter.
func (p program) install() error {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))) //nolint:gosec // the kernel takes a pointer
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
