package redact_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/pii"
	"agentd/internal/base/redact"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
		kinds            []pii.Entity
	}{
		{"email", "write to ada@example.com.", "write to [EMAIL].", []pii.Entity{pii.Email}},
		{"phone", "call +49 30 1234567 now", "call [PHONE] now", []pii.Entity{pii.Phone}},
		{"card", "pay with 4111 1111 1111 1111", "pay with [CREDIT_CARD]", []pii.Entity{pii.CreditCard}},
		{"iban", "to DE89 3704 0044 0532 0130 00", "to [IBAN]", []pii.Entity{pii.IBAN}},
		{"ip", "from 203.0.113.7", "from [IP_ADDRESS]", []pii.Entity{pii.IPAddress}},
		{"ssn", "is 123-45-6789", "is [US_SSN]", []pii.Entity{pii.SSN}},
		{"key", "AKIAIOSFODNN7EXAMPLE", "[API_KEY]", []pii.Entity{pii.APIKey}},
		{"only what is named", "ada@example.com, 203.0.113.7", "[EMAIL], 203.0.113.7", []pii.Entity{pii.Email}},
		{"no UUID", "run 01a21e0b-0123-7123-8456-a23456789012", "run 01a21e0b-0123-7123-8456-a23456789012", pii.Entities},
		{"JSON", ` {"to": "ada\u0040example.com", "n": 4111111111111111}`, `{"to":"[EMAIL]","n":"[CREDIT_CARD]"}`, pii.Entities},
		{"JSON within JSON", `{"a":"{\"b\":\"x\\nada@example.com\"}"}`, `{"a":"{\"b\":\"x\\n[EMAIL]\"}"}`, pii.Entities},
		{"names", `{"ada@example.com":1,"bob@example.com":2}`, `{"[EMAIL]":1,"[EMAIL] 2":2}`, pii.Entities},
		{"no JSON", `{ada@example.com`, `{[EMAIL]`, pii.Entities},
		{"nothing named", "ada@example.com", "ada@example.com", nil},
		{"as it was", "{ \"a\" : 1.50 }", "{ \"a\" : 1.50 }", pii.Entities},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := redact.New(tt.kinds...)
			got := r.Content(tt.text)
			if got != tt.want {
				t.Errorf("%q becomes %q, want %q", tt.text, got, tt.want)
			}
			if again := r.Content(got); again != got {
				t.Errorf("redacted once more it becomes %q", again)
			}
		})
	}
}

func TestJSONThatHoldsNothingStays(t *testing.T) {
	t.Parallel()
	v := jsontext.Value(`{ "a": [1e3, "x"] }`)
	if got := redact.New(pii.Entities...).JSON(v); string(got) != string(v) {
		t.Errorf("got %s", got)
	}
}

// TestStream sends a text in pieces of every size: together they are the redacted text,
// and a sentence without numbers is shown before it ends.
func TestStream(t *testing.T) {
	t.Parallel()
	r := redact.New(pii.Entities...)
	for _, text := range []string{
		"Write to ada@example.com or call +49 30 1234567.\nPay to DE89 3704 0044 0532 0130 00, or by 4111 1111 1111 1111. Then wait.",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----\nand 203.0.113.7 too",
		"MT84 MALT 0110 0001 2345 MTLC AST0 01S and (415) 555-2671, thank you",
		"a\n\nb c ada@example.com", "",
	} {
		for size := 1; size <= len(text); size++ {
			s := r.Stream()
			var got strings.Builder
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				got.WriteString(s.Add(rest[:n]))
				rest = rest[n:]
			}
			got.WriteString(s.End())
			if diff := cmp.Diff(r.Text(text), got.String()); diff != "" {
				t.Fatalf("in pieces of %d (-whole +pieces):\n%s", size, diff)
			}
		}
	}
	if got := r.Stream().Add("Dear Ada, thank "); got != "Dear Ada, thank " {
		t.Errorf("of a text without numbers %q is shown", got)
	}
	if got := (*redact.Redactor)(nil).Stream().Add("ada@exa"); got != "ada@exa" {
		t.Errorf("where nothing is named %q is shown", got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("Write to ada@example.com now", 3)
	f.Add("0171 1234567 and 4111 1111 1111 1111 x", 5)
	f.Add("-----BEGIN PRIVATE KEY-----\na\n-----END PRIVATE KEY-----", 7)
	r := redact.New(pii.Entities...)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size <= 0 {
			return
		}
		s := r.Stream()
		var got strings.Builder
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			got.WriteString(s.Add(rest[:n]))
			rest = rest[n:]
		}
		got.WriteString(s.End())
		if want := r.Text(text); got.String() != want {
			t.Errorf("%q in pieces of %d is %q, whole it is %q", text, size, got.String(), want)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":["ada@example.com",{"b":4111111111111111}]}`)
	f.Add(`"{\"a\":1}"`)
	r := redact.New(pii.Entities...)
	f.Fuzz(func(t *testing.T, text string) {
		v := jsontext.Value(text)
		if !v.IsValid() {
			return
		}
		if got := r.JSON(v); !got.IsValid() {
			t.Errorf("%q becomes %q, which is no JSON", text, got)
		}
	})
}
