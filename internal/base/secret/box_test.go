package secret

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
		for i := range min(len(sealed), 60) {
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
	if _, err := NewBox(); err == nil {
		t.Error("a box without a key is made")
	}
	if _, err := NewBox(make([]byte, 32), make([]byte, 32)); err == nil {
		t.Error("the same key is taken twice")
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

// formerly seals as it was done before values had a header.
func formerly(k *key, plain, context string) []byte {
	nonce := Random(k.opened.NonceSize())
	return k.opened.Seal(nonce, nonce, []byte(plain), []byte(context))
}

func TestKeysAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	master := func(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }
	before, err := NewBox(master(1))
	if err != nil {
		t.Fatal(err)
	}
	both, err := NewBox(master(2), master(1))
	if err != nil {
		t.Fatal(err)
	}
	after, err := NewBox(master(2))
	if err != nil {
		t.Fatal(err)
	}
	old, resealed := before.Seal([]byte("x"), "row"), both.Seal([]byte("x"), "row")
	for _, sealed := range [][]byte{old, resealed, formerly(before.keys[0], "x", "row")} {
		if plain, err := both.Open(sealed, "row"); err != nil || string(plain) != "x" {
			t.Errorf("%q, %v", plain, err)
		}
	}
	if id, ok := SealedWith(old); !ok || id != before.KeyIDs()[0] || id != both.KeyIDs()[1] {
		t.Errorf("the old value names %s, %v", id, ok)
	}
	if !bytes.HasPrefix(resealed, both.Header()) || bytes.HasPrefix(old, both.Header()) {
		t.Error("the first key does not seal")
	}
	if _, err := after.Open(resealed, "row"); err != nil {
		t.Error(err)
	}
	_, err = after.Open(old, "row")
	if unknown, ok := errors.AsType[*UnknownKeyError](err); !ok || unknown.ID != before.KeyIDs()[0] {
		t.Errorf("without the old key: %v", err)
	}
	if _, err := after.Open(formerly(before.keys[0], "x", "row"), "row"); err == nil {
		t.Error("a value without a header opens without its key")
	}
	if diff := cmp.Diff([][]byte{after.Derive("p"), before.Derive("p")}, both.DeriveAll("p")); diff != "" {
		t.Error(diff)
	}
}

func TestFormerContextsOpenFormerValuesOnly(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	if plain, err := b.Open(formerly(b.keys[0], "x", "all"), "row", "all"); err != nil || string(plain) != "x" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := b.Open(b.Seal([]byte("x"), "all"), "row", "all"); err == nil {
		t.Error("a value that is sealed today opens with a former context")
	}
}

// A value from before may begin with the mark by chance.
func TestFormerValueThatLooksMarked(t *testing.T) {
	t.Parallel()
	b := box(t, 1)
	for _, beginning := range []string{mark + "\x00\x00\x00\x00", string(b.Header())} {
		nonce := append([]byte(beginning), Random(b.keys[0].opened.NonceSize()-headerSize)...)
		sealed := b.keys[0].opened.Seal(nonce, nonce, []byte("x"), []byte("row"))
		if plain, err := b.Open(sealed, "row"); err != nil || string(plain) != "x" {
			t.Errorf("%q, %v", plain, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	b, err := NewBox(make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(nil))
	f.Add(b.Header())
	f.Add(b.Seal([]byte("x"), "elsewhere"))
	f.Fuzz(func(t *testing.T, sealed []byte) {
		if plain, err := b.Open(sealed, "here"); err == nil {
			t.Errorf("%x opens as %q", sealed, plain)
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	box, err := NewBox(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	plain := bytes.Repeat([]byte("x"), 2048) // as a run's answer that is kept for its repetition
	b.ReportAllocs()
	for b.Loop() {
		box.Seal(plain, "idempotency/tenant/user/key")
	}
}
