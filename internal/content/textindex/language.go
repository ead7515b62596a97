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
}

// languages are those whose words are stemmed. The first common are those that a text
// in no known language is stemmed by.
var languages = []language{
	{english.Stem, false, stopWords("english")},
	{german.Stem, true, stopWords("german")},
	{french.Stem, false, stopWords("french")},
	{spanish.Stem, false, stopWords("spanish")},
	{italian.Stem, false, stopWords("italian")},
	{portuguese.Stem, false, stopWords("portuguese")},
	{dutch.Stem, true, stopWords("dutch")},
	{swedish.Stem, true, stopWords("swedish")},
	{danish.Stem, true, stopWords("danish")},
	{norwegian.Stem, true, stopWords("norwegian")},
}

const common = 3

//go:embed stopwords.txt
var stopLists string

// stopWords returns the words without a meaning of their own of a language, as they are
// indexed.
func stopWords(name string) map[string]bool {
	_, list, found := strings.Cut(stopLists, "\n"+name+":\n")
	if !found {
		panic("textindex: stopwords.txt has no " + name)
	}
	list, _, _ = strings.Cut(list, "\n\n")
	all := map[string]bool{}
	tokenize.Words(list, func(token []byte) { all[string(token)] = true })
	return all
}

// detect returns the language that a text's words say it is in, by the words without a
// meaning of their own that it has; nil if they do not say. Of languages that have as
// many, the earlier in the list wins.
func detect(tokens []string) *language {
	var best *language
	most := 0
	for i := range languages {
		found := 0
		for _, token := range tokens {
			if languages[i].stop[token] {
				found++
			}
		}
		if found > most {
			best, most = &languages[i], found
		}
	}
	return best
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
