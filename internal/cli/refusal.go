package cli

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"agentd/internal/base/text"
)

// refusal words an error of the parser: what is wrong, where, and what would be
// right.
func refusal(err *kong.ParseError) string {
	said := err.Error()
	node := err.Context.Model.Node
	for _, at := range err.Context.Path {
		if at.Command != nil {
			node = at.Command
		}
	}
	if m := unexpectedArgument.FindStringSubmatch(said); m != nil {
		return unexpected(node, m[1])
	}
	if m := expectedArgument.FindStringSubmatch(said); m != nil {
		return "the argument " + m[1] + " is missing: " + argumentHelp(node, m[1])
	}
	if names, ok := strings.CutPrefix(said, "missing flags: "); ok {
		return "these flags are needed: " + names
	}
	if strings.HasPrefix(said, "expected one of ") {
		return "say what to do: " + strings.Join(commandNames(node), ", ")
	}
	return said
}

var (
	unexpectedArgument = regexp.MustCompile(`^unexpected argument (.+?)(?:, did you mean .*)?$`)
	expectedArgument   = regexp.MustCompile(`^expected "(<[^">]+>(?: \.\.\.)?)`)
)

// unexpected says what is wrong with a word that no argument takes.
func unexpected(node *kong.Node, word string) string {
	names := commandNames(node)
	switch {
	case len(names) > 0:
		said := "there is no command " + strconvQuote(word)
		if node.Type == kong.CommandNode {
			said += " of " + strconvQuote(strings.TrimPrefix(node.FullPath(), "agentd "))
		}
		if near := text.Nearest(word, names); near != "" {
			return said + "; did you mean " + strconvQuote(near) + "?"
		}
		return said + "; there are " + strings.Join(names, ", ")
	case len(node.Positional) > 0:
		last := node.Positional[len(node.Positional)-1]
		return "the argument " + strconvQuote(word) + " is one too many after " + last.Summary() + "; put a text of several words in quotes"
	}
	return "the argument " + strconvQuote(word) + " is one too many; this command takes flags only"
}

// argumentHelp is the help text of an argument.
func argumentHelp(node *kong.Node, summary string) string {
	for _, p := range node.Positional {
		if strings.HasPrefix(summary, "<"+p.Name+">") {
			return p.Help
		}
	}
	return "see the help"
}

func commandNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

func strconvQuote(s string) string { return `"` + strings.ReplaceAll(oneLine(s), `"`, `\"`) + `"` }
