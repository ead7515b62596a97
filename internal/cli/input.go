package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// maxInput bounds what is read of a file or of the standard input.
const maxInput = 64 << 20

// lineReader reads the standard input. Lines are read in the background, so
// that whoever waits for one can also wait for something else; a line that was
// asked for and not taken goes to the next who asks.
type lineReader struct {
	in      *bufio.Reader
	results chan line
	asked   bool
}

type line struct {
	text string
	err  error
}

func newLineReader(in io.Reader) *lineReader {
	if in == nil {
		in = strings.NewReader("")
	}
	return &lineReader{in: bufio.NewReader(in), results: make(chan line, 1)}
}

// next returns where the next line arrives. Whoever takes it calls taken.
func (l *lineReader) next() <-chan line {
	if !l.asked {
		l.asked = true
		go func() {
			text, err := l.in.ReadString('\n')
			if text != "" {
				err = nil // a last line may have no end
			}
			l.results <- line{strings.TrimRight(text, "\r\n"), err}
		}()
	}
	return l.results
}

func (l *lineReader) taken() { l.asked = false }

// readAll reads the standard input to its end.
func (inv *invocation) readAll() ([]byte, error) {
	return bounded(inv.lines.in, "the standard input")
}

func bounded(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if len(text) > maxInput {
		return nil, fmt.Errorf("%s has more than %d MiB, which is the most that is read", name, maxInput>>20)
	}
	return text, nil
}

// readFile reads a file; - is the standard input.
func (inv *invocation) readFile(name string) ([]byte, error) {
	if name == "-" {
		return inv.readAll()
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bounded(f, name)
}

// text returns the text that a command was given: in words, or in a file, where
// - is the standard input in both. argument names the words in a refusal.
func (inv *invocation) text(argument string, words []string, file string) (string, error) {
	given := strings.Join(words, " ")
	switch {
	case given != "" && file != "":
		return "", usageError("%s and --file are two texts; name one of them", argument)
	case given == "" && file == "":
		return "", usageError("the argument %s is missing: write the text, - to read the standard input, or --file FILE", argument)
	case given == "-":
		file = "-"
	case file == "":
		return given, nil
	}
	raw, err := inv.readFile(file)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("--file %s is no UTF-8 text", file)
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("--file %s is empty; it should hold the text of %s", file, argument)
	}
	return text, nil
}

// confirm asks before something that cannot be undone. Where nobody can be
// asked, --yes answers.
func (inv *invocation) confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := clean(fmt.Sprintf(format, args...))
	if !inv.stdinTerminal || !inv.stderrTerminal {
		return usageError("%s Nobody can be asked here: say --yes", question)
	}
	fmt.Fprintf(inv.stderr, "%s [y/N] ", question)
	select {
	case answer := <-inv.lines.next():
		inv.lines.taken()
		if isYes(answer.text) {
			return nil
		}
	case <-inv.Done():
		fmt.Fprintln(inv.stderr)
	}
	return errors.New("nothing was changed, as the answer was not yes")
}

func isNo(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "n" || answer == "no"
}

func isYes(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
