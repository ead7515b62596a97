package sqldb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrDirLocked says that another process has the data directory.
var ErrDirLocked = errors.New("another agentd serves from this data directory; stop it, or choose another directory")

// LockDir takes a data directory for this process alone, until release or the
// process's end. It is for the server: the command line writes to the same
// database beside it.
func LockDir(dir string) (release func() error, err error) {
	return lockFile(dir, "serve.lock", syscall.LOCK_NB)
}

func lockFile(dir, name string, flags int) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|flags); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrDirLocked, dir)
		}
		return nil, err
	}
	return func() error { // a child that is being started has a copy of f for a moment, which closing f leaves locked
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}
