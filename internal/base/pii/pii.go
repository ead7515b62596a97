// Package pii finds personal data and credentials in text by their shapes, and
// by their check digits where they have some. It reads a text once, in time
// that grows with its length whatever it holds.
//
// It is not a promise that nothing is left: names and addresses of people have
// no shape, and a number written in words is not found.
package pii

import (
	"slices"
	"strings"
)

// Entity is a kind of thing to find.
type Entity string

// The entities.
const (
	Email      Entity = "email"
	Phone      Entity = "phone"       // with a country code, or as North America, Germany, Britain and France write them
	CreditCard Entity = "credit_card" // of the known networks, Luhn digit right
	IBAN       Entity = "iban"        // length of its country, check digits right
	IPAddress  Entity = "ip_address"  // IPv4 and IPv6, but for loopback and unspecified
	SSN        Entity = "us_ssn"      // 123-45-6789, of the ranges that are given out
	APIKey     Entity = "api_key"     // keys of well-known makers, JSON Web Tokens, private keys in PEM
)

// Entities are all of them.
var Entities = []Entity{Email, Phone, CreditCard, IBAN, IPAddress, SSN, APIKey}

// Label is what stands in place of an entity in a redacted text: [EMAIL].
func (e Entity) Label() string { return "[" + strings.ToUpper(string(e)) + "]" }

// Span is a place in a text, in bytes.
type Span struct {
	Start, End int
	Entity     Entity
}

// Find returns the spans of the entities, in order and without overlap.
func Find(text string, entities ...Entity) []Span {
	if len(entities) == 0 {
		return nil
	}
	s := scanner{text: text}
	for i, e := range Entities {
		s.wants[i] = slices.Contains(entities, e)
	}
	s.scan()
	return s.found
}

// Redact replaces the spans by their labels.
func Redact(text string, spans []Span) string {
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	from := 0
	for _, s := range spans {
		b.WriteString(text[from:s.Start])
		b.WriteString(s.Entity.Label())
		from = s.End
	}
	b.WriteString(text[from:])
	return b.String()
}

// The places of the entities in Entities.
const (
	wantEmail = iota
	wantPhone
	wantCard
	wantIBAN
	wantIP
	wantSSN
	wantKey
)

type scanner struct {
	text   string
	wants  [7]bool
	found  []Span
	number digits
	floor  int // behind the last span or @: an email begins no earlier

	// What was looked for in vain, so that nothing is read again and again.
	endless   bool // the end of a private key
	tokenless int  // no token begins before this
	digitless int  // what may be a key before this has no digit
}

// scan looks at every place where something may begin: a digit, letter or sign
// with no letter or digit before it; and at every @, which has its beginning
// behind it.
func (s *scanner) scan() {
	before := byte(' ')
	for i := 0; i < len(s.text); {
		c := s.text[i]
		end, entity := 0, Entity("")
		switch class[c] {
		case other:
		case at:
			if s.wants[wantEmail] {
				if start, stop := s.email(i); stop > 0 {
					s.add(start, stop, Email)
					i, before = stop, s.text[stop-1]
					continue
				}
				s.floor = i + 1
			}
		case dash:
			end, entity = s.pem(i)
		default:
			if class[before] != letter && class[before] != digit {
				if n := uuid(s.text[i:]); n > 0 { // its digits are no number
					i, before = i+n, s.text[i+n-1]
					continue
				}
				end, entity = s.word(i, c, before)
			}
		}
		if end > 0 {
			s.add(i, end, entity)
			i, before = end, s.text[end-1]
			continue
		}
		before = c
		i++
	}
}

func (s *scanner) add(start, end int, e Entity) {
	s.found = append(s.found, Span{start, end, e})
	s.floor = end
}

// uuid returns the length of the UUID that a text begins with; 0 if it begins with none.
func uuid(text string) int {
	const length = 36
	if len(text) < length || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return 0
	}
	for i := range length {
		if text[i] != '-' && !hexDigit(text[i]) {
			return 0
		}
	}
	if len(text) > length && (class[text[length]] == letter || class[text[length]] == digit) {
		return 0
	}
	return length
}

// word looks at what begins at i, which nothing of its kind stands before.
func (s *scanner) word(i int, c, before byte) (end int, e Entity) {
	kind := class[c]
	if kind == letter && s.wants[wantKey] {
		if end := s.apiKey(i); end > 0 {
			return end, APIKey
		}
	}
	if kind == letter && s.wants[wantIBAN] {
		if end := s.iban(i); end > 0 {
			return end, IBAN
		}
	}
	if s.wants[wantIP] && before != '.' && before != ':' && (kind == digit || c == ':' || hexDigit(c)) {
		if end := s.ip(i); end > 0 {
			return end, IPAddress
		}
	}
	if kind == letter || c == ':' {
		return 0, ""
	}
	return s.numeral(i, before)
}

// numeral looks for what digits make.
func (s *scanner) numeral(i int, before byte) (end int, e Entity) {
	if before == '.' || before == ',' {
		return 0, "" // the fraction of another number
	}
	d := s.digits(i)
	if s.wants[wantCard] {
		if end := d.card(); end > 0 {
			return end, CreditCard
		}
	}
	if s.wants[wantSSN] && before != '-' {
		if end := d.ssn(); end > 0 {
			return end, SSN
		}
	}
	if s.wants[wantPhone] && before != '-' {
		if end := d.phone(); end > 0 {
			return end, Phone
		}
	}
	return 0, ""
}

const (
	other = iota
	letter
	digit
	plus // what a phone number or an address may begin with
	at
	dash
)

var class = func() (c [256]byte) {
	for b := range 256 {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '_':
			c[b] = letter
		case '0' <= b && b <= '9':
			c[b] = digit
		case b == '+', b == '(', b == ':':
			c[b] = plus
		case b == '@':
			c[b] = at
		case b == '-':
			c[b] = dash
		}
	}
	return c
}()

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
