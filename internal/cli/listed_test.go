package cli

import (
	"strings"
	"testing"

	"agentd/internal/client"
)

// TestUnknownIDsNameTheirList: a refusal of an id that does not exist names the command
// that lists those that do, and that command exists.
func TestUnknownIDsNameTheirList(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, node := range modelOfCommands(t).Leaves(true) {
		known[strings.TrimPrefix(node.Path(), "agentd ")] = true
	}
	for what, list := range lists {
		got := explain(&client.Problem{Status: 404, Detail: "There is no such " + what + " in this company.", Code: "NOT_FOUND"})
		if want := "There is no such " + what + " in this company. (NOT_FOUND)\nThey are listed by:  agentd " + list; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !known[list] {
			t.Errorf("there is no command %q", list)
		}
	}
	for _, detail := range []string{"There is no such step in this company.", "There is nothing at this path.", ""} {
		if got := explain(&client.Problem{Status: 404, Detail: detail}); got != detail {
			t.Errorf("%q", got)
		}
	}
}
