package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Reference returns the reference of all commands as Markdown, for docs/cli.md.
func Reference() string {
	parser := newParser(newInvocation(context.Background(), Deps{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	}))
	var b strings.Builder
	group := ""
	for _, node := range parser.Model.Leaves(true) {
		if g := node.ClosestGroup(); g != nil && g.Title != group {
			group = g.Title
			fmt.Fprintf(&b, "## %s\n\n", group)
		}
		describeCommand(&b, node)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func describeCommand(b *strings.Builder, node *kong.Node) {
	fmt.Fprintf(b, "### %s\n\n%s\n\n", node.FullPath(), node.Help)
	language := "sh"
	if untested[commandPath(node)] {
		language = "text"
	}
	fmt.Fprintf(b, "```%s\n%s\n```\n\n", language, strings.TrimSpace(examples[commandPath(node)]))
	var rows []string
	for _, arg := range node.Positional {
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", arg.Summary(), cell(describe(arg))))
	}
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			if flag.Name == "help" || flag.Name == "version" || flag.Name == "json" || len(flag.Envs) > 0 {
				continue // they are said once, above
			}
			name := "--" + flag.Name
			if !flag.IsBool() {
				name += " " + flag.FormatPlaceHolder()
			}
			if flag.Short != 0 {
				name = "-" + string(flag.Short) + ", " + name
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, cell(describe(flag.Value))))
		}
	}
	if rows != nil {
		fmt.Fprintf(b, "| | |\n|---|---|\n%s\n", strings.Join(rows, ""))
	}
}

func cell(s string) string { return strings.ReplaceAll(oneLine(s), "|", `\|`) }
