// Package rule evaluates conditions that tenants write, in the Common
// Expression Language: arguments.amount > 100 && tool == "pay".
//
// Values are those of JSON: map[string]any, []any, float64, string, bool, nil;
// Go's whole numbers may stand among them. Numbers compare by value whatever
// their type: arguments.amount > 100 holds of 100.5, and arguments.n == 1 of
// 1.0. Arithmetic wants equal types, and numbers of JSON are doubles:
// arguments.amount * 2.0, or int(arguments.n) % 2.
//
// A missing key is an error, not false: has(arguments.amount) tests for it. As
// that language defines && and ||, an error on one side does not matter if the
// other side decides.
package rule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"agentd/internal/base/cache"
	"agentd/internal/base/pattern"
)

const (
	// MaxLength is how many bytes a source may have.
	MaxLength = 8 << 10

	// A rule over a text of 10 MiB passes; one that multiplies lists with each
	// other, or doubles a text again and again, does not.
	maxCost   = 20_000_000
	maxMemory = 2 << 20     // of one value: its elements, and a tenth of its text's bytes
	maxTime   = time.Second // checked in loops; a single search is bounded by its cost
	maxDepth  = 100         // of nested expressions
	maxRegex  = pattern.MaxSize

	// cachedSource bounds the compiled rules that are kept, by their sources.
	cachedSource = 256 << 10
)

// Rule is a compiled condition. It is safe for concurrent use.
type Rule struct {
	program cel.Program
	simple  cel.Program // without counting its work; nil where that must be counted
	nodes   int         // of the expression, where it is simple
	length  int         // of the source
}

// ErrTooExpensive is returned by [Rule.True] if a rule exceeds the limits on
// work, memory or time.
var ErrTooExpensive = errors.New("the rule takes too long")

type key struct{ source, names string }

var compiled = cache.New(cache.Options[key, *Rule]{
	Weight: cachedSource,
	Weigh:  func(k key, _ *Rule) uint32 { return uint32(len(k.source) + len(k.names) + 64) },
})

// Compile returns the rule of a source in which names are the variables. Rules
// are cached and may be shared. The error is a sentence for the source's author:
// "line 1, column 9: undeclared reference to 'x'".
func Compile(source string, names ...string) (*Rule, error) {
	if strings.TrimSpace(source) == "" {
		return nil, errors.New("the rule is empty")
	}
	if len(source) > MaxLength {
		return nil, fmt.Errorf("the rule is longer than %d bytes", MaxLength)
	}
	k := key{source, strings.Join(names, ",")}
	if r, ok := compiled.Get(k); ok {
		return r, nil
	}
	r, err := compile(source, names)
	if err != nil {
		return nil, err
	}
	compiled.Set(k, r)
	return r, nil
}

// base is created once, since its standard library costs more than any rule.
var base = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.CrossTypeNumericComparisons(true),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(MaxLength),
		cel.ParserRecursionLimit(maxDepth),
		cel.RegexProgramSizeLimit(maxRegex),
	)
})

func compile(source string, names []string) (r *Rule, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = nil, errors.New("the rule cannot be compiled")
		}
	}()
	env, err := base()
	if err != nil {
		return nil, err
	}
	variables := make([]cel.EnvOption, len(names))
	for i, n := range names {
		variables[i] = cel.Variable(n, cel.DynType)
	}
	if env, err = env.Extend(variables...); err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, sentence(issues)
	}
	if t := ast.OutputType(); !slices.Contains([]*cel.Type{cel.BoolType, cel.DynType}, t) {
		return nil, fmt.Errorf("the rule gives a value of type %s; it must be true or false", t)
	}
	program, err := env.Program(ast, append(boundedMatches(), cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost),
		cel.MemoryLimit(maxMemory), cel.InterruptCheckFrequency(1))...)
	if err != nil {
		return nil, fmt.Errorf("the rule cannot be compiled: %s", firstLine(err.Error()))
	}
	r = &Rule{program: program, length: len(source)}
	if r.nodes = countSimple(ast); r.nodes > 0 {
		if r.simple, err = env.Program(ast, cel.EvalOptions(cel.OptOptimize)); err != nil {
			return nil, fmt.Errorf("the rule cannot be compiled: %s", firstLine(err.Error()))
		}
	}
	return r, nil
}

// sentence returns the compiler's first error; the others mostly follow from it.
func sentence(issues *cel.Issues) error {
	first := issues.Errors()
	if len(first) == 0 {
		return errors.New(firstLine(issues.String()))
	}
	said, at := firstLine(first[0].Message), first[0].Location
	// The tokens that the grammar expected are no help to a person.
	said, _, _ = strings.Cut(strings.TrimPrefix(said, "Syntax error: "), " expecting ")
	if at.Line() < 1 || at.Column() < 0 {
		return errors.New(said)
	}
	return fmt.Errorf("line %d, column %d: %s", at.Line(), at.Column()+1, said)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ToValidUTF8(s, "�")
}

// True reports whether the condition holds. vars has a value for every name. An
// error is a sentence for the rule's author (a missing key, values that do not
// compare, a result that is neither true nor false, ErrTooExpensive), or that of
// ctx.
func (r *Rule) True(ctx context.Context, vars map[string]any) (bool, error) {
	return r.eval(ctx, vars)
}

func (r *Rule) eval(ctx context.Context, vars any) (is bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			is, err = false, errors.New("the rule cannot be evaluated")
		}
	}()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out, _, err := r.program.ContextEval(bounded, vars)
	if err != nil {
		return false, explain(ctx, bounded, err)
	}
	return boolOf(out)
}

func boolOf(out ref.Val) (bool, error) {
	if b, ok := out.(types.Bool); ok {
		return bool(b), nil
	}
	return false, fmt.Errorf("the rule gave a value of type %s; it must be true or false", out.Type().TypeName())
}

func explain(ctx, bounded context.Context, err error) error {
	if e := ctx.Err(); e != nil {
		return e
	}
	said := firstLine(err.Error())
	if bounded.Err() != nil || errors.Is(err, ErrTooExpensive) || strings.Contains(said, "limit exceeded") {
		return ErrTooExpensive
	}
	if strings.HasPrefix(said, "no such overload") {
		return fmt.Errorf("an operator does not take values of these types (%s); "+
			"numbers of JSON are doubles, and arithmetic wants equal types: 2.0, not 2", said)
	}
	return errors.New(strings.TrimPrefix(said, "internal error: "))
}
