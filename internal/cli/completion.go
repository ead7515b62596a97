package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completeWord is what the scripts of completion type to ask for candidates; it
// is no command of people.
const completeWord = "__complete"

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell: ${enum}."`
}

// Run implements the command.
func (cmd *completionCommand) Run(inv *invocation) error {
	script := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[cmd.Shell]
	_, err := fmt.Fprint(inv.stdout, strings.TrimLeft(script, "\n"))
	return err
}

// The scripts ask the program itself, so that they fit any version of it.
const (
	bashScript = `
# source <(agentd completion bash)
_agentd() {
	local word=${COMP_WORDS[COMP_CWORD]} candidates
	candidates=$("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1)
	local IFS=$'\n'
	COMPREPLY=($(compgen -W "$candidates" -- "$word"))
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _agentd agentd
`
	zshScript = `
#compdef agentd
# source <(agentd completion zsh)
_agentd() {
	local -a candidates
	candidates=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null | sed 's/:/\\:/g; s/\t/:/')}")
	if [ -n "${candidates[1]}" ]; then _describe 'agentd' candidates; else _files; fi
}
if [ "$funcstack[1]" = "_agentd" ]; then _agentd "$@"; else compdef _agentd agentd; fi
`
	fishScript = `
# agentd completion fish | source
function __agentd_candidates
	set -l words (commandline -opc) (commandline -ct)
	$words[1] __complete -- $words[2..-1] 2>/dev/null
end
complete -c agentd -a '(__agentd_candidates)'
`
)

// candidate is a word that may stand next, and what it means.
type candidate struct{ word, help string }

// complete prints the candidates for the last of some words, one a line.
func (inv *invocation) complete(parser *kong.Kong, words []string) {
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	for _, c := range candidates(parser.Model.Node, words[:len(words)-1], words[len(words)-1]) {
		fmt.Fprintf(inv.stdout, "%s\t%s\n", c.word, oneLine(c.help))
	}
}

// candidates are the commands, flags and values that may stand after some words
// and begin with another.
func candidates(node *kong.Node, before []string, word string) (found []candidate) {
	var awaits *kong.Flag // a flag whose value is the next word
	arguments := 0
	for _, w := range before {
		child := childNamed(node, w)
		switch {
		case awaits != nil:
			awaits = nil
		case strings.HasPrefix(w, "-"):
			if flag := flagNamed(node, w); flag != nil && !flag.IsBool() && !strings.Contains(w, "=") {
				awaits = flag
			}
		case child != nil:
			node, arguments = child, 0
		default:
			arguments++
		}
	}
	name, value, assigned := strings.Cut(word, "=")
	switch flag := flagNamed(node, name); {
	case awaits != nil:
		return values(awaits.Value, "", word)
	case assigned && flag != nil:
		return values(flag.Value, name+"=", value)
	case strings.HasPrefix(word, "-"):
		for _, flags := range node.AllFlags(true) {
			for _, flag := range flags {
				found = append(found, candidate{"--" + flag.Name, flag.Help})
			}
		}
	case arguments < len(node.Positional) && len(node.Children) == 0:
		return values(node.Positional[arguments], "", word)
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				found = append(found, candidate{child.Name, child.Help})
			}
		}
	}
	found = slices.DeleteFunc(found, func(c candidate) bool { return !strings.HasPrefix(c.word, word) })
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.word, b.word) })
	return slices.Compact(found)
}

// values are the values that a flag or an argument may have, where they are few.
func values(v *kong.Value, prefix, word string) (found []candidate) {
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		if strings.HasPrefix(value, word) {
			found = append(found, candidate{prefix + value, ""})
		}
	}
	return found
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagNamed returns the flag of a command that is written as --name or -n.
func flagNamed(node *kong.Node, written string) *kong.Flag {
	written, _, _ = strings.Cut(written, "=")
	for _, flags := range node.AllFlags(false) {
		for _, flag := range flags {
			if written == "--"+flag.Name || flag.Short != 0 && written == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}
