// Package jsonform checks JSON texts that models write against a JSON Schema: the
// arguments of tools, and answers whose form the caller set (response_format). What a
// check costs is bounded, whatever schema and text are.
package jsonform

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/internal/base/pattern"
	"agentd/internal/base/text"
)

// Bounds of a schema, and of the text that it checks. The schemas of MCP
// tools come from outside, and a few hundred bytes of nested references can
// demand exponentially many checks.
const (
	maxSchema   = 64 << 10            // bytes
	maxDepth    = 64                  // of nested objects and arrays
	maxSteps    = 1 << 26             // of the regular expressions in one check
	maxPatterns = 5 * pattern.MaxSize // instructions of all regular expressions
	maxChecks   = 1 << 16             // subschemas applied for one text, plus one for each byte of it
)

// Schema is a compiled schema that bounds the cost of a check. It is safe for
// concurrent use; one check runs at a time.
type Schema struct {
	mu     sync.Mutex
	schema *jsonschema.Schema
	budget int             // subschemas that the current check may still apply
	size   int             // of the regular expressions together
	steps  *pattern.Budget // that they may still take in the current check
}

// countedPattern is a regular expression whose matches count against the check's budget.
type countedPattern struct {
	*pattern.Pattern
	expression string
	of         *Schema
}

// String implements jsonschema.Regexp.
func (p countedPattern) String() string { return p.expression }

// MatchString implements jsonschema.Regexp.
func (p countedPattern) MatchString(text string) bool {
	if p.of.steps.Spend(p.Pattern, len(text)) != nil {
		panic(errCostly)
	}
	return p.Pattern.MatchString(text)
}

// pattern compiles the value of a keyword pattern or a name of patternProperties.
func (c *Schema) pattern(expression string) (jsonschema.Regexp, error) {
	p, err := pattern.Compile(expression)
	if err != nil {
		return nil, err
	}
	if c.size += p.Size(); c.size > maxPatterns {
		return nil, fmt.Errorf("the schema's regular expressions together compile to more than %d instructions; use fewer or smaller repetitions",
			maxPatterns)
	}
	return countedPattern{p, expression, c}, nil
}

var errCostly = errors.New("jsonform: the schema costs too much to check")

// Validate implements jsonschema.SchemaExt. The extension is part of every
// subschema and counts how many are applied.
func (c *Schema) Validate(*jsonschema.ValidatorContext, any) {
	if c.budget--; c.budget < 0 {
		panic(errCostly) // the only way to abort a check
	}
}

func (c *Schema) check(value any, size int) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			if p != errCostly {
				panic(p)
			}
			err = errCostly
		}
	}()
	c.budget, c.steps = maxChecks+size, pattern.NewBudget(maxSteps)
	return c.schema.Validate(value)
}

// Compile compiles a schema; what names it in errors. A schema must not refer to
// others: the loader that is set here loads nothing, while the default one would
// read files.
func Compile(schema jsontext.Value, what string) (*Schema, error) {
	if len(schema) > maxSchema || depth(string(schema)) > maxDepth {
		return nil, fmt.Errorf("%s is longer than %d bytes or deeper than %d levels", what, maxSchema, maxDepth)
	}
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", what, err)
	}
	const name = "schema.json"
	check := new(Schema)
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(check.pattern)
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "agentd:cost",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return check, nil },
	})
	c.AssertVocabs()
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	check.schema = compiled
	return check, nil
}

// OfObject reports whether only objects fit the schema.
func (c *Schema) OfObject() bool {
	return c.schema.Types != nil && c.schema.Types.String() == "[object]"
}

// Problem is what is wrong with a text.
type Problem int

// The problems.
const (
	None       Problem = iota
	TooDeep            // it nests deeper than MaxDepth
	NotJSON            // detail is where
	TooCostly          // it cannot be checked at a bounded cost
	DoesNotFit         // detail is what does not fit, and where
)

// MaxDepth is how deep a text may nest.
const MaxDepth = maxDepth

// Check reports what is wrong with a text, in words for the model that wrote it;
// whole names the top level of the text.
func (c *Schema) Check(written, whole string) (p Problem, detail string) {
	if depth(written) > maxDepth {
		return TooDeep, ""
	}
	var value any
	if err := json.Unmarshal([]byte(written), &value); err != nil {
		return NotJSON, syntax(err)
	}
	err := c.check(value, len(written))
	if err == nil {
		return None, ""
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return DoesNotFit, problems(invalid, whole)
	}
	return TooCostly, ""
}

// depth returns how deep objects and arrays nest in a JSON text.
func depth(text string) (deepest int) {
	open, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

func syntax(err error) string {
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return "unreadable"
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("the name at %s is duplicated", e.JSONPointer)
	}
	return fmt.Sprintf("at byte %d", e.ByteOffset)
}

// problems lists what is wrong and where: the first few problems only.
func problems(e *jsonschema.ValidationError, whole string) string {
	const (
		maxProblems = 5
		maxProblem  = 503 // bytes: it may quote what the model sent
	)
	var list []string
	for _, unit := range e.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		where := unit.InstanceLocation
		if where == "" {
			where = whole
		}
		if list = append(list, text.TruncateBytes(where+": "+unit.Error.String(), maxProblem)); len(list) == maxProblems {
			break
		}
	}
	return strings.Join(list, "; ")
}
