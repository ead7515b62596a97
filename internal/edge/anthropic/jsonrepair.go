package anthropic

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonRepairer makes a JSON object of the input of a tool call as a model writes it:
// clients read it as an object, and many fail on anything else. It passes the input
// on piece by piece for as long as it is the beginning of an object, and completes
// it in the end:
//
//   - an object passes unchanged, without the white space between its tokens, and
//     with escapes for line breaks and single backslashes in its strings;
//   - an object that breaks or ends in the middle is closed, and its member _raw has
//     everything that the model wrote;
//   - nothing and null become the empty object, a string that holds an object
//     becomes that object, and anything else becomes the object {"_raw": …}.
//
// The zero value is ready to use.
type jsonRepairer struct {
	raw          []byte // all that was written
	at           int    // how much of raw was looked at
	stack        []byte // '{' and '[' that are open
	state        state
	word         string // what is left of a literal, where one is being read
	pendingComma bool   // one was read that is not passed on: nothing may follow it
	opened       bool   // the object's first bracket was passed on
	hasMember    bool   // the outermost object has a member
	broken       bool
}

// state is what the repairer expects next.
type state byte

const (
	outside    state = iota // the object
	wantName                // a name, or the end of the object
	wantMember              // a name, after a comma
	inName
	wantColon
	wantValue
	wantItem // a value, or the end of the array
	inString
	inEscape // after a backslash, also in a name
	inHex1   // 4, 3, 2, 1 digits of \u to come
	inHex2
	inHex3
	inHex4
	inWord     // true, false, null
	inMinus    // of a number: after the sign
	inZero     // after a leading zero
	inDigits   // in the integer part
	inDot      // after the point
	inFraction // in the digits after it
	inE        // after the e
	inSign     // after its sign
	inExponent
	afterValue
	complete // the outermost object is closed
)

// write adds a piece, and appends to out what can be passed on.
func (m *jsonRepairer) write(out []byte, piece string) []byte {
	m.raw = append(m.raw, piece...)
	for ; m.at < len(m.raw) && !m.broken; m.at++ {
		c := m.raw[m.at]
		if m.state == inString || m.state == inName { // the long ones
			if end := plainEnd(m.raw[m.at:]); end > 0 {
				out = append(out, m.raw[m.at:m.at+end]...)
				m.at += end - 1
				continue
			}
		}
		out = m.step(out, c)
	}
	return out
}

