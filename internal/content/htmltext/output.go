package htmltext

import (
	"bytes"
	"slices"
)

// mark is a kind of inline Markdown, in the order of their nesting.
type mark int

const (
	link mark = iota
	strong
	emphasis
	code
	marks int = iota
)

var markText = [marks]string{link: "[", strong: "**", emphasis: "*", code: "`"}

// output is the Markdown that was written, and what precedes the next text.
type output struct {
	out    []byte
	budget int // bytes that may still be added to the page's own text
	steps  int // bytes that were read and moved

	breaks  int    // newlines before the next text: 0, 1, or 2 for a new paragraph
	space   bool   // a space before the next text
	fresh   bool   // nothing stands on the line yet, but its prefix
	lead    string // begins the next text's line: the mark of a heading
	heading bool   // in a heading

	href   string       // of the open link
	open   [marks]bool  // written and to be closed
	wanted [marks]int   // open elements
	codeAt int          // where the open code span begins
	row    *firstRow    // of a table, which is written when it has ended
	lines  preformatted // the open block of code
}

// add writes Markdown if the budget allows it.
func (o *output) add(markup string) bool {
	if o.budget < len(markup) {
		return false
	}
	o.budget -= len(markup)
	o.out = append(o.out, markup...)
	return true
}

// text writes text of the page, with one space for each run of white space.
func (c *converter) text(b []byte) {
	if c.lines.depth > 0 {
		c.verbatim(b)
		return
	}
	for len(b) > 0 {
		n := bytes.IndexAny(b, " \t\n\r\f")
		if n == 0 {
			c.space = true
			b = bytes.TrimLeft(b, " \t\n\r\f")
			continue
		}
		if n < 0 {
			n = len(b)
		}
		c.begin()
		c.write(b[:n])
		b = b[n:]
	}
}

// write writes text of the page as it is.
func (c *converter) write(b []byte) {
	if c.inRow() && c.row == nil {
		c.escapeBars(b)
	} else {
		c.out = append(c.out, b...)
	}
}

