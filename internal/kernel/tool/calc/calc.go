// Package calc evaluates arithmetic expressions, exactly where that is
// possible: numbers are fractions, and only roots, logarithms and the like are
// rounded, to 15 digits. Time and memory are bounded for every expression.
//
// Operators, from highest to lowest precedence: ^ (power, right-associative),
// unary + and -, * / % (modulo with the sign of the divisor), + and -. "**"
// means ^; "×", "·", "÷", "−" and "π" are accepted. Functions: sqrt, abs, min, max, round(x),
// round(x, digits), floor, ceil, log(x) (natural, also ln), log(x, base),
// log10, log2, exp, sin, cos, tan (radians). Constants: pi, e.
package calc

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxLength   = 1000    // bytes of an expression
	maxBits     = 1 << 14 // of a numerator or denominator: about 4,900 digits
	maxExponent = 4000    // of a number written as 1e5
)

var errEmpty = errors.New("the expression is empty")

// Eval returns the value of an expression in decimal. Errors are sentences for
// the author of the expression.
func Eval(expression string) (string, error) {
	if len(expression) > maxLength {
		return "", fmt.Errorf("the expression is longer than %d characters", maxLength)
	}
	p := &parser{text: rewrite.Replace(expression)}
	p.skip()
	if p.at == len(p.text) {
		return "", errEmpty
	}
	n, err := p.sum()
	if err != nil {
		return "", err
	}
	if p.at < len(p.text) {
		return "", p.unexpected("an operator")
	}
	return n.String(), nil
}

var rewrite = strings.NewReplacer("**", "^", "×", "*", "·", "*", "÷", "/", "−", "-", "π", "pi")

// parser evaluates an expression while parsing it. maxLength bounds its depth.
type parser struct {
	text string
	at   int
}

func (p *parser) skip() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// accept skips one of the symbols and the space after it, if it is next.
func (p *parser) accept(symbols string) (byte, bool) {
	if p.at == len(p.text) || strings.IndexByte(symbols, p.text[p.at]) < 0 {
		return 0, false
	}
	symbol := p.text[p.at]
	p.at++
	p.skip()
	return symbol, true
}

func (p *parser) unexpected(wanted string) error {
	if p.at == len(p.text) {
		return fmt.Errorf("the expression ends where %s should be", wanted)
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return fmt.Errorf("there is %q at character %d where %s should be", r, utf8.RuneCountInString(p.text[:p.at])+1, wanted)
}

func (p *parser) sum() (number, error) {
	return p.chain("+-", p.product)
}

func (p *parser) product() (number, error) {
	return p.chain("*/%", p.signed)
}

// chain evaluates left-associative operators of one precedence.
func (p *parser) chain(operators string, operand func() (number, error)) (number, error) {
	left, err := operand()
	for err == nil {
		operator, ok := p.accept(operators)
		if !ok {
			break
		}
		var right number
		if right, err = operand(); err == nil {
			left, err = binary(operator, left, right)
		}
	}
	return left, err
}

func (p *parser) signed() (number, error) {
	sign, ok := p.accept("+-")
	if !ok {
		return p.power()
	}
	n, err := p.signed()
	if err == nil && sign == '-' {
		n = n.negated()
	}
	return n, err
}

func (p *parser) power() (number, error) {
	base, err := p.operand()
	if err != nil {
		return number{}, err
	}
	if _, ok := p.accept("^"); !ok {
		return base, nil
	}
	exponent, err := p.signed()
	if err != nil {
		return number{}, err
	}
	return power(base, exponent)
}

func (p *parser) operand() (number, error) {
	if _, ok := p.accept("("); ok {
		n, err := p.sum()
		if err == nil {
			err = p.expect(")")
		}
		return n, err
	}
	if p.at < len(p.text) && (isDigit(p.text[p.at]) || p.text[p.at] == '.') {
		return p.number()
	}
	name := p.name()
	if name == "" {
		return number{}, p.unexpected("a number")
	}
	if constant, ok := constants[name]; ok {
		return constant, nil
	}
	call, ok := functions[name]
	if !ok {
		return number{}, fmt.Errorf("%q is not known; the functions are %s, the constants pi and e", name, functionNames)
	}
	args, err := p.arguments(name)
	if err != nil {
		return number{}, err
	}
	n, err := call(args)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return n, err
}

func (p *parser) expect(symbol string) error {
	if _, ok := p.accept(symbol); !ok {
		return p.unexpected(strconv.Quote(symbol))
	}
	return nil
}

func (p *parser) arguments(name string) ([]number, error) {
	if err := p.expect("("); err != nil {
		return nil, fmt.Errorf("%s is a function: %w", name, err)
	}
	var args []number
	for {
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, n)
		if _, more := p.accept(","); !more {
			return args, p.expect(")")
		}
	}
}

func (p *parser) name() string {
	start := p.at
	for p.at < len(p.text) && (isLetter(p.text[p.at]) || p.at > start && isDigit(p.text[p.at])) {
		p.at++
	}
	name := strings.ToLower(p.text[start:p.at])
	p.skip()
	return name
}

// number reads 12, 1.5, .5, 1e9 and 2.5E-3.
func (p *parser) number() (number, error) {
	start := p.at
	p.digits()
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		p.digits()
	}
	mantissa := p.text[start:p.at]
	exponent := 0
	if rest := strings.TrimLeft(p.text[p.at:], "eE"); len(p.text)-p.at-len(rest) == 1 {
		digits := strings.TrimLeft(rest, "+-")
		if len(rest)-len(digits) <= 1 && digits != "" && isDigit(digits[0]) {
			p.at = len(p.text) - len(digits)
			from := p.at
			p.digits()
			n, err := strconv.Atoi(p.text[from:p.at])
			if err != nil || n > maxExponent {
				return number{}, fmt.Errorf("the exponent of %s is beyond %d", p.text[start:p.at], maxExponent)
			}
			if exponent = n; rest[0] == '-' {
				exponent = -n
			}
		}
	}
	text := p.text[start:p.at]
	p.skip()
	r, ok := new(big.Rat).SetString(mantissa)
	if !ok {
		return number{}, fmt.Errorf("%q is not a number", text)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent >= 0 {
		r.Mul(r, new(big.Rat).SetInt(scale))
	} else {
		r.Quo(r, new(big.Rat).SetInt(scale))
	}
	return exact(r)
}

func (p *parser) digits() {
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
}

func isDigit(b byte) bool  { return '0' <= b && b <= '9' }
func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
