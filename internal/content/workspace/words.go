package workspace

import (
	"fmt"
	"strings"
)

// splitWords returns the words of a command line, as a shell splits them: with
// single and double quotes, and \ before a character that is to be itself. There
// is no shell, so what only a shell understands is refused where it is not quoted.
// problem is not "" if the line is refused.
func splitWords(line string) (words []string, problem string) {
	var word strings.Builder
	started, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case r == 0:
			return nil, "it has a character with the number 0"
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			started, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case quote == '"':
			if r == '$' || r == '`' {
				return nil, shellOnly(r)
			}
			word.WriteRune(r)
		case r == '\'' || r == '"':
			started, quote = true, r
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if started {
				words = append(words, word.String())
				word.Reset()
			}
			started = false
		case strings.ContainsRune("|&;<>()$`*?[]{}~#", r):
			return nil, shellOnly(r)
		default:
			started = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Sprintf("a quote %c does not end", quote)
	case escaped:
		return nil, `it ends with a \`
	case started:
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, "it is empty"
	}
	return words, ""
}

func shellOnly(r rune) string {
	return fmt.Sprintf("no shell reads it, so that %c does nothing; quote it, or run a shell (sh -c '…') where the operator allows one", r)
}
