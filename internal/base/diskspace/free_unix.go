//go:build linux || darwin

package diskspace

import "syscall"

// Free returns the room for others than root on the disk of a directory; known is
// false where the system does not say.
func Free(dir string) (bytes uint64, known bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil {
		return 0, false
	}
	return stat.Bavail * uint64(stat.Bsize), true
}
