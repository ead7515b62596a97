package config

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentd/internal/base/secret"
)

func TestMasterKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "here")
	cfg := Config{Storage: Storage{DataDir: dir}}

	keys := make([][]byte, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := cfg.MasterKey()
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, key := range keys {
		if len(key) != 32 || !bytes.Equal(key, keys[0]) {
			t.Fatalf("keys differ: %x and %x", key, keys[0])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("drafts were left behind: %v", entries)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, keyFile): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %o, want %o", path, got, want)
		}
	}
}

func TestMasterKeyGiven(t *testing.T) {
	t.Parallel()
	want := bytes.Repeat([]byte{0xfb}, 32)
	dir := t.TempDir()
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		cfg := Config{Storage: Storage{DataDir: dir}, Security: Security{SecretKey: secret.New(enc.EncodeToString(want) + "\n")}}
		got, err := cfg.MasterKey()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %x, %v", got, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("a key that was given must not touch the disk: %v", entries)
	}
}

func TestMasterKeySpoilt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, keyFile), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (&Config{Storage: Storage{DataDir: dir}}).MasterKey()
	if err == nil || !strings.Contains(err.Error(), "secret key in") {
		t.Errorf("a spoilt key file must be refused, not replaced: %v", err)
	}
}
