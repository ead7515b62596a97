package tool

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/jsonform"
)

// compile compiles the schema of a tool's parameters.
func compile(schema jsontext.Value) (*jsonform.Schema, error) {
	compiled, err := jsonform.Compile(schema, "the schema of its parameters")
	if err != nil {
		return nil, err
	}
	if !compiled.OfObject() {
		return nil, errors.New("the schema of its parameters is not of type object")
	}
	return compiled, nil
}

// validate returns a sentence for the model about what is wrong with the
// arguments, or "" if they are valid.
func (e *entry) validate(arguments string) string {
	problem, detail := e.schema.Check(arguments, "the arguments")
	switch problem {
	case jsonform.None:
		return ""
	case jsonform.TooDeep:
		return fmt.Sprintf("The arguments nest deeper than %d levels. Call %s again with flatter ones.", jsonform.MaxDepth, e.Name)
	case jsonform.NotJSON:
		return fmt.Sprintf("The arguments are not valid JSON (%s). Call %s again with a JSON object.", detail, e.Name)
	case jsonform.TooCostly:
		return fmt.Sprintf("The arguments of %s cannot be checked.", e.Name)
	}
	message := fmt.Sprintf("The arguments do not fit: %s. Call %s again with arguments that fit its schema", detail, e.Name)
	if len(e.Parameters) > 4<<10 { // the model has it already
		return message + "."
	}
	return message + ": " + string(e.Parameters)
}
