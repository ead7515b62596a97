package schema_test

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
)

func ExampleDecode() {
	type order struct {
		Name   string `json:"name" required:"true" maxLength:"10"`
		Amount int    `json:"amount" minimum:"1"`
	}
	_, err := schema.Decode[order]([]byte(`{"amount": 0}`))
	if refused, ok := errors.AsType[*fault.Error](err); ok {
		for _, f := range refused.Fields {
			fmt.Println(f.Field+":", f.Message)
		}
	}
	// Output:
	// amount: expected at least 1
	// name: required but missing
}

func ExampleMergePatch() {
	stored := jsontext.Value(`{"color":"red","size":4}`)
	changed, err := schema.MergePatch(stored, jsontext.Value(`{"size":null,"shape":"round"}`))
	fmt.Println(string(changed), err)
	// Output: {"color":"red","shape":"round"} <nil>
}