// escapeBars writes text into a table, whose cells end at a bar.
func (o *output) escapeBars(b []byte) {
	for _, char := range b {
		if char == '|' {
			o.add(`\`)
		}
		o.out = append(o.out, char)
	}
}

// begin writes what precedes text.
func (c *converter) begin() {
	if c.row != nil && c.breaks > 0 {
		if len(c.out) == c.row.cellAt() {
			c.breaks = 0
		} else {
			c.giveUpTable() // a cell with several paragraphs is a page's layout
		}
	}
	if c.breaks > 0 || len(c.out) == 0 && c.row == nil {
		c.newline(c.breaks)
	}
	first := mark(0)
	for first < mark(marks) && c.open[first] == (c.wanted[first] > 0) {
		first++
	}
	c.closeMarks(first)
	if c.space && !c.fresh {
		c.out = append(c.out, ' ')
	}
	c.space, c.fresh = false, false
	if c.lead != "" {
		c.add(c.lead)
		c.lead = ""
	}
	for m := first; m < mark(marks); m++ {
		c.openMark(m)
	}
}

// openMark opens an inline mark, and sets aside what its end will take.
func (c *converter) openMark(m mark) {
	if c.wanted[m] == 0 {
		return
	}
	cost := 2 * len(markText[m])
	if m == link {
		if c.href = c.address(c.href); c.href == "" {
			c.wanted[link] = 0
			return
		}
		cost = len("[]()") + len(c.href)
	}
	if c.budget < cost {
		c.wanted[m] = 0
		return
	}
	c.budget -= cost
	c.out = append(c.out, markText[m]...)
	c.open[m] = true
	if m == code {
		c.codeAt = len(c.out)
	}
}

// closeMarks closes the open marks from first on.
func (o *output) closeMarks(first mark) {
	for m := mark(marks) - 1; m >= first; m-- {
		if !o.open[m] {
			continue
		}
		o.open[m] = false
		switch m {
		case link:
			o.out = append(o.out, "]("+o.href+")"...)
			o.wanted[link], o.href = 0, ""
		case code:
			o.out = append(o.out, '`')
			o.fence(o.codeAt, 1)
		default:
			o.out = append(o.out, markText[m]...)
		}
	}
}

// fence makes the fences around code, of size backticks each, longer than any run of
// backticks in it. The code begins at from and its closing fence ends the output.
func (o *output) fence(from, size int) {
	if from < 0 {
		return
	}
	run, longest := 0, 0
	for _, char := range o.out[from : len(o.out)-size] {
		if run++; char != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	more := longest + 1 - size
	if more <= 0 || o.budget < 2*more {
		return
	}
	o.budget -= 2 * more
	o.steps += len(o.out) - from
	added := bytes.Repeat([]byte("`"), more)
	o.out = append(o.out, added...)
	o.out = slices.Insert(o.out, from, added...)
}

// newline ends the line, skips n-1 lines, and begins one in the open quotes and
// items.
func (c *converter) newline(n int) {
	c.closeMarks(0)
	if len(c.out) > 0 {
		for i := range n {
			c.out = append(c.out, '\n')
			if i < n-1 {
				c.prefix(true)
			}
		}
	}
	c.prefix(false)
	c.breaks, c.space, c.fresh = 0, false, true
}

// block separates what follows by n newlines. Inline marks end with the block that
// they began in.
func (c *converter) block(n int) {
	if c.lines.depth > 0 {
		c.lines.newlines = max(c.lines.newlines, 1) // lines of code may be blocks
		return
	}
	c.endMarks()
	if c.inRow() && c.row == nil {
		c.space = true
		return
	}
	if i := len(c.containers) - 1; i >= 0 && c.containers[i].kind == item && !c.containers[i].begun {
		n = min(n, 1) // an item begins with its first block
	}
	c.breaks, c.space = max(c.breaks, n), false
}

// endMarks closes the open marks. Elements without any text yet go on: a link may
// contain a whole block.
func (o *output) endMarks() {
	for m, open := range o.open {
		if open {
			o.wanted[m] = 0
		}
	}
	o.closeMarks(0)
}

// finish closes what is open at the end of the page.
func (c *converter) finish() {
	c.endPre()
	c.deepTables = 0
	for len(c.tables) > 0 {
		c.endTable()
	}
	c.endMarks()
}

// preformatted is an open pre element.
type preformatted struct {
	depth    int // of nested ones; 0 means none is open
	begun    bool
	fenceAt  int // where the code begins
	newlines int // before the next text
	language string
}

// verbatim writes text of a pre element as it is.
func (c *converter) verbatim(b []byte) {
	p := &c.lines
	if !p.begun {
		b = bytes.TrimPrefix(b, []byte("\n"))
		if len(b) == 0 {
			return
		}
		c.newline(c.breaks)
		p.begun, p.newlines, p.fenceAt = true, 1, -1
		if c.add("```" + p.language) {
			p.fenceAt = len(c.out) - len(p.language)
			c.budget -= len("\n```")
		} else {
			p.newlines = 0
		}
	}
	for len(b) > 0 {
		line, rest, found := bytes.Cut(b, []byte("\n"))
		if len(line) > 0 {
			for ; p.newlines > 0; p.newlines-- {
				c.out = append(c.out, '\n')
				c.prefix(p.newlines > 1)
			}
			c.out = append(c.out, line...)
		}
		if b = rest; found {
			p.newlines++
		}
	}
}

func (c *converter) startPre(language string) {
	if c.lines.depth++; c.lines.depth == 1 {
		c.lines = preformatted{depth: 1, language: language}
	}
}

// endPre closes the open block of code.
func (c *converter) endPre() {
	p := c.lines
	if p.depth == 0 {
		return
	}
	c.lines = preformatted{}
	if p.begun && p.fenceAt >= 0 {
		c.out = append(c.out, '\n')
		c.prefix(false)
		c.out = append(c.out, "```"...)
		c.fence(p.fenceAt, 3)
	}
	if p.begun {
		c.fresh = false
		c.block(2)
	}
}
