package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/fault"
	"agentd/internal/base/media"
)

// Bounds of a search.
const (
	searchPaths   = 500
	searchFiles   = 100
	searchMatches = 300

	searchBytes = 32 << 20 // of all files together
	searchLine  = 64 << 10 // a longer one is searched in pieces
	shownLine   = 500      // bytes of a line that are shown, around the match
)

// Match is one line that a search found.
type Match struct {
	_ struct{} `json:"-" name:"WorkspaceSearchMatch"`

	Path       string `json:"path" required:"true"`
	LineNumber int    `json:"line_number" required:"true" doc:"Starting at 1."`
	Line       string `json:"line" required:"true" doc:"The line, or the part of it around the match."`
	Match      string `json:"match" required:"true"`
}

// Query is a search.
type Query struct {
	Text  string
	Regex bool   // Text is a regular expression (RE2), not literal text
	Glob  string // for paths; "" matches all
}

func (q Query) compile() (what, where *regexp.Regexp, err error) {
	text := q.Text
	if !q.Regex {
		text = "(?i)" + regexp.QuoteMeta(text)
	}
	if what, err = regexp.Compile(text); err != nil {
		return nil, nil, fault.New(fault.Malformed, "INVALID_QUERY",
			"The query parameter q is not a valid regular expression (RE2 syntax).").Because(err)
	}
	if q.Glob == "" {
		return what, nil, nil
	}
	if where, err = regexp.Compile(globExpression(q.Glob)); err != nil {
		return nil, nil, fault.New(fault.Malformed, "INVALID_QUERY", "The query parameter glob is not a valid pattern.").Because(err)
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
	found := []Match{}
	if q.Text == "" {
		return found, nil
	}
	what, where, err := q.compile()
	if err != nil {
		return nil, err
	}
	files, err := s.Table.ListFiles(ctx, tenant, id, "", MaxFiles)
	if err != nil {
		return nil, err
	}
	paths, looked, budget := 0, 0, int64(searchBytes)
	for i := range files {
		f := &files[i]
		if where != nil && !where.MatchString(f.Path) {
			continue
		}
		if paths++; paths > searchPaths || looked == searchFiles || len(found) >= searchMatches || budget <= 0 {
			break
		}
		if !media.Text(f.MimeType) {
			continue
		}
		looked++
		budget -= f.SizeBytes
		if found, err = s.searchFile(ctx, tenant, f, what, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *Service) searchFile(ctx context.Context, tenant string, f *File, what *regexp.Regexp, found []Match) ([]Match, error) {
	r, err := s.Blobs.Open(ctx, tenant, f.ETag)
	if err != nil {
		return found, ignoreAbsent(err) // replaced or deleted meanwhile
	}
	defer r.Close()
	lines := bufio.NewReaderSize(io.LimitReader(r, searchBytes), searchLine)
	for number, fresh := 0, true; len(found) < searchMatches; {
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		piece, err := lines.ReadSlice('\n')
		if fresh {
			number++
		}
		fresh = err == nil
		if bytes.IndexByte(piece, 0) >= 0 {
			return found, nil // binary after all
		}
		piece = bytes.TrimRight(piece, "\r\n")
		if at := what.FindIndex(piece); at != nil {
			found = append(found, Match{Path: f.Path, LineNumber: number, Line: around(piece, at), Match: shown(piece[at[0]:at[1]])})
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if err == io.EOF {
				return found, nil
			}
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
