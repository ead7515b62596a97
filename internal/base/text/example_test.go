package text_test

import (
	"fmt"

	"agentd/internal/base/text"
)

func ExampleTruncate() {
	title := text.OneLine("  The quarterly\n\treport  ")
	fmt.Println(title)
	fmt.Println(text.Truncate(title, 14))
	// Output:
	// The quarterly report
	// The quarterly…
}
