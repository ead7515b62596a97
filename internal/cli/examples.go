package cli

import (
	"strings"

	"github.com/alecthomas/kong"
)

// exampleText is the example of a command as its help shows it.
func exampleText(node *kong.Node) string {
	example := examples[strings.TrimPrefix(node.FullPath(), "agentd ")]
	if example == "" {
		return ""
	}
	return "Example:\n\n    " + strings.ReplaceAll(strings.TrimSpace(example), "\n", "\n    ")
}

// examples has command lines for each command.
var examples = map[string]string{}
