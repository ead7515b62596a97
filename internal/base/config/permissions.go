package config

import (
	"os"
	"path/filepath"
	"runtime"
)

// ReadableByOthers returns which of a data directory and the secret key in it
// others than their owner can read. The modes of Windows do not say.
func ReadableByOthers(dir string) (paths []string) {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, path := range []string{dir, filepath.Join(dir, keyFile)} {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// ExposedFiles returns the configured files with keys that everybody on the machine
// can read. A group may: certificates are often shared with one.
func (c *Config) ExposedFiles() (paths []string) {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, path := range []string{c.Server.TLSKey, c.Models.Providers, c.SignIn.OIDCProviders, c.Security.MCPStdioCommands} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
			paths = append(paths, path)
		}
	}
	return paths
}
