package guardrail

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentd/internal/base/fault"
	"agentd/internal/base/pattern"
)

type regexFinder struct {
	pattern     *pattern.Pattern
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
	size := 0
	for i, p := range patterns {
		one, err := pattern.Compile(p)
		switch {
		case err != nil:
			add(names[i], err.Error())
		case one.MatchString(""):
			add(names[i], "matches the empty text, and therefore every text")
		default:
			size += one.Size()
		}
	}
	if size > pattern.MaxSize {
		add(cmp.Or(names...), "the patterns together are too large; use fewer or smaller repetitions")
	}
	if errs != nil {
		return compiled{}, errs
	}
	all, err := pattern.Compile("(?:" + strings.Join(patterns, ")|(?:") + ")")
	if err != nil {
		return compiled{}, []fault.Field{{Field: cmp.Or(names...), Message: "the patterns cannot be combined"}}
	}
	return compiled{in.Common, &spanChecker{find: regexFinder{all, in.replacement()}, whole: true}}, nil
}

func (r regexFinder) find(s *search, text string) (match, error) {
	replaced, found, err := r.pattern.Replace(s.ctx, text, r.replacement, s.budget)
	if !found || err != nil {
		return match{}, err
	}
	return match{text: replaced, what: []string{"pattern"}}, nil
}

func (regexFinder) because([]string) string { return "one of its patterns matches" }
