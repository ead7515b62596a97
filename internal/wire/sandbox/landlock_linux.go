//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemDirs hold programs and libraries, never what agentd stores.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"}

// systemFiles are what programs read to run, to find hosts and to check
// certificates. The rest of /etc may hold secrets.
var systemFiles = []string{
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
	"/etc/debian_version", "/etc/gai.conf", "/etc/group", "/etc/host.conf", "/etc/hosts", "/etc/java",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/locale.alias", "/etc/localtime",
	"/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust",
	"/etc/pki/tls/certs", "/etc/protocols", "/etc/python3", "/etc/resolv.conf", "/etc/services", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/terminfo", "/etc/timezone", "/run/systemd/resolve", "/sys/devices/system/cpu",
	"/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
}

// processFiles are the files of /proc that are of no other process.
var processFiles = []string{
	"/proc/self", "/proc/thread-self", "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime",
	"/proc/version", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/random", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/pipe-max-size",
	"/proc/sys/kernel/ngroups_max", "/proc/sys/kernel/cap_last_cap", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max",
}

// devices can be read and written by all.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

const (
	readFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readTree = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// writeFile is what a rule for a single file may allow beside reading.
	writeFile = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// all is every right to files that a version up to 5 knows.
	all = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1

	missingLandlock = "Landlock (Linux 5.13): commands can read what all users can read"
	// scopesABI is the version of Landlock that bounds signals and sockets without a path.
	scopesABI = 6
)

var errNoRuleset = errors.New("no Landlock")

// ruleset is what a process may do with files.
type ruleset struct {
	fd, abi int
	handled uint64
}

// landlock returns the rules of a command.
func (o *order) landlock() (*ruleset, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return nil, errNoRuleset
	}
	r := &ruleset{abi: int(abi), handled: all}
	for version, right := range map[int]uint64{
		2: unix.LANDLOCK_ACCESS_FS_REFER, 3: unix.LANDLOCK_ACCESS_FS_TRUNCATE, 5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	} {
		if r.abi < version {
			r.handled &^= right
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: r.handled}
	if r.abi >= scopesABI {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
		uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0) //nolint:gosec // the kernel takes a pointer
	if errno != 0 {
		return nil, fmt.Errorf("landlock: %w", errno)
	}
	r.fd = int(fd)
	return r, r.allowAll(o)
}

func (r *ruleset) allowAll(o *order) error {
	proc := processFiles
	if o.ownProc {
		proc = []string{"/proc"} // it shows the command's own processes alone
	}
	var errs []error
	for _, list := range [][]string{systemDirs, systemFiles, proc, o.Read} {
		for _, path := range list {
			errs = append(errs, r.allow(path, readTree))
		}
	}
	for _, path := range devices {
		errs = append(errs, r.allow(path, readFile|writeFile))
	}
	return errors.Join(append(errs, r.allow(o.Dir, all))...)
}

// allow permits rights to a file or to everything beneath a directory. What is
// not there needs none.
func (r *ruleset) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= readFile | writeFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0) //nolint:gosec // the kernel takes a pointer
	if errno != 0 {
		return fmt.Errorf("landlock: %s: %w", path, errno)
	}
	return nil
}

// restrict binds the thread, and what it becomes, to the rules.
func (r *ruleset) restrict() error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	return nil
}
