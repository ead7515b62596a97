package pii

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// email finds the address around the @ at i.
func (s *scanner) email(i int) (start, end int) {
	start = i
	for start > s.floor {
		r, size := utf8.DecodeLastRuneInString(s.text[s.floor:start])
		if !localPart(r) {
			break
		}
		start -= size
	}
	for start < i && (s.text[start] == '.' || s.text[start] == '-' || s.text[start] == '\'') {
		start++
	}
	if start == i || s.text[i-1] == '.' {
		return 0, 0
	}
	domain := i + 1
	stop := domain
	for stop < len(s.text) && stop-domain < 255 {
		r, size := utf8.DecodeRuneInString(s.text[stop:])
		if !domainPart(r) {
			break
		}
		stop += size
	}
	if n := domainLength(s.text[domain:stop]); n > 0 {
		return start, domain + n
	}
	return 0, 0
}

func localPart(r rune) bool {
	if r < 0x80 {
		return class[byte(r)] == letter || class[byte(r)] == digit || strings.ContainsRune(".%+-'", r)
	}
	// Scripts without spaces would take the sentence before the address along.
	return r != utf8.RuneError && unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

func domainPart(r rune) bool {
	if r < 0x80 {
		return r != '_' && (class[byte(r)] == letter || class[byte(r)] == digit) || r == '.' || r == '-'
	}
	return r != utf8.RuneError && unicode.IsLetter(r)
}

// domainLength is how much of a text is a domain with a name and a top level:
// the longest beginning whose last label begins with two letters.
func domainLength(text string) int {
	for end := len(text); end > 0; {
		dot := strings.LastIndexByte(text[:end], '.')
		if dot <= 0 {
			return 0
		}
		letters := dot + 1
		for letters < end && class[text[letters]] == letter {
			letters++
		}
		if n := letters - dot - 1; n >= 2 && text[dot-1] != '.' && text[dot-1] != '-' && !fileType(text[dot+1:letters]) {
			return letters
		}
		end = dot
	}
	return 0
}

// fileType reports whether a top-level domain is a common file extension:
// icon@2x.png is no address.
func fileType(tld string) bool {
	switch strings.ToLower(tld) {
	case "png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "json", "html":
		return true
	}
	return false
}

// ip finds the address that begins at i.
func (s *scanner) ip(i int) int {
	end, colons, dots, numbers := i, 0, 0, false
	for ; end < len(s.text) && end-i < 46; end++ {
		c := s.text[end]
		switch {
		case c == ':':
			colons++
		case c == '.':
			dots++
		case class[c] == digit:
			numbers = true
		case !hexDigit(c):
			return s.address(i, end, colons, dots, numbers)
		}
	}
	return s.address(i, end, colons, dots, numbers)
}

func (s *scanner) address(i, end, colons, dots int, numbers bool) int {
	if !numbers || colons < 2 && dots < 3 || end < len(s.text) && (class[s.text[end]] == letter || class[s.text[end]] == digit) {
		return 0
	}
	for end > i && (s.text[end-1] == '.' || s.text[end-1] == ':' && !strings.HasSuffix(s.text[i:end], "::")) {
		end-- // of the sentence
	}
	candidate := s.text[i:end]
	if colons == 1 { // 10.1.2.3:80
		candidate, _, _ = strings.Cut(candidate, ":")
	}
	a, err := netip.ParseAddr(candidate)
	if err != nil || a.IsLoopback() || a.IsUnspecified() {
		return 0
	}
	return i + len(candidate)
}

// iban finds the account number that begins at i, together or in groups.
func (s *scanner) iban(i int) int {
	if i+15 > len(s.text) || class[s.text[i+1]] != letter || class[s.text[i+2]] != digit || class[s.text[i+3]] != digit {
		return 0
	}
	length := ibanLength[strings.ToUpper(s.text[i:i+2])]
	rest, n, end := 0, 0, i
	check := 0 // of what stands before the account: it counts last
	for ; end < len(s.text) && n < length; end++ {
		c := s.text[end] &^ 0x20
		var v int
		switch {
		case class[s.text[end]] == digit:
			v = int(s.text[end] - '0')
		case 'A' <= c && c <= 'Z':
			v = int(c-'A') + 10
		case s.text[end] == ' ' && n > 0 && n%4 == 0 && s.text[end-1] != ' ':
			continue
		default:
			return 0
		}
		if n < 4 {
			check = appended(check, v)
		} else {
			rest = appended(rest, v) % 97
		}
		n++
	}
	if length == 0 || n < length || end < len(s.text) && (class[s.text[end]] == letter || class[s.text[end]] == digit) {
		return 0
	}
	// The country's letters are two digits each: six in all.
	if (rest*1_000_000+check)%97 != 1 {
		return 0
	}
	return end
}

func appended(number, v int) int {
	if v > 9 {
		return number*100 + v
	}
	return number*10 + v
}

var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28,
	"CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
	"FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
	"IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20,
	"LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18,
	"NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31,
	"SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29,
	"VA": 22, "VG": 24, "XK": 20, "YE": 30,
}
