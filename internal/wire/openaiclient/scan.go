package openaiclient

import (
	"bytes"
	"unicode/utf8"
)

// scanner reads simple JSON. It fails on anything else (strings with escapes where
// none are expected, unexpected nesting, invalid JSON), which is then left to the
// general decoder. It never accepts invalid JSON.
type scanner struct {
	data   []byte
	at     int
	failed bool
}

func (s *scanner) fail() { s.failed = true }

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.data) {
		switch b := s.data[s.at]; b {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return b
		}
	}
	return 0
}

// accept skips a byte if it is the next one.
func (s *scanner) accept(b byte) bool {
	if s.peek() != b {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(b byte) {
	if !s.accept(b) {
		s.fail()
	}
}

// atEnd reports whether the scan succeeded and nothing is left.
func (s *scanner) atEnd() bool { return !s.failed && s.peek() == 0 && s.at == len(s.data) }

// first enters an object and returns its first name, nil if there is none.
func (s *scanner) first() []byte {
	s.expect('{')
	if s.failed || s.accept('}') {
		return nil
	}
	return s.name()
}

// next returns the object's next name, nil at its end.
func (s *scanner) next() []byte {
	if s.failed || s.accept('}') {
		return nil
	}
	s.expect(',')
	return s.name()
}

func (s *scanner) name() []byte {
	name := s.plain()
	s.expect(':')
	if s.failed {
		return nil
	}
	return name
}

// quoted skips a string and returns it with its quotes. Its escapes and its UTF-8 are
// not checked.
func (s *scanner) quoted() []byte {
	s.expect('"')
	start := s.at - 1
	for !s.failed && s.at < len(s.data) {
		switch b := s.data[s.at]; {
		case b == '"':
			s.at++
			return s.data[start:s.at]
		case b == '\\':
			s.at++
		case b < ' ':
			s.fail()
		}
		s.at++
	}
	s.fail()
	return nil
}

// plain skips a string without escapes and returns its content.
func (s *scanner) plain() []byte {
	quoted := s.quoted()
	if s.failed || !isPlain(quoted[1:len(quoted)-1]) {
		s.fail()
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// isPlain reports whether the content of a string needs no unquoting.
func isPlain(s []byte) bool {
	ascii := true
	for _, b := range s {
		if b == '\\' {
			return false
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	return ascii || utf8.Valid(s)
}

// null skips null, and reports whether it was there.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.literal("null")
	return true
}

func (s *scanner) literal(word string) {
	if !bytes.HasPrefix(s.data[s.at:], []byte(word)) {
		s.fail()
		return
	}
	s.at += len(word)
}

// scalar skips a value that is not an object or array.
func (s *scanner) scalar() {
	switch b := s.peek(); {
	case b == '"':
		s.plain()
	case b == 'n':
		s.literal("null")
	case b == 't':
		s.literal("true")
	case b == 'f':
		s.literal("false")
	case b == '-' || '0' <= b && b <= '9':
		s.number()
	default:
		s.fail()
	}
}

// number skips a number.
func (s *scanner) number() {
	if s.data[s.at] == '-' {
		s.at++
	}
	if digits := s.digits(); digits == 0 || digits > 1 && s.data[s.at-digits] == '0' {
		s.fail()
	}
	if s.at < len(s.data) && s.data[s.at] == '.' {
		s.at++
		if s.digits() == 0 {
			s.fail()
		}
	}
	if s.at < len(s.data) && s.data[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.data) && (s.data[s.at] == '+' || s.data[s.at] == '-') {
			s.at++
		}
		if s.digits() == 0 {
			s.fail()
		}
	}
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

// count reads a whole number of moderate size.
func (s *scanner) count() int {
	s.peek()
	start := s.at
	digits := s.digits()
	if digits == 0 || digits > 12 || digits > 1 && s.data[start] == '0' {
		s.fail()
		return 0
	}
	n := 0
	for _, b := range s.data[start:s.at] {
		n = n*10 + int(b-'0')
	}
	if s.at < len(s.data) && (s.data[s.at] == '.' || s.data[s.at]|0x20 == 'e') {
		s.fail()
	}
	return n
}
