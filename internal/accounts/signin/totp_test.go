package signin_test

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/accounts/signin"
)

// The vectors of RFC 6238, appendix B, cut to six digits.
func TestRFC6238(t *testing.T) {
	t.Parallel()
	secrets := map[signin.Algorithm]string{
		signin.SHA1: "12345678901234567890", signin.SHA256: "12345678901234567890123456789012",
		signin.SHA512: strings.Repeat("1234567890", 6) + "1234",
	}
	for _, tt := range []struct {
		at   int64
		alg  signin.Algorithm
		want string
	}{
		{59, signin.SHA1, "94287082"}, {59, signin.SHA256, "46119246"}, {59, signin.SHA512, "90693936"},
		{1111111109, signin.SHA1, "07081804"}, {1111111109, signin.SHA256, "68084774"}, {1111111109, signin.SHA512, "25091201"},
		{1111111111, signin.SHA1, "14050471"}, {1111111111, signin.SHA256, "67062674"}, {1111111111, signin.SHA512, "99943326"},
		{1234567890, signin.SHA1, "89005924"}, {1234567890, signin.SHA256, "91819424"}, {1234567890, signin.SHA512, "93441116"},
		{2000000000, signin.SHA1, "69279037"}, {2000000000, signin.SHA256, "90698825"}, {2000000000, signin.SHA512, "38618901"},
		{20000000000, signin.SHA1, "65353130"}, {20000000000, signin.SHA256, "77737706"}, {20000000000, signin.SHA512, "47863826"},
	} {
		if got := signin.CodeAt(tt.alg, []byte(secrets[tt.alg]), time.Unix(tt.at, 0)); got != tt.want[2:] {
			t.Errorf("%s at %d: %s, want %s", tt.alg, tt.at, got, tt.want[2:])
		}
	}
}
