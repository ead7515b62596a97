package tool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compile makes a validator. Schemas are whole in themselves: the loader
// that is set here loads nothing, while the default one would read files.
func compile(schema jsontext.Value) (*jsonschema.Schema, error) {
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		return nil, fmt.Errorf("the schema of its parameters is not JSON: %w", err)
	}
	const name = "parameters.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	if compiled.Types == nil || compiled.Types.String() != "[object]" {
		return nil, errors.New("the schema of its parameters is not of type object")
	}
	return compiled, nil
}

// validate says in a sentence to the model what is wrong with the arguments;
// "" where nothing is.
func (e *entry) validate(arguments string) string {
	var value any
	if err := json.Unmarshal([]byte(arguments), &value); err != nil {
		return fmt.Sprintf("The arguments are not valid JSON (%s). Call %s again with a JSON object.", syntax(err), e.Name)
	}
	err := e.schema.Validate(value)
	if err == nil {
		return ""
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return fmt.Sprintf("The arguments of %s cannot be checked.", e.Name)
	}
	return fmt.Sprintf("The arguments do not fit: %s. Call %s again with arguments that fit its schema: %s", problems(invalid), e.Name, e.Parameters)
}

func syntax(err error) string {
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return "unreadable"
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("the name at %s is there twice", e.JSONPointer)
	}
	return fmt.Sprintf("at byte %d", e.ByteOffset)
}

// problems lists what is wrong and where, a few at most.
func problems(e *jsonschema.ValidationError) string {
	const most = 5
	var list []string
	for _, unit := range e.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		where := unit.InstanceLocation
		if where == "" {
			where = "the arguments"
		}
		if list = append(list, where+": "+unit.Error.String()); len(list) == most {
			break
		}
	}
	return strings.Join(list, "; ")
}
