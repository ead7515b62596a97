package pii_test

import (
	"strings"
	"testing"
	"time"

	"agentd/internal/base/pii"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	for text, want := range map[string]string{
		"write to jane.doe+x@mail.example.com, please": "write to [EMAIL], please",
		"Jane <jane@example.co.uk>.":                   "Jane <[EMAIL]>.",
		"a@example.com,b@example.com;c@example.com.":   "[EMAIL],[EMAIL];[EMAIL].",
		"mailto:josé@exämple.de?subject=x":             "mailto:[EMAIL]?subject=x",
		"请联系foo@bar.com谢谢":                             "请联系[EMAIL]谢谢",
		"o'brien@example.ie":                           "[EMAIL]",
		"jane@example.com-":                            "[EMAIL]-",

		"call +49 30 1234567 now":          "call [PHONE] now",
		"call +1 (415) 555-2671.":          "call [PHONE].",
		"tel:+14155552671;ext=1":           "tel:[PHONE];ext=1",
		"(415) 555-2671 or 415-555-2671":   "[PHONE] or [PHONE]",
		"1-415-555-2671, 415.555.2671":     "[PHONE], [PHONE]",
		"030 1234567, 0171/1234567":        "[PHONE], [PHONE]",
		"020 7946 0958 and 01 23 45 67 89": "[PHONE] and [PHONE]",
		"电话+8613800138000。":                "电话[PHONE]。",

		"4111111111111111":                          "[CREDIT_CARD]",
		"card 4111 1111 1111 1111, thanks":          "card [CREDIT_CARD], thanks",
		"4111-1111-1111-1111":                       "[CREDIT_CARD]",
		"amex 378282246310005 or 3782 822463 10005": "amex [CREDIT_CARD] or [CREDIT_CARD]",
		"5555555555554444 12/29":                    "[CREDIT_CARD] 12/29",
		"4111 1111 1111 1111 12/29":                 "[CREDIT_CARD] 12/29",
		"6011111111111117;3530111333300000":         "[CREDIT_CARD];[CREDIT_CARD]",

		"DE89370400440532013000":                              "[IBAN]",
		"IBAN: DE89 3704 0044 0532 0130 00.":                  "IBAN: [IBAN].",
		"gb82west12345698765432":                              "[IBAN]",
		"MT84MALT011000012345MTLCAST001S and NO9386011117947": "[IBAN] and [IBAN]",

		"from 203.0.113.9 to 10.1.2.3:80.":              "from [IP_ADDRESS] to [IP_ADDRESS]:80.",
		"2001:db8::8a2e:370:7334, fe80::1%eth0":         "[IP_ADDRESS], [IP_ADDRESS]%eth0",
		"[2001:db8:0:0:0:0:2:1]:443 ::ffff:203.0.113.9": "[[IP_ADDRESS]]:443 [IP_ADDRESS]",

		"ssn 123-45-6789.": "ssn [US_SSN].",

		"key sk-proj-abcdefghijklmnop1234 end":           "key [API_KEY] end",
		"AKIAIOSFODNN7EXAMPLE":                           "[API_KEY]",
		"ghp_" + strings.Repeat("a1B2", 9):               "[API_KEY]",
		"token=" + jwt + ".":                             "token=[API_KEY].",
		"svc_abcdefgh_" + strings.Repeat("x", 32) + "\n": "[API_KEY]\n",
		"xoxb-123456789012-abc":                          "[API_KEY]",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- done": "[API_KEY] done",
		"-----BEGIN PRIVATE KEY-----\nMIIE":                                         "[API_KEY]",

		"415-555-2671@example.com": "[PHONE]@example.com",
	} {
		if got := pii.Redact(text, pii.Find(text, pii.Entities...)); got != want {
			t.Errorf("%q\n gives %q\n want %q", text, got, want)
		}
	}
}

