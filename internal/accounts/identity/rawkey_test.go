package identity

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestNewRawKey(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^svc_[A-Za-z0-9]{8}_[A-Za-z0-9]{32}$`)
	seen := map[RawKey]bool{}
	letters := map[byte]bool{}
	for range 1000 {
		key := NewRawKey()
		if !form.MatchString(string(key)) || seen[key] {
			t.Fatalf("key %q", string(key))
		}
		seen[key] = true
		if parsed, ok := ParseRawKey(string(key)); !ok || parsed != key || parsed.Prefix() != string(key[4:12]) {
			t.Fatalf("%q is not read back", string(key))
		}
		for i := range key[4:] {
			letters[key[4+i]] = true
		}
	}
	if len(letters) != len(keyLetters)+1 {
		t.Errorf("only %d letters occur", len(letters))
	}
}

func TestParseRawKeyRefuses(t *testing.T) {
	t.Parallel()
	good := string(NewRawKey())
	for _, s := range []string{
		"", "svc_", good[:len(good)-1], good + "a", "abc_" + good[4:], strings.Replace(good, "_", "-", 2),
		good[:20] + "_" + good[21:], good[:20] + "é" + good[22:], good[:20] + " " + good[21:], good[:5] + "_" + good[6:],
	} {
		if _, ok := ParseRawKey(s); ok {
			t.Errorf("%q was read as a key", s)
		}
	}
}

func FuzzParseRawKey(f *testing.F) {
	f.Add("svc_abcdefgh_abcdefghijklmnopqrstuvwxyz012345")
	f.Add("svc_________________________________________")
	form := regexp.MustCompile(`\Asvc_[A-Za-z0-9]{8}_[A-Za-z0-9]{32}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		if _, ok := ParseRawKey(s); ok != form.MatchString(s) {
			t.Errorf("%q: %v", s, ok)
		}
	})
}

func TestRawKeyIsNotSeen(t *testing.T) {
	t.Parallel()
	key := NewRawKey()
	made := CreatedKey{APIKey: APIKey{KeyID: "k1"}, RawKey: key}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "key", key, "made", made, "at", &made)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "key", key, "made", made, "at", &made)
	fmt.Fprintf(&log, "%s %v %q %x %d %#v %+v", key, key, key, key, key, key, Grant{RawKey: key})
	if strings.Contains(log.String(), string(key[13:])) || strings.Contains(log.String(), fmt.Sprintf("%x", string(key[13:]))) {
		t.Errorf("the secret is seen in %s", log.String())
	}
	answer, err := json.Marshal(made)
	if err != nil || !strings.Contains(string(answer), `"raw_key":"`+string(key)+`"`) {
		t.Errorf("the answer must show it: %s, %v", answer, err)
	}
}
