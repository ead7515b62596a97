package guardrail

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"agentd/internal/base/fault"
)

const (
	// maxProgram bounds the total size of a guardrail's patterns, in instructions of
	// the matching machine: in the worst case each inspects each byte.
	maxProgram = 2000
	// maxSteps bounds one check, which allows a megabyte with the largest program.
	maxSteps = 2 << 30
)

var errTooLarge = errors.New("the text is too large for its patterns")

type regexFinder struct {
	re          *regexp.Regexp
	program     int
	replacement string
}

// newRegex compiles the patterns to one expression, so that a text is read once.
func newRegex(in *regexConfig) (compiled, []fault.Field) {
	var errs []fault.Field
	add := func(field, message string) { errs = append(errs, fault.Field{Field: field, Message: message}) }
	patterns := slices.Clone(in.Patterns)
	var names []string
	for i := range patterns {
		names = append(names, fmt.Sprintf("patterns[%d]", i))
	}
	if in.Pattern != "" {
		patterns, names = append(patterns, in.Pattern), append(names, "pattern")
	}
	if len(patterns) == 0 {
		add("patterns", "at least one pattern is required")
	}
	program := 0
	for i, p := range patterns {
		n, message := measure(p)
		program += n
		if message != "" {
			add(names[i], message)
		}
	}
	if program > maxProgram {
		add(cmp.Or(names...), "the patterns together are too large; use fewer or smaller repetitions")
	}
	if errs != nil {
		return compiled{}, errs
	}
	re, err := regexp.Compile("(?:" + strings.Join(patterns, ")|(?:") + ")")
	if err != nil {
		return compiled{}, []fault.Field{{Field: cmp.Or(names...), Message: "the patterns cannot be combined"}}
	}
	return compiled{in.Common, &spanChecker{find: regexFinder{re, program, in.replacement()}, whole: true}}, nil
}

// measure returns the size of a pattern's program, or why it is invalid.
func measure(pattern string) (size int, message string) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			return 0, fmt.Sprintf("not a regular expression in RE2 syntax: %s: %q", e.Code, e.Expr)
		}
		return 0, "not a regular expression in RE2 syntax"
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return 0, "the regular expression cannot be compiled"
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return 0, "the regular expression cannot be compiled"
	}
	if re.MatchString("") {
		return 0, "matches the empty text, and therefore every text"
	}
	return len(program.Inst), ""
}

func (r regexFinder) find(text string) (match, error) {
	if r.program*len(text) > maxSteps {
		return match{}, errTooLarge
	}
	if !r.re.MatchString(text) {
		return match{}, nil
	}
	return match{text: r.re.ReplaceAllLiteralString(text, r.replacement), what: []string{"pattern"}}, nil
}

func (regexFinder) because([]string) string { return "one of its patterns matches" }
