package workspace

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`wc -l notes.txt`:             {"wc", "-l", "notes.txt"},
		"  a\t b\n":                   {"a", "b"},
		`grep 'a b' "c d"e`:           {"grep", "a b", "c de"},
		`a '' ""`:                     {"a", "", ""},
		`a\ b "\"\\\$\x" '\'`:         {"a b", `"\$\x`, `\`},
		`sh -c 'echo $HOME | wc > f'`: {"sh", "-c", "echo $HOME | wc > f"},
		`ä "ö"`:                       {"ä", "ö"},
	} {
		if got, problem := splitWords(line); !slices.Equal(got, want) || problem != "" {
			t.Errorf("%q: %q %s, want %q", line, got, problem, want)
		}
	}
	for line, want := range map[string]string{
		"": "empty", " ": "empty", `a 'b`: "does not end", `a "b`: "does not end", `a \`: "ends with", "a\x00": "number 0",
		"a | b": "| does nothing", "a > b": "> does nothing", "a; b": "; does nothing", "a & b": "& does nothing", "a $B": "$ does nothing",
		`a "$B"`: "$ does nothing", "a `b`": "does nothing", "a *": "* does nothing",
	} {
		if got, problem := splitWords(line); !strings.Contains(problem, want) {
			t.Errorf("%q: %q %q, want %q", line, got, problem, want)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`grep 'a b' "c d"e \' x`)
	f.Fuzz(func(t *testing.T, line string) {
		words, problem := splitWords(line)
		if (problem == "") != (len(words) > 0) {
			t.Errorf("%q %q", words, problem)
		}
		if problem != "" {
			return
		}
		// What is quoted again is split into the same words.
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		again, problem := splitWords(strings.Join(quoted, " "))
		if problem != "" || !slices.Equal(again, words) {
			t.Errorf("%q became %q %s", words, again, problem)
		}
	})
}
