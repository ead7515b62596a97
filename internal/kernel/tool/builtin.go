package tool

import (
	"context"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for systems without a time zone database

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/kernel/tool/calc"
)

// Builtins returns the tools that need no other service.
func Builtins(c clock.Clock) []Tool {
	return []Tool{calculator(), currentTime(c), askUser()}
}

func calculator() Tool {
	return Tool{
		Name: "calculator",
		Description: "Evaluates an arithmetic expression exactly. Operators: + - * / % (modulo) ^ (power), parentheses. " +
			"Functions: sqrt, abs, min, max, round(x, digits), floor, ceil, log (natural, or log(x, base)), log10, log2, exp, " +
			"sin, cos, tan (radians). Constants: pi, e.",
		Parameters: jsontext.Value(`{"type":"object","properties":{"expression":{"type":"string","minLength":1,"maxLength":1000,` +
			`"description":"The expression, for example (2 + 3) * 4 / 7"}},"required":["expression"],"additionalProperties":false}`),
		ReadOnly: true,
		Run: func(_ context.Context, call Call) (Result, error) {
			var args struct {
				Expression string `json:"expression"`
			}
			if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
				return Result{}, err
			}
			value, err := calc.Eval(args.Expression)
			if err != nil {
				return Failure("The expression cannot be calculated: " + err.Error() + "."), nil
			}
			return Result{Output: value}, nil
		},
	}
}

func currentTime(c clock.Clock) Tool {
	return Tool{
		Name:        "current_time",
		Description: "Tells the current date and time in RFC 3339, in UTC or in a time zone.",
		Parameters: jsontext.Value(`{"type":"object","properties":{"timezone":{"type":["string","null"],"maxLength":64,` +
			`"description":"Name of a time zone, for example Europe/Berlin; UTC if left out"}},"additionalProperties":false}`),
		ReadOnly: true,
		Run: func(_ context.Context, call Call) (Result, error) {
			var args struct {
				Timezone string `json:"timezone"`
			}
			if err := json.Unmarshal([]byte(call.Arguments), &args); err != nil {
				return Result{}, err
			}
			// "Local" would reveal where the server is.
			zone, err := time.LoadLocation(strings.TrimSpace(args.Timezone))
			if err != nil || zone == time.Local {
				return Failure(fmt.Sprintf("The time zone %q is not known. Use a name like Europe/Berlin, America/New_York or UTC.",
					args.Timezone)), nil
			}
			return Result{Output: c.Now().In(zone).Format(time.RFC3339)}, nil
		},
	}
}

// askUser is offered to models like any other tool, but the engine does not run
// it: a run that calls it waits for a person's answer. Only a call without a
// question is run, and fails.
func askUser() Tool {
	return Tool{
		Name:        "ask_user",
		Description: "Asks a person a question and waits for the answer, which may take long. Use it where you cannot go on without knowing.",
		Parameters: jsontext.Value(`{"type":"object","properties":{"question":{"type":"string","minLength":1,"maxLength":10000,` +
			`"description":"The question, complete in itself"}},"required":["question"]}`),
		ReadOnly: true,
		Run: func(context.Context, Call) (Result, error) {
			return Failure("The question is blank; ask one."), nil
		},
	}
}

// Question returns the question in the arguments of a call of ask_user, or "" if
// there is none.
func Question(arguments string) string {
	var args struct {
		Question string `json:"question"`
	}
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return ""
	}
	return strings.TrimSpace(args.Question)
}
