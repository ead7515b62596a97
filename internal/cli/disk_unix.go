//go:build linux || darwin

package cli

import "golang.org/x/sys/unix"

// freeBytes returns the room for others than root on the disk of a directory.
func freeBytes(dir string) (uint64, bool) {
	var stat unix.Statfs_t
	if unix.Statfs(dir, &stat) != nil {
		return 0, false
	}
	return stat.Bavail * uint64(stat.Bsize), true
}
