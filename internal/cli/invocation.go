package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/client"
)

// invocation is one running command: its context, what it reads and where it
// writes.
type invocation struct {
	context.Context
	deps           Deps
	lines          *lineReader // of the standard input
	stdout, stderr io.Writer
	now            func() time.Time
	dim            bool // stderr shows colours
	stdinTerminal  bool
	stdoutTerminal bool
	stderrTerminal bool
	width          int          // columns of stdout; 0: any number
	command        string       // what was typed, as in: agentd agent create
	serve          func() error // what agentd serve does once its command line is read; nil: another command
}

func newInvocation(ctx context.Context, deps Deps) *invocation {
	inv := &invocation{
		Context: ctx, deps: deps, stdout: deps.Stdout, stderr: deps.Stderr, now: deps.Now, lines: newLineReader(deps.Stdin),
		stdinTerminal: isTerminal(deps.Stdin), stdoutTerminal: isTerminal(deps.Stdout), stderrTerminal: isTerminal(deps.Stderr),
		command: "agentd",
	}
	noColor, _ := deps.LookupEnv("NO_COLOR")
	inv.dim = inv.stderrTerminal && noColor == ""
	if f, ok := deps.Stdout.(*os.File); ok && inv.stdoutTerminal {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			inv.width = columns
		}
	}
	return inv
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// explain returns an error's text with advice on what to do.
func explain(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		text := f.Detail
		for _, field := range f.Fields {
			text += "\n  " + field.Field + ": " + field.Message
		}
		if f.Cause != nil {
			text += "\n  " + f.Cause.Error()
		}
		return text
	}
	if e, ok := errors.AsType[*client.Unreachable](err); ok {
		return e.Error() + "\nIs agentd serve running there? AGENTD_URL says where to look."
	}
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == 401 {
		return err.Error() + "\nIs AGENTD_KEY a key of this server?"
	} else if ok && p.Status == 404 {
		return err.Error() + whereListed(p.Detail)
	}
	return err.Error()
}

// lists are the commands that list the kinds of things that a command may name.
var lists = map[string]string{
	"run": "runs list", "agent": "agent list", "session": "sessions list", "approval": "approvals list", "webhook": "webhooks list",
	"webhook subscription": "webhooks list", "knowledge base": "kb list", "key": "keys list", "user": "members list", "member": "members list",
	"integration": "integration list", "listing": "marketplace search", "team": "team list", "mission": "mission list",
	"initiative": "initiative list",
}

// whereListed returns the line that names the command with which an id can be found, ""
// if there is none.
func whereListed(detail string) string {
	_, rest, _ := strings.Cut(detail, "There is no such ")
	what, _, _ := strings.Cut(rest, " in this company")
	if list := lists[what]; list != "" {
		return "\nThey are listed by:  agentd " + list
	}
	return ""
}

// say writes a sentence that is the result.
func (inv *invocation) say(format string, args ...any) {
	fmt.Fprintln(inv.stdout, clean(fmt.Sprintf(format, args...)))
}

// note writes a line about what happens beside the result.
func (inv *invocation) note(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	if inv.dim {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(inv.stderr, text)
}

// clean takes from a text what a terminal would obey instead of showing it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
}

// oneLine makes a text fit into a cell of a table.
func oneLine(s string) string { return text.OneLine(clean(s)) }

// formatTime returns a time as a person would say it.
func formatTime(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "-"
	case d < 0 && d > -time.Minute, d >= 0 && d < 5*time.Second:
		return "just now"
	case d < 0:
		return t.Local().Format("2006-01-02 15:04 MST")
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	case d < 30*24*time.Hour:
		return fmt.Sprintf("%d d ago", int(d.Hours()/24))
	default:
		return t.Local().Format("2006-01-02")
	}
}

// formatMoment returns a time in full, with its zone, and how long ago it was.
func formatMoment(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(now, t) + ", at " + t.Local().Format("2006-01-02 15:04:05 MST")
}

// formatDuration returns a duration with about three digits.
func formatDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(d.Milliseconds(), 1))
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// formatUSD returns an amount in cents, or a smaller one to a millionth.
func formatUSD(usd float64) string {
	if usd == 0 || usd >= 0.01 {
		return fmt.Sprintf("$%.2f", usd)
	}
	return "$" + strings.TrimRight(fmt.Sprintf("%.6f", usd), "0")
}

// plural returns a number with its noun: 1 step, 2 steps.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func parenthesis(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// quote writes a word so that a shell reads it as one.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
