package rule

import (
	"context"
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"agentd/internal/base/cache"
	"agentd/internal/base/pattern"
)

// stepsOfCost is how many steps of a regular expression cost as much as reading ten
// bytes: a rule may make 320 million of them.
const stepsOfCost = 16

var patterns = cache.New(cache.Options[string, *pattern.Pattern]{Most: 200})

func patternOf(expression string) (*pattern.Pattern, error) {
	if p, ok := patterns.Get(expression); ok {
		return p, nil
	}
	p, err := pattern.Compile(expression)
	if err == nil {
		patterns.Set(expression, p)
	}
	return p, err
}

// matches implements the function of the same name. That of the library is not bounded:
// one call with a large program on a large text takes minutes.
func matches(values ...ref.Val) ref.Val {
	if len(values) != 2 {
		return types.NoSuchOverloadErr()
	}
	text, isText := values[0].(types.String)
	expression, isExpression := values[1].(types.String)
	if !isText || !isExpression {
		return types.NoSuchOverloadErr()
	}
	p, err := patternOf(string(expression))
	if err != nil {
		return types.WrapErr(err)
	}
	found, err := p.Match(context.Background(), string(text), pattern.NewBudget(pattern.MaxSteps))
	if err != nil {
		return types.WrapErr(errors.Join(ErrTooExpensive, err))
	}
	return types.Bool(found)
}

// boundedMatches returns the options that put matches in the place of the library's
// function, for constant expressions and others.
func boundedMatches() []cel.ProgramOption {
	replace := func(call interpreter.InterpretableCall) interpreter.InterpretableCall {
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), matches)
	}
	var constants []*interpreter.RegexOptimization
	for _, overload := range []string{overloads.Matches, overloads.MatchesString} {
		constants = append(constants, &interpreter.RegexOptimization{
			Function: overloads.Matches, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, expression string) (interpreter.InterpretableCall, error) {
				if _, err := patternOf(expression); err != nil {
					return nil, fmt.Errorf("error parsing regexp: %w", err)
				}
				return replace(call), nil
			},
		})
	}
	return []cel.ProgramOption{
		cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
			if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == overloads.Matches {
				return replace(call), nil
			}
			return i, nil
		}),
		cel.OptimizeRegex(constants...),
		cel.CostTracking(costs{}),
	}
}

// costs has the cost of matches, which the library does not know: that of a{1000} is
// not that of its seven characters.
type costs struct{}

// CallCost implements cost.ActualCostEstimator.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != overloads.Matches || len(args) != 2 {
		return nil
	}
	text, isText := args[0].(types.String)
	expression, isExpression := args[1].(types.String)
	if !isText || !isExpression {
		return nil
	}
	p, err := patternOf(string(expression))
	if err != nil {
		return nil
	}
	cost := uint64(p.Size()*len(text)/stepsOfCost) + 1
	return &cost
}
