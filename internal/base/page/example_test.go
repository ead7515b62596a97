package page_test

import (
	"fmt"

	"agentd/internal/base/page"
)

func ExampleCursors() {
	cursors := page.NewCursors([]byte("a secret of 16 bytes or more"))
	runs := page.Scope{Tenant: "acme", List: "runs"}
	cursor := cursors.Seal(runs, "run-42")

	position, err := cursors.Open(runs, cursor)
	fmt.Println(position, err)
	_, err = cursors.Open(page.Scope{Tenant: "other", List: "runs"}, cursor)
	fmt.Println(err != nil)
	// Output:
	// run-42 <nil>
	// true
}
