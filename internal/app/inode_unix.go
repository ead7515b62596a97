//go:build unix

package app

import (
	"io/fs"
	"syscall"
)

// inode returns the number that a file has on its disk.
func inode(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Ino)
	}
	return 0
}
