package tokenize

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func tokens(text string) (all []string) {
	Words(text, func(token []byte) { all = append(all, string(token)) })
	return all
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                nil,
		"  --  ":                          nil,
		"The Quick, brown-fox's 2nd":      {"the", "quick", "brown", "foxs", "2nd"},
		"Ärger über Straße":               {"arger", "uber", "strasse"},
		"STRASSE ﬁne ½":                   {"strasse", "fine", "1", "2"},
		"Łódź Ørsted İstanbul":            {"lodz", "orsted", "istanbul"},
		"ΣΊΣΥΦΟΣ":                         {"σισυφοσ"},
		"memory_save(x)":                  {"memory", "save", "x"},
		"東京都へ":                            {"東", "京", "東京", "都", "京都", "へ", "都へ"},
		"東 京":                             {"東", "京"},
		"gpt東":                            {"gpt", "東"},
		"東gpt京":                           {"東", "gpt", "京"},
		"한국어":                             {"한", "국", "한국", "어", "국어"},
		"हिन्दी":                          {"हिन्दी"},
		"кот Ёлка":                        {"кот", "елка"},
		"مُحَمَّد":                        {"محمد"},
		strings.Repeat("ä", 100):          {strings.Repeat("a", 64)},
		strings.Repeat("क", 100) + " fin": {strings.Repeat("क", 21), "fin"},
		"naïve cafe\u0301":                {"naive", "cafe"},
	} {
		if diff := cmp.Diff(want, tokens(text), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if a, b := Normalize("  The CAFÉ, is open!"), Normalize("the cafe is open"); a != b || a != "the cafe is open" {
		t.Errorf("%q and %q", a, b)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("Ärger 東京 \xff x")
	f.Fuzz(func(t *testing.T, text string) {
		Words(text, func(token []byte) {
			if len(token) == 0 || len(token) > maxToken || utf8.ValidString(text) && !utf8.Valid(token) {
				t.Errorf("%q has the token %q", text, token)
			}
		})
	})
}

func TestDistinct(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                            {},
		"...":                         {},
		"Support bot, SUPPORT Größe":  {"supp", "bot", "gros"},
		"a b c d e":                   {"a", "b", "c"},
		"東京":                          {"東", "京", "東京"},
		"Übergrößenträger-Verwaltung": {"uber", "verw"},
	} {
		if diff := cmp.Diff(want, Distinct(text, 3, 4)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestBeginnings(t *testing.T) {
	t.Parallel()
	want := []string{"b", "bot", "n", "nig", "nights", "т", "東"}
	if diff := cmp.Diff(want, Beginnings([]string{"bot", "то", "東京", "bo", "nightshifts"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever a word begins with, the longest beginning of that is one of the word's.
func TestBeginning(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"b", "bot", "東京都へ行く", "nightshiftworkers", "größenträger"} {
		all := Beginnings([]string{word})
		for i := range word {
			if i > 0 && !slices.Contains(all, Beginning(word[:i])) || !strings.HasPrefix(word[:i], Beginning(word[:i])) {
				t.Errorf("%q has no %q: %q", word, Beginning(word[:i]), all)
			}
		}
	}
	for word, want := range map[string]string{"": "", "a": "a", "ab": "a", "abc": "abc", "abcde": "abc", "東京都へ": "東京都", "abcdefghi": "abcdef"} {
		if got := Beginning(word); got != want {
			t.Errorf("the beginning of %q is %q", word, got)
		}
	}
}
