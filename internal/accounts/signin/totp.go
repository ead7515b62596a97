package signin

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // authenticator apps know little else, and an HMAC of it holds (RFC 6238)
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash"
	"net/url"
	"strconv"
	"strings"
	"time"

	"agentd/internal/base/secret"
)

// Time-based one-time passwords (RFC 6238): six digits that change every 30
// seconds. These forty lines, tested with the RFC's vectors, replace a module
// that would bring an image library with it.

// Algorithm of a second factor, by its name in the API.
type Algorithm string

// The algorithms. All authenticator apps support the first, some the others.
const (
	SHA1   Algorithm = "SHA-1"
	SHA256 Algorithm = "SHA-256"
	SHA512 Algorithm = "SHA-512"
)

const (
	stepTime   = 30 * time.Second
	stepWindow = 1 // steps before and after, for clock differences and typing time
)

// hash returns the hash function, the length of its secrets (equal to its
// output's, RFC 4226 section 4) and its name in an otpauth URL.
func (a Algorithm) hash() (f func() hash.Hash, size int, name string) {
	switch a {
	case SHA256:
		return sha256.New, sha256.Size, "SHA256"
	case SHA512:
		return sha512.New, sha512.Size, "SHA512"
	}
	return sha1.New, sha1.Size, "SHA1"
}

var secretText = base32.StdEncoding.WithPadding(base32.NoPadding)

func newFactorSecret(a Algorithm) []byte {
	_, size, _ := a.hash()
	return secret.Random(size)
}

func stepAt(t time.Time) int64 { return t.Unix() / int64(stepTime/time.Second) }

// codeAt returns the code of a time step (RFC 4226 section 5.3).
func codeAt(a Algorithm, secret []byte, step int64) string {
	f, _, _ := a.hash()
	mac := hmac.New(f, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0x0f
	number := binary.BigEndian.Uint32(sum[offset:]) & 0x7fffffff
	return fmt.Sprintf("%06d", number%1_000_000)
}

// match returns the step that a code belongs to. Only steps after the last
// accepted one match, so that no code is accepted twice. The time it takes does
// not depend on the code.
func match(a Algorithm, secret []byte, code string, now time.Time, last int64) (step int64, ok bool) {
	for d := int64(-stepWindow); d <= stepWindow; d++ {
		at := stepAt(now) + d
		same := subtle.ConstantTimeCompare([]byte(codeAt(a, secret, at)), []byte(code)) == 1
		if same && at > last {
			step, ok = at, true
		}
	}
	return step, ok
}

// otpauthURL returns the content of the QR code that authenticator apps scan.
func otpauthURL(a Algorithm, secret []byte, issuer, label string) string {
	_, _, name := a.hash()
	q := url.Values{
		"secret": {secretText.EncodeToString(secret)}, "issuer": {issuer}, "algorithm": {name},
		"digits": {"6"}, "period": {strconv.Itoa(int(stepTime / time.Second))},
	}
	// Apps do not decode a plus sign as a space.
	u := url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + label, RawQuery: strings.ReplaceAll(q.Encode(), "+", "%20")}
	return u.String()
}
