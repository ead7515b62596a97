// Package pattern compiles and matches regular expressions that callers wrote, in RE2
// syntax, within bounds on what one takes.
//
// The time of a match grows with the size of the program that an expression compiles
// to, times the bytes of the text: a few characters such as a{0,1000} make a program of
// thousands of instructions, of which each may look at each byte.
package pattern

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

const (
	// MaxSize is how many instructions a program may have.
	MaxSize = 2000
	// MaxSteps bounds one match: the size of the program times the bytes that it reads.
	// It allows 128 KiB with the largest program, and takes 5 s in the worst case.
	MaxSteps = 1 << 28

	// stepsBetweenChecks is how many steps are made between two looks at the context:
	// those of 4 KiB with the largest program.
	stepsBetweenChecks = MaxSize * 4 << 10
	// stepsOfByte is what it takes to read a byte, beside the program.
	stepsOfByte = 64
)

// ErrSteps is returned if a match would take more than MaxSteps.
var ErrSteps = errors.New("the text is too large for the regular expression")

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	re   *regexp.Regexp
	size int
	// after finds the expression behind the first character of a text, which is the
	// one before it: \b and ^ look at that.
	after *regexp.Regexp
}

// Compile compiles an expression. The error says to its author what is wrong with it:
// "compiles to 5000 instructions; …".
func Compile(expression string) (*Pattern, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("not a regular expression in RE2 syntax: %s: %q", e.Code, e.Expr)
		}
		return nil, errors.New("not a regular expression in RE2 syntax")
	}
	// The size is estimated first, because compiling writes repetitions out.
	if n := estimate(tree); n > 2*MaxSize {
		return nil, errSize(n)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, errors.New("the regular expression cannot be compiled")
	}
	if n := len(program.Inst); n > MaxSize {
		return nil, errSize(n)
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, errors.New("the regular expression cannot be compiled")
	}
	// Not by tree.String, which looks at every letter of every class of characters. An
	// expression that ends within \Q takes the parenthesis for a letter.
	const behindOne = `\A(?s:.)(?s:.*?)(`
	after, err := regexp.Compile(behindOne + expression + `)`)
	if err != nil {
		after, err = regexp.Compile(behindOne + expression + `\E)`)
	}
	if err != nil {
		return nil, errors.New("the regular expression cannot be compiled")
	}
	return &Pattern{re: re, size: len(program.Inst), after: after}, nil
}

func errSize(n int) error {
	return fmt.Errorf("the regular expression compiles to %d instructions, and the limit is %d; use fewer or smaller repetitions", n, MaxSize)
}

// estimate returns about how many instructions an expression compiles to.
func estimate(re *syntax.Regexp) int {
	const enough = 1 << 20
	n := 1
	for _, sub := range re.Sub {
		n = min(n+estimate(sub), enough)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		n = min(n*max(times, 1), enough)
	default:
	}
	return n
}

// Size returns how many instructions the program has.
func (p *Pattern) Size() int { return p.size }

// Find returns the place of the first match in a text, nil if there is none. The
// caller bounds the text.
func (p *Pattern) Find(text []byte) []int { return p.re.FindIndex(text) }

// MatchString reports whether a text has a match. The caller bounds the text.
func (p *Pattern) MatchString(text string) bool { return p.re.MatchString(text) }

// Budget is how many steps several matches may still take together.
type Budget struct{ left int }

// NewBudget returns a budget.
func NewBudget(steps int) *Budget { return &Budget{steps} }

// Spend takes the steps of a match of a text from the budget. Errors: ErrSteps.
func (b *Budget) Spend(p *Pattern, text int) error {
	steps := p.size * (text + 1)
	if steps > b.left {
		return ErrSteps
	}
	b.left -= steps
	return nil
}

// Match reports whether a text has a match. Errors: ErrSteps; that of ctx, which ends
// the match.
func (p *Pattern) Match(ctx context.Context, text string, b *Budget) (bool, error) {
	if err := b.Spend(p, len(text)); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if p.size*len(text) <= stepsBetweenChecks {
		return p.re.MatchString(text), nil
	}
	r := p.reader(ctx, text, 0, len(text))
	return p.re.MatchReader(r), r.err
}

// Replace replaces every match, and reports whether there was any. Errors: ErrSteps,
// because looking for the next match may read the rest of the text for each of them;
// that of ctx, which ends the work.
func (p *Pattern) Replace(ctx context.Context, text, by string, b *Budget) (out string, found bool, err error) {
	if found, err = p.Match(ctx, text, b); !found || err != nil {
		return text, false, err
	}
	var made []byte
	copied, at, last := 0, 0, -1 // what was copied, where to search, where the last match ended
	for at <= len(text) {
		r := p.reader(ctx, text, at, b.left/(p.size+stepsOfByte))
		allowed := r.left
		var m []int
		if at == 0 {
			m = p.re.FindReaderIndex(r)
		} else {
			_, before := utf8.DecodeLastRuneInString(text[:at])
			r.at = at - before
			if m = p.after.FindReaderSubmatchIndex(r); m != nil {
				m = []int{m[2] + at - before, m[3] + at - before}
			}
		}
		if r.err != nil {
			return "", true, r.err
		}
		b.left -= (allowed - r.left) * (p.size + stepsOfByte)
		if m == nil {
			break
		}
		if m[1] > m[0] || m[0] != last { // an empty match right after a match is none
			made = append(append(made, text[copied:m[0]]...), by...)
			copied = m[1]
		}
		last = m[1]
		if at = m[1]; m[1] == m[0] {
			_, n := utf8.DecodeRuneInString(text[at:])
			at += max(n, 1)
		}
	}
	return string(append(made, text[copied:]...)), true, nil
}

func (p *Pattern) reader(ctx context.Context, text string, at, left int) *reader {
	return &reader{ctx: ctx, text: text, at: at, left: left, every: max(stepsBetweenChecks/p.size, 1)}
}

// reader reads a text for a match and ends it when the context ends, or when the match
// has read too much.
type reader struct {
	ctx   context.Context
	text  string
	at    int
	left  int // bytes that may be read
	every int // bytes between two looks at the context
	check int // bytes until the next one
	err   error
}

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (rune, int, error) {
	if r.at >= len(r.text) || r.err != nil {
		return 0, 0, io.EOF
	}
	c, n := utf8.DecodeRuneInString(r.text[r.at:])
	r.at += n
	r.left -= n
	if r.check -= n; r.check < 0 {
		r.check, r.err = r.every, r.ctx.Err()
	}
	if r.left < 0 && r.err == nil {
		r.err = ErrSteps
	}
	return c, n, nil
}
