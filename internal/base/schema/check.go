package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
)

// Check returns an error unless data is one JSON value that the schema accepts.
// It does not build the value. A partial value (a merge) may lack required
// members, and null clears a member that is not required.
//
// Errors: fault.Malformed for bytes that are not strict JSON (syntax, a
// duplicate name, invalid UTF-8, a lone surrogate, bytes after the value,
// nesting deeper than MaxDepth), otherwise fault.Invalid with every invalid
// field, up to 100.
func (s *Schema) Check(data []byte, partial bool) error {
	c := newChecker(data)
	defer c.release()
	c.partial = partial
	return c.check(s.plan().root)
}

// Syntax returns an error unless data is one strict JSON value. Errors:
// fault.Malformed, as for Check.
func Syntax(data []byte) error {
	c := newChecker(data)
	defer c.release()
	return c.check(nil)
}

var (
	errDepth    = fmt.Errorf("it nests deeper than %d", MaxDepth)
	errTrailing = errors.New("there are bytes after the value")
	errEmpty    = errors.New("it is empty or cut off")
)

func malformed(err error) error {
	reason := err.Error()
	if se, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		reason = fmt.Sprintf("%s, at byte %d", se.Err, se.ByteOffset)
	}
	return fault.New(fault.Malformed, "", "The body is not acceptable JSON: %s.", reason).Because(err)
}

// checker walks the tokens of one value.
type checker struct {
	dec     jsontext.Decoder
	buf     bytes.Buffer
	size    int
	partial bool
	scratch []byte
	wrong   []fault.Field
	unknown []UnknownField
}

var checkers = sync.Pool{New: func() any { return new(checker) }}

func newChecker(data []byte) *checker {
	c := checkers.Get().(*checker)
	c.buf = *bytes.NewBuffer(data) // a Buffer is parsed in place
	c.size = len(data)
	c.dec.Reset(&c.buf)
	return c
}

// release puts the checker back into the pool, unless its tables grew with a
// big value.
func (c *checker) release() {
	if c.size > 64<<10 {
		return
	}
	c.buf = bytes.Buffer{}
	c.dec.Reset(&c.buf)
	c.wrong, c.unknown, c.partial = nil, nil, false
	checkers.Put(c)
}

func (c *checker) check(root *node) error {
	if err := c.whole(root); err != nil {
		return malformed(err)
	}
	if len(c.wrong) > 0 {
		return fault.BadFields(c.wrong...)
	}
	return nil
}

func (c *checker) whole(root *node) error {
	if tooDeep(c.buf.Bytes()) {
		return errDepth
	}
	if err := c.value(root); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errEmpty
		}
		return err
	}
	if _, err := c.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// tooDeep reports whether data nests deeper than MaxDepth, by counting brackets
// outside of strings. For bytes that are not JSON the result has no meaning.
func tooDeep(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		}
	}
	return false
}

// value reads one value. Its error is the decoder's; invalid values are
// collected in c.wrong.
func (c *checker) value(n *node) error {
	if n == nil {
		return c.dec.SkipValue()
	}
	kind := kindOf(c.dec.PeekKind())
	if n.takes&kind == 0 {
		if err := c.dec.SkipValue(); err != nil {
			return err
		}
		c.fail(violation{fault.CodeType, n.expected, params{"type": n.typeNames()}})
		return nil
	}
	switch kind {
	case isObject:
		return c.object(n)
	case isArray:
		return c.array(n)
	case isString:
		return c.text(n)
	case isNumber:
		return c.number(n)
	}
	return c.dec.SkipValue()
}

func kindOf(k jsontext.Kind) kinds {
	switch k {
	case 'n':
		return isNull
	case 't', 'f':
		return isBool
	case '"':
		return isString
	case '0':
		return isNumber
	case '{':
		return isObject
	case '[':
		return isArray
	}
	return 0
}

func (c *checker) object(n *node) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	var seen uint64
	members := 0
	for c.dec.PeekKind() != '}' {
		raw, err := c.dec.ReadValue()
		if err != nil {
			return err
		}
		members++
		name := c.unquote(raw)
		p := n.props[string(name)]
		switch {
		case p != nil:
			seen |= p.bit
			err = c.member(p)
		case n.closed:
			if err = c.dec.SkipValue(); err == nil {
				c.fail(violation{fault.CodeUnknown, "there is no such field", nil})
			}
		default:
			if n.ignoresUnknown() {
				c.noteUnknown(n, string(name))
			}
			err = c.value(n.extra)
		}
		if err != nil {
			return err
		}
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	if n.maxMembers >= 0 && members > n.maxMembers {
		c.fail(violation{fault.CodeTooMany, "expected at most " + strconv.Itoa(n.maxMembers) + " members", params{"max": n.maxMembers}})
	}
	if !c.partial {
		for _, p := range n.required {
			if seen&p.bit == 0 {
				c.failAt(join(c.path(), p.name), c.pointer().AppendToken(p.name), violation{fault.CodeRequired, fault.Missing, nil})
			}
		}
	}
	return nil
}

func (c *checker) member(p *property) error {
	if c.partial && c.dec.PeekKind() == 'n' && p.node != nil && p.node.takes&isNull == 0 {
		if err := c.dec.SkipValue(); err != nil {
			return err
		}
		if p.required {
			c.fail(violation{fault.CodeRequired, "required: it cannot be cleared", nil})
		}
		return nil
	}
	return c.value(p.node)
}

