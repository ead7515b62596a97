package schema

import (
	"encoding/base64"
	"net/mail"
	"net/url"
	"time"

	"agentd/internal/base/ident"
)

// format is a string format that is checked; the zero one accepts everything.
type format struct {
	expected string
	valid    func(string) bool
}

// formats by name. Any other format is published but not checked.
var formats = map[string]format{
	"uuid":      {"expected a UUID in its canonical lower-case form", ident.Valid},
	"date-time": {"expected a date and time as in RFC 3339, such as 2026-09-10T12:00:00Z", isDateTime},
	"date":      {"expected a date such as 2026-09-10", isDate},
	"uri":       {"expected an absolute URI such as https://example.com/path", isURI},
	"email":     {"expected an e-mail address such as ada@example.com", isEmail},
	"base64":    {"expected base64 with padding", isBase64},
}

func isDateTime(s string) bool {
	var t time.Time
	return t.UnmarshalText([]byte(s)) == nil
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && (u.Host != "" || u.Opaque != "" || u.Path != "")
}

func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s
}

func isBase64(s string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(s)
	return err == nil
}
