package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// editor reads the messages of a chat: on a terminal with editing, history and
// pasted lines, elsewhere a line each.
type editor struct {
	inv      *invocation
	terminal *term.Terminal
}

// read returns the next message; io.EOF: there are no more, or the person left.
func (e *editor) read(prompt string) (string, error) {
	in, ok := e.inv.deps.Stdin.(*os.File)
	out, tty := e.inv.deps.Stderr.(*os.File)
	editable := ok && tty && e.inv.stdinTerminal && e.inv.stderrTerminal
	if editable && !e.inv.lines.asked && e.inv.lines.in.Buffered() == 0 {
		return e.edit(in, out, prompt)
	}
	if editable {
		fmt.Fprint(e.inv.stderr, prompt)
	}
	select {
	case got := <-e.inv.lines.next():
		e.inv.lines.taken()
		return got.text, got.err
	case <-e.inv.Done():
		return "", io.EOF
	}
}

// edit reads a message with the terminal in raw mode.
func (e *editor) edit(in, out *os.File, prompt string) (text string, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return "", err
	}
	if e.terminal == nil {
		e.terminal = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{in, out}, "")
	}
	e.terminal.SetBracketedPasteMode(true)
	defer func() {
		e.terminal.SetBracketedPasteMode(false)
		err = errors.Join(err, term.Restore(int(in.Fd()), before))
	}()
	if columns, rows, err := term.GetSize(int(out.Fd())); err == nil && columns > 0 {
		_ = e.terminal.SetSize(columns, rows) // of no size is refused, and then it does not matter
	}
	e.terminal.SetPrompt(prompt)
	var pasted strings.Builder
	for {
		line, err := e.terminal.ReadLine()
		if errors.Is(err, term.ErrPasteIndicator) {
			pasted.WriteString(line + "\n")
			continue
		}
		return pasted.String() + line, err
	}
}
