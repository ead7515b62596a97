package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/base/media"
	"agentd/internal/base/pattern"
)

// Bounds of a search.
const (
	searchPaths   = 500
	searchFiles   = 100
	searchMatches = 300

	searchBytes = 32 << 20 // of all files together
	searchPiece = 4 << 10  // a longer line is searched in pieces
	// searchSteps bounds the size of the expression's program times the bytes that are
	// searched.
	searchSteps = 1 << 31
	searchTime  = 5 * time.Second
	// searchOverlap is what a piece has of the one before it.
	searchOverlap = 512
	shownLine     = 500 // bytes of a line that are shown, around the match
)

// Match is one line that a search found.
type Match struct {
	_ struct{} `json:"-" name:"WorkspaceSearchMatch"`

	Path       string `json:"path" required:"true"`
	LineNumber int    `json:"line_number" required:"true" doc:"Starting at 1."`
	LineNo     int    `json:"lineNumber" alias:"line_number"`
	Line       string `json:"line" required:"true" doc:"The line, or the part of it around the match."`
	Match      string `json:"match" required:"true"`
}

// Query is a search.
type Query struct {
	Text  string
	Regex bool   // Text is a regular expression (RE2), not literal text
	Glob  string // for paths; "" matches all
}

func (q Query) compile() (what, where *pattern.Pattern, err error) {
	text := q.Text
	if !q.Regex {
		text = "(?i)" + regexp.QuoteMeta(text)
	}
	if what, err = pattern.Compile(text); err != nil {
		return nil, nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter q is invalid: %s.", err).Because(err)
	}
	if q.Glob == "" {
		return what, nil, nil
	}
	if where, err = pattern.Compile(globExpression(q.Glob)); err != nil {
		return nil, nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter glob is invalid: %s.", err).Because(err)
	}
	return what, where, nil
}

// globExpression translates a glob to a regular expression: * and ? match
// within a folder, ** across folders; a pattern without a slash matches names.
func globExpression(glob string) string {
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(glob, "/") {
		b.WriteString("(?:.*/)?")
	}
	for len(glob) > 0 {
		switch {
		case strings.HasPrefix(glob, "**/"):
			b.WriteString("(?:.*/)?")
			glob = glob[3:]
			continue
		case strings.HasPrefix(glob, "**"):
			b.WriteString(".*")
			glob = glob[2:]
			continue
		case glob[0] == '*':
			b.WriteString("[^/]*")
		case glob[0] == '?':
			b.WriteString("[^/]")
		default:
			_, n := utf8.DecodeRuneInString(glob)
			b.WriteString(regexp.QuoteMeta(glob[:n]))
			glob = glob[n:]
			continue
		}
		glob = glob[1:]
	}
	b.WriteString("$")
	return b.String()
}

// Search searches the text files of a workspace in the order of their paths,
// until it reaches one of the bounds above. Errors: fault.NotFound,
// INVALID_QUERY.
func (s *Service) Search(ctx context.Context, tenant, id string, q Query) ([]Match, error) {
	if _, err := s.Table.Get(ctx, tenant, id); err != nil {
		return nil, err
	}
	if q.Text == "" {
		return []Match{}, nil
	}
	what, where, err := q.compile()
	if err != nil {
		return nil, err
	}
	release, err := s.Searches.Acquire(ctx, tenant)
	if err != nil {
		return nil, err
	}
	defer release()
	bounded, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	found, err := s.searchFiles(bounded, tenant, id, what, where)
	if bounded.Err() != nil && ctx.Err() == nil {
		err = nil // what was found in time
	}
	return found, err
}

// searchFiles returns what it found before an error too.
func (s *Service) searchFiles(ctx context.Context, tenant, id string, what, where *pattern.Pattern) ([]Match, error) {
	found := []Match{}
	files, err := s.Table.ListFiles(ctx, tenant, id, "", MaxFiles)
	if err != nil {
		return found, err
	}
	globs := pattern.NewBudget(pattern.MaxSteps)
	paths, looked, budget := 0, 0, min(searchBytes, searchSteps/what.Size())
	for i := range files {
		f := &files[i]
		if inTrash(f.Path) {
			continue
		}
		if where != nil {
			matches, err := where.Match(ctx, f.Path, globs)
			if errors.Is(err, pattern.ErrSteps) {
				return found, fault.New(fault.Malformed, "INVALID_QUERY",
					"The query parameter glob takes too long for so many paths; use fewer wildcards.").Because(err)
			}
			if err != nil {
				return found, err
			}
			if !matches {
				continue
			}
		}
		if paths++; paths > searchPaths || looked == searchFiles || len(found) >= searchMatches || budget <= 0 {
			break
		}
		if !media.Text(f.MimeType) {
			continue
		}
		looked++
		if found, err = s.searchFile(ctx, tenant, f, what, budget, found); err != nil {
			return found, err
		}
		budget -= int(min(f.SizeBytes, searchBytes))
	}
	return found, nil
}

func (s *Service) searchFile(
	ctx context.Context, tenant string, f *File, what *pattern.Pattern, budget int, found []Match,
) ([]Match, error) {
	r, err := s.Blobs.Open(ctx, tenant, f.ETag)
	if err != nil {
		return found, ignoreAbsent(err) // replaced or deleted meanwhile
	}
	defer r.Close()
	text := bufio.NewReaderSize(io.LimitReader(r, int64(budget)), 16*searchPiece)
	for number, begins := 0, true; len(found) < searchMatches; {
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		piece, err := text.Peek(searchPiece)
		if len(piece) == 0 && err == io.EOF {
			return found, nil
		}
		if err != nil && err != io.EOF {
			return found, ignoreAbsent(err)
		}
		if begins {
			number++
		}
		// A match near the end of a piece may be longer: the next piece has it whole.
		end, next, last := len(piece), len(piece)-searchOverlap, len(piece)-searchOverlap
		begins = false
		if i := bytes.IndexByte(piece, '\n'); i >= 0 {
			end, next, last, begins = i, i+1, i+1, true
		} else if err == io.EOF {
			next, last = len(piece), len(piece)+1
		}
		line := bytes.TrimRight(piece[:end], "\r")
		if bytes.IndexByte(line, 0) >= 0 {
			return found, nil // binary after all
		}
		if at := what.Find(line); at != nil && at[0] < last {
			found = append(found, Match{Path: f.Path, LineNumber: number, LineNo: number, Line: around(line, at), Match: shown(line[at[0]:at[1]])})
		}
		if _, err := text.Discard(next); err != nil {
			return found, ignoreAbsent(err)
		}
	}
	return found, nil
}

// around returns the part of a line that is shown: the whole line, or the part
// near the match.
func around(line []byte, at []int) string {
	if len(line) > shownLine {
		from := max(0, min(at[0]-shownLine/4, len(line)-shownLine))
		line = line[from : from+shownLine]
	}
	return shown(line)
}

func shown(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), shownLine)]), "\ufffd")
}
