package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"agentd/internal/base/secret"
)

// URL is an address that may carry a password: every printed form redacts it,
// and only Reveal returns the whole.
type URL struct{ raw string }

// NewURL wraps an address.
func NewURL(raw string) URL { return URL{raw} }

// Reveal returns the address with its password.
func (u URL) Reveal() string { return u.raw }

// Empty reports whether there is no address.
func (u URL) Empty() bool { return u.raw == "" }

// UnmarshalText implements encoding.TextUnmarshaler. It accepts any text, so
// that no error message of a parser quotes a password; Validate checks it.
func (u *URL) UnmarshalText(text []byte) error {
	u.raw = string(text)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

var (
	userinfo  = regexp.MustCompile(`//[^/?#@]*@`)
	passwords = regexp.MustCompile(`(?i)([?&][a-z_]*(?:password|token)=)[^&]*`)
)

func (u URL) String() string {
	if u.raw == "" {
		return ""
	}
	for _, one := range u.list() {
		// A text that is not an address might hold its password anywhere.
		if _, err := url.Parse(one); err != nil || strings.Count(one, "@") > 1 || !strings.Contains(one, "://") {
			return secret.Redacted
		}
	}
	shown := userinfo.ReplaceAllLiteralString(u.raw, "//"+secret.Redacted+"@")
	return passwords.ReplaceAllString(shown, "${1}"+secret.Redacted)
}

// GoString implements fmt.GoStringer.
func (u URL) GoString() string { return u.String() }

// list splits "nats://a,nats://b", and keeps "postgres://a,b/name" whole.
func (u URL) list() []string {
	parts := strings.Split(u.raw, ",")
	out := parts[:1]
	for _, p := range parts[1:] {
		if strings.Contains(p, "://") {
			out = append(out, p)
		} else {
			out[len(out)-1] += "," + p
		}
	}
	return out
}

// hostful addresses name a host; hostless ones need not, as those of a database
// behind a socket.
const (
	hostful  = true
	hostless = false
)

// check returns an error unless the address has one of the schemes. The error
// does not quote the address.
func (u URL) check(host bool, schemes ...string) error {
	for _, one := range u.list() {
		if err := checkURL(one, host, schemes...); err != nil {
			return err
		}
	}
	return nil
}

func checkURL(raw string, host bool, schemes ...string) error {
	want := strings.Join(schemes, ":// or ") + "://"
	at, err := url.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("is no address; it must begin with %s", want)
	case !slices.Contains(schemes, at.Scheme) || at.Opaque != "":
		return fmt.Errorf("must begin with %s", want)
	case host && at.Host == "":
		return errors.New("names no host")
	}
	return nil
}
