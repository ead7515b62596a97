package textindex

import (
	"strings"
	"unicode/utf8"
)

// PageBreak stands between the pages of a text that has pages.
const PageBreak = "\f"

// Place is where a piece of a text stands.
type Place struct {
	Headings []string // Markdown headings that it stands under, outermost first
	Start    int      // characters of the text before it; -1: not known
	Page     int      // on which it begins, from 1; 0: the text has no pages
}

// Places returns where the pieces of a text stand that [Chunk] made. A piece that begins
// with headings stands under them.
func Places(text string, pieces []string) []Place {
	all := make([]Place, len(pieces))
	var path []heading
	fenced, from, line := false, 0, 0
	counted, chars, page := 0, 0, 0
	if strings.Contains(text, PageBreak) {
		page = 1
	}
	for i, piece := range pieces {
		at := strings.Index(text[from:], piece)
		if at < 0 { // the text is no valid UTF-8, which pieces are
			all[i] = Place{titles(path), -1, page}
			continue
		}
		start := from + at
		end := start + leading(piece)
		for line < end && line < len(text) {
			next := len(text)
			if n := strings.IndexByte(text[line:], '\n'); n >= 0 {
				next = line + n + 1
			}
			path, fenced = under(path, strings.TrimSpace(text[line:next]), fenced)
			line = next
		}
		passed := text[counted:start]
		counted, chars = start, chars+utf8.RuneCountInString(passed)
		if page > 0 {
			page += strings.Count(passed, PageBreak)
		}
		all[i] = Place{titles(path), chars, page}
		from = start + 1 // pieces may overlap
	}
	return all
}

// leading returns the length of the headings and blank lines that a piece begins with.
func leading(piece string) (n int) {
	for line := range strings.Lines(piece) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && level(trimmed) == 0 {
			break
		}
		n += len(line)
	}
	return n
}

// maxHeading bounds a heading, in bytes: a longer line is not one.
const maxHeading = 300

type heading struct {
	level int
	title string
}

// level returns the level of the heading that a line is, from 1; 0: it is none.
func level(line string) int {
	n := len(line) - len(strings.TrimLeft(line, "#"))
	if n == 0 || n > 6 || len(line) > maxHeading || n < len(line) && line[n] != ' ' {
		return 0
	}
	return n
}

// under returns the headings that what follows a line stands under.
func under(path []heading, line string, fenced bool) ([]heading, bool) {
	if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
		return path, !fenced
	}
	n := level(line)
	if fenced || n == 0 {
		return path, fenced
	}
	for len(path) > 0 && path[len(path)-1].level >= n {
		path = path[:len(path)-1]
	}
	if title := strings.TrimSpace(strings.Trim(line, "# ")); title != "" {
		path = append(path, heading{n, title})
	}
	return path, fenced
}

func titles(path []heading) []string {
	all := make([]string, len(path))
	for i, h := range path {
		all[i] = h.title
	}
	return all
}
