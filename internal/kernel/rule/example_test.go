package rule_test

import (
	"context"
	"fmt"

	"agentd/internal/kernel/rule"
)

func ExampleCompile() {
	needsApproval, err := rule.Compile(`arguments.amount > 100`, "arguments")
	if err != nil {
		panic(err)
	}
	yes, err := needsApproval.True(context.Background(), map[string]any{"arguments": map[string]any{"amount": 250.0}})
	fmt.Println(yes, err)

	_, err = rule.Compile(`amount > 100`, "arguments")
	fmt.Println(err)
	// Output:
	// true <nil>
	// line 1, column 1: undeclared reference to 'amount'
}
