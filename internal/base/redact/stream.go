package redact

import (
	"slices"
	"strings"

	"agentd/internal/base/pii"
)

// longest is more than anything that may go on over spaces has in one line: a
// number in groups.
const longest = 64

// Stream redacts a text that arrives in pieces. It holds back what the next piece may
// belong to: the last word, and what follows a digit until the line ends or a number
// would have ended. All its pieces together are what Redactor.Text makes of the whole.
type Stream struct {
	r    *Redactor
	held string
}

// Stream returns a stream; nil if r is nil.
func (r *Redactor) Stream() *Stream {
	if r == nil {
		return nil
	}
	return &Stream{r: r}
}

// Add takes the next piece and returns what may be shown by now.
func (s *Stream) Add(piece string) string {
	if s == nil {
		return piece
	}
	s.held += piece
	if !strings.ContainsAny(piece, " \n") {
		return ""
	}
	n := s.safe()
	out := s.r.Text(s.held[:n])
	s.held = s.held[n:]
	return out
}

// End returns the rest, and starts again with an empty text.
func (s *Stream) End() string {
	if s == nil {
		return ""
	}
	out := s.r.Text(s.held)
	s.held = ""
	return out
}

// Drop forgets what is held back.
func (s *Stream) Drop() {
	if s != nil {
		s.held = ""
	}
}

// safe returns the length of the longest beginning of what is held that nothing goes
// on behind. Nothing but a private key goes on over a line, and nothing else over spaces
// but numbers, of which no digit is further than longest from the last space.
func (s *Stream) safe() int {
	end := len(s.held)
	if i := strings.Index(s.held, "-----BEGIN "); i >= 0 && slices.Contains(s.r.kinds, pii.APIKey) {
		end = i // from here on as one
	}
	for n := end; n > 0; n-- {
		switch s.held[n-1] {
		case '\n':
			return n
		case ' ':
			from := max(0, n-longest)
			line := s.held[from:n]
			if i := strings.LastIndexByte(line, '\n'); i >= 0 {
				line = line[i:]
			}
			if !strings.ContainsAny(line, "0123456789+(") {
				return n
			}
		}
	}
	return 0
}
