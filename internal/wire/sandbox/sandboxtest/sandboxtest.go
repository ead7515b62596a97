// Package sandboxtest helps tests to run their own binary as a sandboxed command.
package sandboxtest

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Executable returns a path of the test binary that every user can run. Tests
// that run as root have commands run as another user, who cannot enter the
// directory that go test builds in.
func Executable(tb testing.TB) string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agentd-test-") //nolint:usetesting // other users must be able to go there
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, "command")
	if os.Link(self, path) == nil {
		return path
	}
	if err := copyFile(self, path); err != nil { // the directories are on different file systems
		tb.Fatal(err)
	}
	return path
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// MemoryMiB is a limit that a test binary keeps to, also with the race detector,
// which reserves more than machines have.
const MemoryMiB = 1 << 30