func (c *checker) array(n *node) error {
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	count := 0
	for c.dec.PeekKind() != ']' {
		item := n.items
		if n.maxItems >= 0 && count >= n.maxItems {
			item = nil
		}
		if err := c.value(item); err != nil {
			return err
		}
		count++
	}
	if _, err := c.dec.ReadToken(); err != nil {
		return err
	}
	switch {
	case count < n.minItems:
		c.fail(violation{fault.CodeTooFew, "expected at least " + plural(n.minItems, "item"), params{"min": n.minItems}})
	case n.maxItems >= 0 && count > n.maxItems:
		c.fail(violation{fault.CodeTooMany, "expected at most " + plural(n.maxItems, "item"), params{"max": n.maxItems}})
	}
	return nil
}

func (c *checker) text(n *node) error {
	raw, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	s := c.unquote(raw)
	if wrong := n.textViolation(s); wrong.code != "" {
		c.fail(wrong)
	}
	return nil
}

// violation is what is wrong with a value; the zero one is nothing.
type violation struct {
	code    string
	message string
	params  params
}

type params = map[string]any

func (n *node) textViolation(s []byte) violation {
	if n.enum != nil {
		if !slices.ContainsFunc(n.enum, func(e string) bool { return e == string(s) }) {
			return violation{fault.CodeEnum, "expected one of " + n.enumText, params{"allowed": n.enum}}
		}
		return violation{}
	}
	if n.minLen > 0 || n.maxLen >= 0 {
		length := utf8.RuneCount(s)
		switch {
		case length < n.minLen:
			return violation{fault.CodeTooShort, "expected at least " + plural(n.minLen, "character"), params{"min": n.minLen}}
		case n.maxLen >= 0 && length > n.maxLen:
			return violation{fault.CodeTooLong, "expected at most " + plural(n.maxLen, "character"), params{"max": n.maxLen}}
		}
	}
	switch {
	case n.pattern != nil && !n.pattern.Match(s):
		return violation{fault.CodePattern, "expected text that matches " + n.pattern.String(), params{"pattern": n.pattern.String()}}
	case n.format.valid != nil && !n.format.valid(string(s)):
		return violation{fault.CodeFormat, n.format.expected, params{"format": n.formatName}}
	case bytes.IndexByte(s, 0) >= 0:
		return violation{fault.CodeInvalid, "expected text without the NUL character", nil} // which databases do not store
	}
	return violation{}
}

func (n *node) numberViolation(raw string) violation {
	if n.integer {
		if _, err := strconv.ParseInt(raw, 10, n.bits); err != nil {
			if errors.Is(err, strconv.ErrRange) {
				return violation{fault.CodeType, "expected a whole number that fits " + strconv.Itoa(n.bits) + " bits", params{"type": n.typeNames()}}
			}
			return violation{fault.CodeType, "expected a whole number, without fraction or exponent", params{"type": n.typeNames()}}
		}
		if !n.bounded {
			return violation{}
		}
	}
	v, err := strconv.ParseFloat(raw, 64)
	switch {
	case err != nil, math.IsInf(v, 0), math.IsNaN(v): // text may say NaN
		return violation{fault.CodeType, "expected a number that fits 64 bits", params{"type": n.typeNames()}}
	case v < n.least:
		return violation{fault.CodeTooSmall, "expected at least " + decimal(n.least), params{"min": n.least}}
	case v > n.most:
		return violation{fault.CodeTooLarge, "expected at most " + decimal(n.most), params{"max": n.most}}
	case n.bounded && v <= n.above:
		return violation{fault.CodeTooSmall, "expected more than " + decimal(n.above), params{"above": n.above}}
	case n.bounded && v >= n.below:
		return violation{fault.CodeTooLarge, "expected less than " + decimal(n.below), params{"below": n.below}}
	}
	return violation{}
}

func (c *checker) number(n *node) error {
	raw, err := c.dec.ReadValue()
	if err != nil {
		return err
	}
	if wrong := n.numberViolation(string(raw)); wrong.code != "" {
		c.fail(wrong)
	}
	return nil
}

// unquote returns the text of a valid JSON string, in place if nothing in it is
// escaped; it is valid until the next call.
func (c *checker) unquote(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil // an object name that is not a string: the decoder refused it
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	c.scratch, _ = jsontext.AppendUnquote(c.scratch[:0], raw)
	return c.scratch
}

// fail records that the value that was read last is invalid.
func (c *checker) fail(v violation) {
	if len(c.wrong) < maxWrong {
		c.failAt(c.path(), c.pointer(), v)
	}
}

func (c *checker) failAt(path string, pointer jsontext.Pointer, v violation) {
	if len(c.wrong) >= maxWrong {
		return
	}
	if path == "" {
		path = "body"
	}
	at := string(pointer)
	c.wrong = append(c.wrong, fault.Field{Field: path, Message: v.message, Pointer: &at, Code: v.code, Params: v.params})
}

func (c *checker) pointer() jsontext.Pointer { return c.dec.StackPointer() }

// path returns the place of the value that was read last: skills[2].name.
func (c *checker) path() string {
	var b strings.Builder
	level := 0
	for token := range c.dec.StackPointer().Tokens() {
		level++
		kind := jsontext.Kind('{')
		if level <= c.dec.StackDepth() {
			kind, _ = c.dec.StackIndex(level)
		}
		switch {
		case kind == '[':
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
