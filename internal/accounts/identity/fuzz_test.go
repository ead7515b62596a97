package identity

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/secret"
)

func FuzzParseRawSession(f *testing.F) {
	f.Add(string(NewRawSession()))
	f.Add("svs_____________________________________________")
	form := regexp.MustCompile(`\Asvs_[A-Za-z0-9]{12}_[A-Za-z0-9]{32}\z`)
	f.Fuzz(func(t *testing.T, s string) {
		raw, ok := ParseRawSession(s)
		if ok != form.MatchString(s) {
			t.Errorf("%q: %v", s, ok)
		}
		if _, key := ParseRawKey(s); key && ok {
			t.Errorf("%q is both a key and a session", s)
		}
		if ok && (raw.Prefix() != s[4:16] || raw.Hash() == Hash{}) {
			t.Errorf("%q has the prefix %q", s, raw.Prefix())
		}
	})
}

// Whoever opens a token gets what was sealed; nothing else opens.
func FuzzOpenStreamToken(f *testing.F) {
	deployment, err := secret.NewBox(make([]byte, 32)) // the same in every process that fuzzes
	if err != nil {
		f.Fatal(err)
	}
	box := streamBox(deployment)
	made := streamToken{
		who: authz.Caller{TenantID: "t", UserID: "u", SessionID: "s"}, scopes: 5, expires: time.UnixMicro(1_789_041_660_000_001).UTC(),
	}
	sealed, _ := cutStreamToken(made.seal(box))
	for _, plain := range []string{"", "short", "\x0512345678", "\x0512345678a/b/c", "\x0512345678a/b/c/d/e"} {
		f.Add(tokenText.EncodeToString(box.Seal([]byte(plain), streamTokenForm)))
	}
	f.Add(sealed)
	f.Add(tokenText.EncodeToString(box.Seal([]byte("\x0512345678a/b/c/d"), "another form")))
	f.Add(sealed[:40] + "\r\n" + sealed[40:])
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := openStreamToken(box, s)
		if !ok {
			return
		}
		if got.scopes != made.scopes || !got.expires.Equal(made.expires) || got.who.TenantID != "t" || got.who.UserID != "u" ||
			got.who.KeyID != "" || got.who.SessionID != "s" {
			t.Errorf("%q is a forgery of %+v", s, got)
		}
	})
	if strings.Contains(sealed, "=") {
		f.Error("padding")
	}
}
