package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/config"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
	"agentd/internal/client"
)

// invocation is one running command: its context and where it writes.
type invocation struct {
	context.Context
	deps           Deps
	stdout, stderr io.Writer
	now            func() time.Time
	dim            bool // stderr is a terminal that can dim text
	stdoutTerminal bool // stdout is a terminal
}

func (inv *invocation) connect(c config.Client) (*client.Client, error) {
	if c.Key.Empty() {
		return nil, fmt.Errorf("no key is given; set AGENTD_KEY to the one that the server printed on its first start, or use --key\n"+
			"A lost one is replaced on the server's machine:  %s admin key create --role owner --scopes '*' --name NAME", inv.deps.Program)
	}
	return client.New(c.URL, c.Key, client.InTenant(c.Tenant))
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
	}
	return err.Error()
}

// note writes a line about what happens beside the result.
func (inv *invocation) note(format string, args ...any) {
	text := clean(fmt.Sprintf(format, args...))
	if inv.dim {
		text = "\x1b[2m" + text + "\x1b[0m"
	}
	fmt.Fprintln(inv.stderr, text)
}

// json writes a JSON value for a script.
func (inv *invocation) printJSON(value jsontext.Value) error {
	value = bytes.Clone(value)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("the server's answer is no JSON: %w", err)
	}
	_, err := fmt.Fprintf(inv.stdout, "%s\n", value)
	return err
}

// table writes aligned columns under a heading.
func (inv *invocation) table(heading []string, rows [][]string) error {
	rows = append([][]string{heading}, rows...)
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		if _, err := fmt.Fprintln(inv.stdout, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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
		return t.Local().Format("2006-01-02 15:04")
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
