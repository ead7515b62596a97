//go:build !unix

package app

import "io/fs"

// inode returns 0: files have no such number here.
func inode(fs.FileInfo) int64 { return 0 }
