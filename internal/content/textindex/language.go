package textindex

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/danish"
	"github.com/blevesearch/snowballstem/dutch"
	"github.com/blevesearch/snowballstem/english"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/italian"
	"github.com/blevesearch/snowballstem/norwegian"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/spanish"
	"github.com/blevesearch/snowballstem/swedish"

	"agentd/internal/base/tokenize"
)

// language is what is known of a language: how its words are inflected, whether it joins
// words, and its words without a meaning of their own.
type language struct {
	stem      func(*snowballstem.Env) bool
	compounds bool
	stop      map[string]bool
	weak      map[string]bool // words that say little
	name      string
}

// languages are those whose words are stemmed. The first common are those that a text
// in no known language is stemmed by.
var languages = []language{
	newLanguage("english", english.Stem, false),
	newLanguage("german", german.Stem, true),
	newLanguage("french", french.Stem, false),
	newLanguage("spanish", spanish.Stem, false),
	newLanguage("italian", italian.Stem, false),
	newLanguage("portuguese", portuguese.Stem, false),
	newLanguage("dutch", dutch.Stem, true),
	newLanguage("swedish", swedish.Stem, true),
	newLanguage("danish", danish.Stem, true),
	newLanguage("norwegian", norwegian.Stem, true),
}

const common = 3

//go:embed stopwords.txt
var stopLists string

//go:embed weakwords.txt
var weakLists string

func newLanguage(name string, stem func(*snowballstem.Env) bool, compounds bool) language {
	return language{stem: stem, compounds: compounds, stop: wordsOf(stopLists, name), weak: wordsOf(weakLists, name), name: name}
}

// listOf returns what stands under a name in a list by languages.
func listOf(lists, name string) string {
	_, list, _ := strings.Cut(lists, "\n"+name+":\n")
	list, _, _ = strings.Cut(list, "\n\n")
	return list
}

// wordsOf returns the words of a list, as they are indexed.
func wordsOf(lists, name string) map[string]bool {
	all := map[string]bool{}
	tokenize.Words(listOf(lists, name), func(token []byte) { all[string(token)] = true })
	return all
}

// detect returns the language that a text's words say it is in, by the words without a
// meaning of their own that it has; nil if they do not say. Of languages that have as
// many, the earlier in the list wins. sure reports that it has twice as many as any other.
func detect(tokens []string) (best *language, sure bool) {
	most, next := 0, 0
	for i := range languages {
		found := 0
		for _, token := range tokens {
			if languages[i].stop[token] {
				found++
			}
		}
		if found > most {
			best, most, next = &languages[i], found, most
		} else {
			next = max(next, found)
		}
	}
	return best, most >= 2*next && most > 1
}

// number returns the number of a language, from 1; 0: it is not known or not sure.
func number(of *language, sure bool) int8 {
	for i := range languages {
		if sure && of == &languages[i] {
			return int8(i + 1)
		}
	}
	return 0
}

// stops reports whether a word has no meaning of its own in a language; nil: in none.
func (l *language) stops(token string) bool { return l != nil && l.stop[token] }

// weakly reports whether a word of a text in a language says little of what it is about;
// nil: whether that is so in one of the most common languages.
func (l *language) weakly(token string) bool {
	if l != nil {
		return l.weak[token]
	}
	return slices.ContainsFunc(languages[:common], func(l language) bool { return l.weak[token] })
}

// stemmer finds the stems of words. It is not safe for concurrent use.
type stemmer struct{ env *snowballstem.Env }

// maxStemmed is how long a word may be that is stemmed, in bytes: longer ones are codes.
const maxStemmed = 40

// stems calls each with the stems of a word that differ from it: in its language, or, if
// that is not known (nil), in the most common ones.
func (s *stemmer) stems(of *language, token string, each func(stem string)) {
	if len(token) < 3 || len(token) > maxStemmed || strings.ContainsAny(token, "0123456789") {
		return
	}
	if of != nil {
		s.stem(of, token, each)
		return
	}
	for i := range common {
		s.stem(&languages[i], token, each)
	}
}

func (s *stemmer) stem(of *language, token string, each func(string)) {
	if s.env == nil {
		s.env = snowballstem.NewEnv("")
	}
	s.env.SetCurrent(token)
	of.stem(s.env)
	if stem := s.env.Current(); stem != token && stem != "" {
		each(stem)
	}
}

// tokensOf returns the words of a text, as they are indexed.
func tokensOf(text string) (tokens []string) {
	tokenize.Words(elisions(text), func(token []byte) { tokens = append(tokens, string(token)) })
	return tokens
}

// elided are what French, Italian and Catalan put before an apostrophe in place of a word.
var elided = []string{"l", "d", "j", "m", "n", "s", "t", "c", "qu", "jusqu", "lorsqu", "puisqu", "quelqu", "un",
	"dell", "nell", "all", "dall", "sull", "quell"}

// elisions separates the words that an apostrophe joins: l'agence, company's.
func elisions(text string) string {
	if !strings.ContainsAny(text, "'’") {
		return text
	}
	var b strings.Builder
	rest := text
	for {
		at := strings.IndexAny(rest, "'’")
		if at < 0 {
			break
		}
		mark := "'"
		if rest[at] != '\'' {
			mark = "’"
		}
		start := strings.LastIndexFunc(rest[:at], func(r rune) bool { return !letter(r) }) + 1
		after := rest[at+len(mark):]
		owner := len(after) > 0 && (after[0] == 's' || after[0] == 'S') && (len(after) == 1 || !letter(rune(after[1])))
		b.WriteString(rest[:at])
		if owner || slices.Contains(elided, strings.ToLower(rest[start:at])) {
			b.WriteByte(' ')
		} else {
			b.WriteString(mark)
		}
		if owner {
			after = after[1:]
		}
		rest = after
	}
	return b.String() + rest
}

func letter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r > 127 && r != '’'
}

// spelledOut replaces umlauts that are spelled out by what they are indexed as.
var spelledOut = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u")
