package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Archives of equal files are equal, whenever and under whichever umask they were written.
func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, text := filepath.Join(dir, "agentd"), filepath.Join(dir, "LICENSE")
	for _, kind := range []string{"tar.gz", "zip"} {
		var made [2][]byte
		for i, private := range []os.FileMode{0, 0o077} {
			for name, mode := range map[string]os.FileMode{program: 0o755, text: 0o644} {
				if err := os.WriteFile(name, []byte("of "+filepath.Base(name)), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(name, mode&^private); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(name, time.Time{}, time.Unix(int64(i), 0)); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(dir, "out."+kind)
			if err := run([]string{out, "agentd-v1", program, text}, "1700000000"); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			made[i] = content
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s: two archives of the same files differ", kind)
		}
		check := map[string]func(*testing.T, []byte){"tar.gz": checkTar, "zip": checkZip}[kind]
		check(t, made[0])
	}
}

func checkTar(t *testing.T, content []byte) {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unpacked)
	for _, want := range []struct {
		name string
		mode int64
	}{{"agentd-v1/agentd", 0o755}, {"agentd-v1/LICENSE", 0o644}} {
		h, err := archive.Next()
		if err != nil || h.Name != want.name || h.Mode != want.mode || h.Uid != 0 {
			t.Fatalf("%+v %v, want %+v", h, err, want)
		}
	}
	if _, err := archive.Next(); err != io.EOF {
		t.Error(err)
	}
}

func checkZip(t *testing.T, content []byte) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) != 2 || archive.File[0].Name != "agentd-v1/agentd" || archive.File[0].Mode().Perm() != 0o755 {
		t.Errorf("%+v", archive.File)
	}
}

func TestArchiveRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		args  []string
		epoch string
	}{
		"no file":      {[]string{filepath.Join(dir, "a.zip"), "d"}, "0"},
		"no time":      {[]string{filepath.Join(dir, "a.zip"), "d", "main.go"}, ""},
		"unknown file": {[]string{filepath.Join(dir, "a.zip"), "d", "none"}, "0"},
	} {
		if err := run(tt.args, tt.epoch); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("half an archive is left: %v", left)
	}
}
