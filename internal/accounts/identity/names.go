package identity

import (
	"fmt"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agentd/internal/base/fault"
)

const (
	maxNameLen = 200 // characters, of a name or an email address
	maxSlugLen = 64  // characters
)

// BadName returns what is wrong with the name of a tenant, a member or a key,
// and "" for a valid one.
func BadName(name string) string { return badName(name) }

// BadEmail returns what is wrong with an email address, which may be empty, and
// "" for a valid one.
func BadEmail(email string) string {
	_, message := readEmail(email)
	return message
}

// CheckName returns a 422 of the field name for an invalid name of a tenant or
// a person.
func CheckName(name string) error {
	if message := badName(name); message != "" {
		return fault.BadFields(fault.Field{Field: "name", Message: message})
	}
	return nil
}

func badName(name string) string {
	switch n := utf8.RuneCountInString(strings.TrimSpace(name)); {
	case n == 0:
		return "is required"
	case n > maxNameLen:
		return fmt.Sprintf("is longer than %d characters", maxNameLen)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "contains characters that cannot be shown"
	}
	return ""
}

// readEmail returns an address in the form in which it is stored, or what is
// wrong with it.
func readEmail(email string) (stored, message string) {
	if email = strings.TrimSpace(email); email == "" {
		return "", ""
	}
	message = badName(email) // before invalid bytes are replaced
	email = strings.ToLower(email)
	if at, err := mail.ParseAddress(email); err != nil || at.Address != email || message != "" {
		return "", "is not an email address"
	}
	return email, ""
}

var slugForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// badSlug returns what is wrong with a slug that a person chose.
func badSlug(s string) string {
	switch {
	case len(s) > maxSlugLen:
		return fmt.Sprintf("is longer than %d characters", maxSlugLen)
	case !slugForm.MatchString(s):
		return "must be lower-case letters and digits joined by single hyphens"
	}
	return ""
}

func slugTaken(s string) error {
	return fault.New(fault.Conflict, "ALREADY_EXISTS", "Another company already has the short name %s.", s)
}

// slug returns a short name: the lower-case letters and digits of a name,
// joined by single hyphens, at most 48 characters.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r < '0' || r > 'z' || r > '9' && r < 'a' })
	s := strings.Join(words, "-")
	s = strings.Trim(s[:min(len(s), 48)], "-")
	if s == "" {
		return "tenant-" + strings.ToLower(randomText(6))
	}
	return s
}

// textOrNull returns nil for an empty text, which the API shows as null.
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// timeOrNull returns nil for the zero time, which the API shows as null.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
