package cli

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/width"
)

// minCell is the width to which a column is cut at most.
const minCell = 8

// table writes aligned columns under a heading. A column whose heading begins
// with ~ is a text, which is cut where the terminal is too narrow; ids and times
// never are.
func (inv *invocation) table(heading []string, rows [][]string) error {
	widths, texts := make([]int, len(heading)), make([]bool, len(heading))
	titles := make([]string, len(heading))
	for i, h := range heading {
		titles[i], texts[i] = strings.CutPrefix(h, "~")
	}
	rows = append([][]string{titles}, rows...)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
			widths[i] = max(widths[i], displayWidth(row[i]))
		}
	}
	fit(widths, texts, inv.width)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = cutWidth(cell, widths[i])
			line.WriteString(cell + strings.Repeat(" ", widths[i]-displayWidth(cell)+2))
		}
		if _, err := fmt.Fprintln(inv.stdout, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// fit narrows the widest texts until a line of the table has room. 0: there is
// any room.
func fit(widths []int, texts []bool, room int) {
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; room > 0 && total > room; total-- {
		widest := -1
		for i := range widths {
			if texts[i] && widths[i] > minCell && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// displayWidth is how many columns of a terminal a text takes.
func displayWidth(s string) (n int) {
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Cf, r) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cutWidth shortens a text to a number of columns.
func cutWidth(s string, room int) string {
	if displayWidth(s) <= room {
		return s
	}
	used := 1 // the ellipsis
	for i, r := range s {
		if used += runeWidth(r); used > room {
			return s[:i] + "…"
		}
	}
	return s
}

// fields writes names and values below each other and leaves out what is empty.
func (inv *invocation) fields(pairs ...string) {
	widest := 0
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			widest = max(widest, displayWidth(pair[0]))
		}
	}
	for pair := range slices.Chunk(pairs, 2) {
		if name, value := pair[0], pair[1]; value != "" {
			fmt.Fprintf(inv.stdout, "%-*s %s\n", widest, name, oneLine(value))
		}
	}
}

// printJSON writes a JSON value for a script.
func (inv *invocation) printJSON(value jsontext.Value) error {
	value = bytes.Clone(value)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("the server's answer is not JSON; is AGENTD_URL right? (%w)", err)
	}
	_, err := fmt.Fprintf(inv.stdout, "%s\n", value)
	return err
}

// printAny writes a value as JSON for a script.
func (inv *invocation) printAny(v any) error {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return inv.printJSON(text)
}

// items is the shape of every list that is printed as JSON.
type items[T any] struct {
	Items   []T  `json:"items"`
	HasMore bool `json:"has_more"`
}
