package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"agentd/internal/base/secret"
)

// keyFile is the file in the data directory with the deployment's secret key.
const keyFile = "secret.key"

// MasterKeys returns the deployment's 32-byte secret keys: AGENTD_SECRET_KEY, or
// those in the data directory, where the first caller creates one. The first key
// seals. Processes that start at the same moment get the same key.
func (c *Config) MasterKeys() ([][]byte, error) { return SecretKeys(c.Security.SecretKey, c.Storage) }

// SecretKeys is MasterKeys for a program that has only these settings.
func SecretKeys(configured secret.String, storage Storage) ([][]byte, error) {
	if !configured.Empty() {
		keys, err := decodeKeys(configured.Reveal())
		if err != nil {
			return nil, fmt.Errorf("AGENTD_SECRET_KEY %w", err)
		}
		return keys, nil
	}
	if err := storage.MakeDataDir(); err != nil {
		return nil, err
	}
	path := filepath.Join(storage.DataDir, keyFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the secret key cannot be read or made: %w", err)
	}
	keys, err := decodeKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("the secret key in %s %w", path, err)
	}
	return keys, nil
}

// MakeDataDir creates the data directory if it does not exist, accessible to
// its owner only.
func (s *Storage) MakeDataDir() error {
	if err := os.MkdirAll(s.DataDir, 0o700); err != nil {
		return fmt.Errorf("the data directory cannot be made: %w", err)
	}
	return nil
}

// makeKey writes a new key to path, or returns the one that another process
// wrote there first. A hard link either creates the complete file or fails, so
// that no reader ever sees half a key; a rename would replace the other's key.
func makeKey(path string) ([]byte, error) {
	draft, err := os.CreateTemp(filepath.Dir(path), ".secret-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // only the link stays
	key := make([]byte, 32)
	rand.Read(key)
	text := []byte(base64.StdEncoding.EncodeToString(key) + "\n")
	_, err = draft.Write(text)
	err = errors.Join(err, draft.Sync(), draft.Close())
	if err != nil {
		return nil, err
	}
	switch err := os.Link(draft.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return os.ReadFile(path)
	case err != nil:
		return nil, err
	}
	return text, syncDir(filepath.Dir(path))
}

// syncDir makes a new directory entry survive a power cut: without its key,
// sealed values are lost too.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // where directories cannot be synced
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// FoundSecretKeys is SecretKeys for a program that must not make a key: without one it
// returns none.
func FoundSecretKeys(configured secret.String, storage Storage) ([][]byte, error) {
	if configured.Empty() {
		if _, err := os.Stat(filepath.Join(storage.DataDir, keyFile)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	return SecretKeys(configured, storage)
}

// KeepSecretKeys writes secret keys into a data directory that has none.
func KeepSecretKeys(storage Storage, keys [][]byte) error {
	if err := storage.MakeDataDir(); err != nil {
		return err
	}
	path := filepath.Join(storage.DataDir, keyFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := f.WriteString(base64.StdEncoding.EncodeToString(key) + "\n"); err != nil {
			return errors.Join(err, f.Close(), os.Remove(path))
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return syncDir(storage.DataDir)
}