// plainEnd returns the length of the characters that need no escape.
func plainEnd(b []byte) int {
	for i, c := range b {
		if c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return len(b)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// transitions maps each state to what handles the next byte in it. Between tokens
// white space is skipped.
var transitions = [...]struct {
	handle    func(m *jsonRepairer, out []byte, c byte) []byte
	skipSpace bool
}{
	outside:    {(*jsonRepairer).beginObject, true},
	wantName:   {(*jsonRepairer).beginName, true},
	wantMember: {(*jsonRepairer).beginName, true},
	inName:     {(*jsonRepairer).stringByte, false},
	wantColon:  {(*jsonRepairer).colon, true},
	wantValue:  {(*jsonRepairer).beginValue, true},
	wantItem:   {(*jsonRepairer).beginItem, true},
	inString:   {(*jsonRepairer).stringByte, false},
	inEscape:   {(*jsonRepairer).escape, false},
	inHex1:     {(*jsonRepairer).hexDigit, false},
	inHex2:     {(*jsonRepairer).hexDigit, false},
	inHex3:     {(*jsonRepairer).hexDigit, false},
	inHex4:     {(*jsonRepairer).hexDigit, false},
	inWord:     {(*jsonRepairer).wordByte, false},
	inMinus:    {(*jsonRepairer).numberByte, false},
	inZero:     {(*jsonRepairer).numberByte, false},
	inDigits:   {(*jsonRepairer).numberByte, false},
	inDot:      {(*jsonRepairer).numberByte, false},
	inFraction: {(*jsonRepairer).numberByte, false},
	inE:        {(*jsonRepairer).numberByte, false},
	inSign:     {(*jsonRepairer).numberByte, false},
	inExponent: {(*jsonRepairer).numberByte, false},
	afterValue: {(*jsonRepairer).afterItem, true},
	complete:   {(*jsonRepairer).fail, true},
}

// step handles one byte.
func (m *jsonRepairer) step(out []byte, c byte) []byte {
	t := &transitions[m.state]
	if t.skipSpace && isSpace(c) {
		return out
	}
	return t.handle(m, out, c)
}

// fail handles a byte that is not valid in its state.
func (m *jsonRepairer) fail(out []byte, _ byte) []byte {
	m.broken = true
	return out
}

func (m *jsonRepairer) beginObject(out []byte, c byte) []byte {
	if c != '{' {
		return m.fail(out, c)
	}
	m.opened = true
	return m.open(out, c)
}

func (m *jsonRepairer) beginName(out []byte, c byte) []byte {
	switch {
	case c == '"':
		m.state = inName
		m.hasMember = m.hasMember || len(m.stack) == 1
		return append(m.flushComma(out), c)
	case c == '}' && m.state == wantName:
		return m.close(out, c)
	}
	return m.fail(out, c)
}

func (m *jsonRepairer) colon(out []byte, c byte) []byte {
	if c != ':' {
		return m.fail(out, c)
	}
	m.state = wantValue
	return append(out, c)
}

// beginItem handles the first byte after the opening bracket of an array.
func (m *jsonRepairer) beginItem(out []byte, c byte) []byte {
	if c == ']' {
		return m.close(out, c)
	}
	return m.beginValue(out, c)
}

// wordByte handles a byte of true, false or null.
func (m *jsonRepairer) wordByte(out []byte, c byte) []byte {
	if c != m.word[0] {
		return m.fail(out, c)
	}
	if m.word = m.word[1:]; m.word == "" {
		m.state = afterValue
	}
	return append(out, c)
}

// numberByte handles a byte of a number, or the first one after it.
func (m *jsonRepairer) numberByte(out []byte, c byte) []byte {
	switch {
	case m.number(c):
		return append(out, c)
	case m.broken, isSpace(c):
		return out
	}
	return m.afterItem(out, c)
}

// stringByte handles a byte of a string that plainEnd stops at.
func (m *jsonRepairer) stringByte(out []byte, c byte) []byte {
	switch {
	case c == '"' && m.state == inName:
		m.state = wantColon
	case c == '"':
		m.state = afterValue
	case c == '\\':
		m.word = "" // the escape is in a string, not in a name
		if m.state == inName {
			m.word = "n"
		}
		m.state = inEscape
	default: // a control character, which must be escaped
		quoted, _ := jsontext.AppendQuote(nil, string(rune(c)))
		return append(out, quoted[1:len(quoted)-1]...)
	}
	return append(out, c)
}

// escape handles the byte after a backslash.
func (m *jsonRepairer) escape(out []byte, c byte) []byte {
	switch {
	case c == 'u':
		m.state = inHex1
		return append(out, c)
	case strings.IndexByte(`"\/bfnrt`, c) < 0: // the model meant the backslash itself
		m.resume()
		return m.stringByte(append(out, '\\'), c)
	}
	m.resume()
	return append(out, c)
}

// hexDigit handles a digit of an escape \uXXXX.
func (m *jsonRepairer) hexDigit(out []byte, c byte) []byte {
	if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
		return m.fail(out, c)
	}
	if m.state == inHex4 {
		m.resume()
	} else {
		m.state++
	}
	return append(out, c)
}

// resume returns from an escape to its string.
func (m *jsonRepairer) resume() {
	m.state = inString
	if m.word == "n" {
		m.state = inName
	}
	m.word = ""
}

// number reports whether a byte continues a number. If not, the number is broken or
// has ended before the byte.
func (m *jsonRepairer) number(c byte) bool {
	to := afterValue
	switch m.state {
	case inMinus:
		if to = inDigits; c == '0' {
			to = inZero
		}
		m.broken = !isDigit(c)
	case inZero, inDigits, inFraction, inExponent:
		switch {
		case isDigit(c) && m.state != inZero:
			to = m.state
		case c == '.' && (m.state == inZero || m.state == inDigits):
			to = inDot
		case c|0x20 == 'e' && m.state != inExponent:
			to = inE
		default:
			m.state = afterValue
			return false
		}
	case inDot:
		to, m.broken = inFraction, !isDigit(c)
	case inE:
		if to = inExponent; c == '+' || c == '-' {
			to = inSign
		} else {
			m.broken = !isDigit(c)
		}
	case inSign:
		to, m.broken = inExponent, !isDigit(c)
	}
	if m.broken {
		return false
	}
	m.state = to
	return true
}

// beginValue handles the first byte of a value.
func (m *jsonRepairer) beginValue(out []byte, c byte) []byte {
	out = m.flushComma(out)
	switch {
	case c == '{' || c == '[':
		return m.open(out, c)
	case c == '"':
		m.state = inString
	case c == '-':
		m.state = inMinus
	case c == '0':
		m.state = inZero
	case isDigit(c):
		m.state = inDigits
	case c == 't':
		m.state, m.word = inWord, "true"[1:]
	case c == 'f':
		m.state, m.word = inWord, "false"[1:]
	case c == 'n':
		m.state, m.word = inWord, "null"[1:]
	default:
		m.broken = true
		return out
	}
	return append(out, c)
}

// maxDepth bounds the nesting of an input, for the sake of its readers.
const maxDepth = 200

func (m *jsonRepairer) open(out []byte, c byte) []byte {
	if len(m.stack) == maxDepth {
		m.broken, m.state, m.word = true, inWord, "null"
		return out
	}
	m.stack = append(m.stack, c)
	if m.state = wantName; c == '[' {
		m.state = wantItem
	}
	return append(out, c)
}

// close ends an object or an array. The outermost object's bracket is written in the
// end, because a member may have to be added.
func (m *jsonRepairer) close(out []byte, c byte) []byte {
	m.stack = m.stack[:len(m.stack)-1]
	if len(m.stack) == 0 {
		m.state = complete
		return out
	}
	m.state = afterValue
	return append(out, c)
}

func (m *jsonRepairer) afterItem(out []byte, c byte) []byte {
	object := m.stack[len(m.stack)-1] == '{'
	switch {
	case c == ',' && object:
		m.state, m.pendingComma = wantMember, true
	case c == ',':
		m.state, m.pendingComma = wantValue, true
	case c == '}' && object, c == ']' && !object:
		return m.close(out, c)
	default:
		m.broken = true
	}
	return out
}

// flushComma appends the comma that was held back until something follows it.
func (m *jsonRepairer) flushComma(out []byte) []byte {
	if m.pendingComma {
		m.pendingComma = false
		return append(out, ',')
	}
	return out
}

// rawMember is the member with the text of a model that did not write an object.
const rawMember = `"_raw":`

// end appends what completes the object.
func (m *jsonRepairer) end(out []byte) []byte {
	if m.state == complete && !m.broken {
		return append(out, '}')
	}
	if !m.opened {
		return m.wrapNonObject(out)
	}
	out = m.closeValue(out)
	for i := len(m.stack) - 1; i > 0; i-- {
		out = append(out, m.stack[i]+2) // the bracket that closes it
	}
	if m.hasMember {
		out = append(out, ',')
	}
	return append(appendString(append(out, rawMember...), string(m.raw)), '}')
}

// closeValue ends the last value.
func (m *jsonRepairer) closeValue(out []byte) []byte {
	switch m.state {
	case inEscape:
		out = append(out, '\\')
		m.resume()
	case inHex1, inHex2, inHex3, inHex4:
		out = append(out, "0000"[m.state-inHex1:]...)
		m.resume()
	}
	switch m.state {
	case inName:
		return append(out, `":null`...)
	case inString:
		return append(out, '"')
	case wantColon:
		return append(out, ":null"...)
	case wantValue:
		if !m.pendingComma {
			return append(out, "null"...)
		}
	case inWord:
		return append(out, m.word...)
	case inMinus, inDot, inE, inSign:
		return append(out, '0')
	}
	return out
}

// wrapNonObject makes an object of an input that does not begin like one.
func (m *jsonRepairer) wrapNonObject(out []byte) []byte {
	text := bytes.TrimSpace(m.raw)
	if len(text) == 0 || string(text) == "null" {
		return append(out, "{}"...)
	}
	if text[0] == '"' {
		if inner, err := jsontext.AppendUnquote(nil, text); err == nil {
			v := jsontext.Value(bytes.TrimSpace(inner))
			if v.Kind() == '{' && v.IsValid() {
				return append(out, v...)
			}
		}
	}
	return append(appendString(append(append(out, '{'), rawMember...), string(m.raw)), '}')
}

// repairJSON appends the repaired input of a complete call.
func repairJSON(out []byte, arguments string) []byte {
	var m jsonRepairer
	return m.end(m.write(out, arguments))
}
