package sqldb

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// ErrDirLocked says that another process has the data directory.
var ErrDirLocked = errors.New("another agentd serves from this data directory; stop it, or choose another directory")

// LockDir takes a data directory for this process alone, until release or the
// process's end. It is for the server: the command line writes to the same
// database beside it.
func LockDir(dir string) (release func() error, err error) {
	lock, err := lockIn(dir, "serve.lock")
	if err != nil {
		return nil, err
	}
	if taken, err := lock.TryLock(); err != nil || !taken {
		return nil, cmp.Or(err, fmt.Errorf("%w: %s", ErrDirLocked, dir))
	}
	return lock.Unlock, nil
}

// lockToMigrate waits until no other process migrates the database in dir.
func lockToMigrate(dir string) (release func() error, err error) {
	lock, err := lockIn(dir, "migrate.lock")
	if err != nil {
		return nil, err
	}
	return lock.Unlock, lock.Lock()
}

func lockIn(dir, name string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return flock.New(filepath.Join(dir, name), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600)), nil
}
