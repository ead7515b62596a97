package config

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
)

// masterKey returns the only secret key.
func masterKey(c *Config) ([]byte, error) {
	keys, err := c.MasterKeys()
	if err != nil || len(keys) != 1 {
		return nil, fmt.Errorf("%d keys: %w", len(keys), err)
	}
	return keys[0], nil
}

func TestMasterKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "here")
	cfg := Config{Storage: Storage{DataDir: dir}}

	keys := make([][]byte, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := masterKey(&cfg)
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
		got, err := masterKey(&cfg)
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
	_, err := (&Config{Storage: Storage{DataDir: dir}}).MasterKeys()
	if err == nil || !strings.Contains(err.Error(), "secret key in") {
		t.Errorf("a spoilt key file must be refused, not replaced: %v", err)
	}
}

func TestSeveralMasterKeys(t *testing.T) {
	t.Parallel()
	one, two := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)), base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, 32))
	want := [][]byte{bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)}
	for _, text := range []string{one + "," + two, one + ", " + two + "\n", one + "\n" + two + "\n", "\r\n" + one + "\r\n" + two} {
		dir := t.TempDir()
		given := Config{Storage: Storage{DataDir: dir}, Security: Security{SecretKey: secret.New(text)}}
		if err := os.WriteFile(filepath.Join(dir, keyFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []Config{given, {Storage: Storage{DataDir: dir}}} {
			got, err := cfg.MasterKeys()
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%q: %v %s", text, err, diff)
			}
		}
	}
	for text, says := range map[string]string{
		one + "," + one:                    "the same key twice",
		one + ",eHg=":                      "must hold 32",
		" , ":                              "is empty",
		strings.Repeat(one+",", maxKeys+1): "holds 9 keys",
	} {
		_, err := (&Config{Security: Security{SecretKey: secret.New(text)}}).MasterKeys()
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), one) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
