package secret

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestSecretsPrintRedacted(t *testing.T) {
	t.Parallel()
	s := New("hunter2")
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", s, "in", struct{ Key String }{s})
	enc, err := json.Marshal(map[string]any{"key": s, "in": struct{ Key String }{s}})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{log.String(), string(enc)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		printed = append(printed, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, struct{ Key String }{s}))
	}
	for _, p := range printed {
		if strings.Contains(p, "hunter2") || strings.Contains(p, "68756e74657232") {
			t.Errorf("printed as %s", p)
		}
	}
	if s.Reveal() != "hunter2" || s.Empty() || !New("").Empty() {
		t.Error("the secret is not what was wrapped")
	}
}

func box(t *testing.T, key byte) *Box {
	t.Helper()
	b, err := NewBox(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealedValuesOpenWhereTheyBelong(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	for _, plain := range []string{"", "x", strings.Repeat("long ", 1000)} {
		sealed := b.Seal([]byte(plain), "tenant/row")
		if got, err := b.Open(sealed, "tenant/row"); err != nil || string(got) != plain {
			t.Errorf("%q opens as %q, %v", plain, got, err)
		}
		if bytes.Equal(sealed, b.Seal([]byte(plain), "tenant/row")) {
			t.Error("sealing twice gives the same bytes")
		}
		if _, err := b.Open(sealed, "tenant/other"); err == nil {
			t.Error("a value was moved to another row")
		}
		if _, err := box(t, 2).Open(sealed, "tenant/row"); err == nil {
			t.Error("another deployment opens it")
		}
		for i := range min(len(sealed), 40) {
			spoilt := bytes.Clone(sealed)
			spoilt[i] ^= 1
			if _, err := b.Open(spoilt, "tenant/row"); err == nil {
				t.Errorf("byte %d can be changed", i)
			}
		}
	}
	if _, err := b.Open([]byte("short"), ""); err == nil {
		t.Error("what is too short opens")
	}
	if _, err := NewBox(make([]byte, 31)); err == nil {
		t.Error("a short key is taken")
	}
}

func TestPurposesHaveKeysOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	if bytes.Equal(b.Derive("a"), b.Derive("b")) || bytes.Equal(b.Derive("a"), box(t, 2).Derive("a")) {
		t.Error("two purposes or deployments share a key")
	}
	if !bytes.Equal(b.Derive("a"), b.Derive("a")) || len(b.Derive("a")) != 32 {
		t.Error("a derived key is not stable or not 32 bytes")
	}
}