func TestNothingToFind(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "hello", "@", "@@", "a@b", "@mention and user@localhost", "left-pad@1.3.0", "icon@2x.png", "x@.com", ".@.", "foo@bar..com-", "a@b.c1",
		"2024-01-02", "01-02-2024 10", "04/05/2024", "10:30:45", "2024-01-02T10:30:45.123456+02:00", "00:1B:44:11:3A:B7", "12:30",
		"123456789", "1234567890123456", "4111111111111112", "1.4111111111111111", "x4111111111111111", "4111111111111111x", "0000000000000000",
		"isbn 978-3-16-148410-0", "3.14159265358979323846", "1,234,567.89", "123 456 789", "order 2024-000123-99", "+1 234 567",
		"DE89370400440532013001", "DE00 0000", "XX89370400440532013000", "AB12", "DE8937040044053201300012",
		"127.0.0.1", "::1", "::", "0.0.0.0", "1.2.3", "1.2.3.4.5", "256.1.1.1", "std::vector", "ab::cd", "Face::Bed", "1:2",
		"000-12-3456", "666-12-3456", "900-12-3456", "123-00-4567", "123-45-0000", "1123-45-6789", "123-45-67890", "12-345-6789",
		"sk-learn", "sk-learning-with-very-long-words-only", "task-1234567890123456789012", "AKIA123", "eyJhbGciOiJIUzI1NiJ9", "eyJhbGci.eyJ.x",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "----", "ghp_short",
		"550e8400-e29b-41d4-a716-446655440000", "0190f3a2-7c11-7b22-9d33-1234567890ab", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	} {
		for _, s := range pii.Find(text, pii.Entities...) {
			t.Errorf("%q: %s is taken for %s", text, text[s.Start:s.End], s.Entity)
		}
	}
}

func TestOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	text := "jane@example.com, +49 30 1234567, 4111111111111111, DE89370400440532013000, 203.0.113.9, 123-45-6789, AKIAIOSFODNN7EXAMPLE"
	if got := pii.Find(text); got != nil {
		t.Errorf("asked for nothing, found %v", got)
	}
	for i, e := range pii.Entities {
		got := pii.Find(text, e)
		if len(got) != 1 || got[0].Entity != e || text[got[0].Start:got[0].End] != strings.Split(text, ", ")[i] {
			t.Errorf("%s: found %v", e, got)
		}
	}
}

// hostile are texts that make a careless scanner read again and again.
var hostile = []string{
	"@", "a@", "a@b.", "eyJ-", "eyJaaaaaaaaaaaa.eyJ", "sk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN X", "1 ", "1-", "+1", "(1) ", "4111 ", "1:", "::", "a:", "1.",
	"DE89 ", "0123 45 ", "12345678901234567890", "xoxb-", "é", "\xff", "a.b@c-", "1234567 ",
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for _, piece := range hostile {
		text := strings.Repeat(piece, 1<<19/len(piece))
		start := time.Now()
		pii.Find(text, pii.Entities...)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("512 KiB of %q take %v", piece, took)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range hostile {
		f.Add(s + s)
	}
	f.Add("jane@example.com, +49 30 1234567, 4111111111111111, DE89370400440532013000, 203.0.113.9, 123-45-6789, AKIAIOSFODNN7EXAMPLE")
	f.Fuzz(func(t *testing.T, text string) {
		spans := pii.Find(text, pii.Entities...)
		from := 0
		for _, s := range spans {
			if s.Start < from || s.End <= s.Start || s.End > len(text) {
				t.Fatalf("%q: %v", text, spans)
			}
			from = s.End
		}
		pii.Redact(text, spans)
	})
}

func BenchmarkFind(b *testing.B) {
	prose := strings.Repeat("On 2024-01-02 the agent said 42 things to 17 people, e.g. that 1,234.50 EUR are due; see https://example.com/a?b=1#c. ", 1<<20/117)
	numbers := strings.Repeat("1234567 0171 12 415-555 ", 1<<20/24)
	pieces := strings.Repeat("jane@example.com 203.0.113.9 4111111111111111 ", 1<<20/46)
	for name, text := range map[string]string{"prose": prose, "numbers": numbers, "full_of_it": pieces} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				pii.Find(text, pii.Entities...)
			}
		})
	}
}
