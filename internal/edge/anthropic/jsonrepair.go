package anthropic

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Clients read the input of a tool call as a JSON object, and many fail on what
// is none; models write what they like. A mender passes what a model writes on as
// it comes, for as long as it is the beginning of an object, and makes an object
// of it in the end:
//
//   - an object passes as it is, without the white space between its tokens, and
//     with escapes where its strings have line breaks or single backslashes;
//   - of one that breaks or ends in the middle, what was passed on is closed, and
//     the member _raw has all that the model wrote;
//   - nothing, and null, is the object without members, a string that holds an
//     object is that object, and anything else is the object {"_raw": …}.
//
// The zero value is ready.
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

// state is what the mender waits for.
type state byte

const (
	outside    state = iota // the object
	wantName                // a name, or the end of the object
	wantMember              // a name, behind a comma
	inName
	wantColon
	wantValue
	wantItem // a value, or the end of the array
	inString
	inEscape // behind a backslash; of a name too
	inHex1   // \u has 4, 3, 2, 1 digits to come
	inHex2
	inHex3
	inHex4
	inWord     // true, false, null
	inMinus    // number: behind the sign
	inZero     // behind a leading zero
	inDigits   // in its whole part
	inDot      // behind the point
	inFraction // in the digits behind it
	inE        // behind the e
	inSign     // behind the e's sign
	inExponent
	afterValue
	complete // the outermost object is closed
)

// write takes in a piece and appends what of it can be passed on.
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

// plainEnd is how much of a string's inside stands for itself.
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

// step takes in one byte.
func (m *jsonRepairer) step(out []byte, c byte) []byte {
	switch m.state {
	case inString, inName:
		return m.inString(out, c)
	case inEscape, inHex1, inHex2, inHex3, inHex4:
		return m.escape(out, c)
	case inWord:
		if c != m.word[0] {
			m.broken = true
			return out
		}
		if m.word = m.word[1:]; m.word == "" {
			m.state = afterValue
		}
		return append(out, c)
	case inMinus, inZero, inDigits, inDot, inFraction, inE, inSign, inExponent:
		if m.number(c) {
			return append(out, c)
		}
		if m.broken {
			return out
		}
	}
	if isSpace(c) {
		return out // it means nothing out here
	}
	switch m.state {
	case outside:
		if c != '{' {
			m.broken = true
			return out
		}
		m.opened = true
		return m.open(out, c)
	case wantName, wantMember:
		switch {
		case c == '"':
			m.state = inName
			m.hasMember = m.hasMember || len(m.stack) == 1
			return append(m.flushComma(out), c)
		case c == '}' && m.state == wantName:
			return m.close(out, c)
		}
	case wantColon:
		if c == ':' {
			m.state = wantValue
			return append(out, c)
		}
	case wantValue, wantItem:
		if c == ']' && m.state == wantItem {
			return m.close(out, c)
		}
		return m.beginValue(out, c)
	case afterValue:
		return m.afterItem(out, c)
	}
	m.broken = true
	return out
}

// inString takes in a byte of a string that does not stand for itself.
func (m *jsonRepairer) inString(out []byte, c byte) []byte {
	switch {
	case c == '"' && m.state == inName:
		m.state = wantColon
	case c == '"':
		m.state = afterValue
	case c == '\\':
		m.word = "" // a string's escape, not a name's
		if m.state == inName {
			m.word = "n"
		}
		m.state = inEscape
	default: // a control character, which must not stand there as it is
		quoted, _ := jsontext.AppendQuote(nil, string(rune(c)))
		return append(out, quoted[1:len(quoted)-1]...)
	}
	return append(out, c)
}

func (m *jsonRepairer) escape(out []byte, c byte) []byte {
	switch m.state {
	case inEscape:
		switch {
		case c == 'u':
			m.state = inHex1
			return append(out, c)
		case strings.IndexByte(`"\/bfnrt`, c) < 0: // the backslash was meant as one
			m.resume()
			return m.step(append(out, '\\'), c)
		}
	default:
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
			m.broken = true
			return out
		}
		if m.state != inHex4 {
			m.state++
			return append(out, c)
		}
	}
	m.resume()
	return append(out, c)
}

// resume goes back from an escape to the string that it is in.
func (m *jsonRepairer) resume() {
	m.state = inString
	if m.word == "n" {
		m.state = inName
	}
	m.word = ""
}

// number takes in a byte of a number; false where it is none of it.
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

// beginValue begins one.
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

// maxDepth is how deep an input may nest: what reads it may take no more.
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

// close ends an object or an array. The outermost object's bracket waits for the
// end: a member may have to be added.
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

// flushComma passes on the comma that waited for what follows it.
func (m *jsonRepairer) flushComma(out []byte) []byte {
	if m.pendingComma {
		m.pendingComma = false
		return append(out, ',')
	}
	return out
}

// rawMember is the member that has what a model wrote where that is no object.
const rawMember = `"_raw":`

// end appends what makes an object of what was passed on.
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

// closeValue ends the value that was begun last.
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

// wrapNonObject makes an object of what does not begin like one.
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

// repairJSON gives the input of a whole call.
func repairJSON(out []byte, arguments string) []byte {
	var m jsonRepairer
	return m.end(m.write(out, arguments))
}
