package htmltext

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// maxTables bounds how deep tables nest.
const maxTables = 12

// maxColumns bounds the columns of a table; wider ones become lines.
const maxColumns = 1000

// table is an open table. By its first row it is data, or the layout of a page:
// rows of data become a Markdown table, others become lines. Rows are not padded
// to the same width, which would multiply the size of the page.
type table struct {
	floor  int  // open containers outside of it
	layout bool // it is not data
	rows   int  // that were written
	inRow  bool
	cells  int // of the row
	inCell bool
	endAt  int // length of the output after its last row
}

// firstRow holds the first row of a table until it has ended.
type firstRow struct {
	before []byte // the output before the table
	breaks int    // newlines between that and the table
	cells  []int  // where each begins
}

func (r *firstRow) cellAt() int {
	if len(r.cells) == 0 {
		return 0
	}
	return r.cells[len(r.cells)-1]
}

// inRow reports whether text goes into the cell of a table of data, or of one that may
// become one.
func (n *nesting) inRow() bool {
	k := len(n.tables)
	return k > 0 && n.tables[k-1].inCell && !n.tables[k-1].layout
}

func (c *converter) startTablePart(tag atom.Atom) {
	c.endPre()
	c.lead, c.heading = "", false
	n := len(c.tables)
	switch {
	case tag == atom.Table:
		c.giveUpTable()
		c.block(2)
		if n == maxTables {
			c.deepTables++
			return
		}
		c.tables = append(c.tables, table{floor: len(c.containers)})
	case n == 0 || c.deepTables > 0:
		c.block(1)
	case tag == atom.Tr:
		c.endRow()
		c.startRow()
	default:
		c.endCell()
		if !c.tables[n-1].inRow {
			c.startRow()
		}
		c.startCell()
	}
}

func (c *converter) endTablePart(tag atom.Atom) {
	c.endPre()
	switch {
	case len(c.tables) == 0:
	case c.deepTables > 0:
		if tag == atom.Table {
			c.deepTables--
		}
	case tag == atom.Table:
		c.endTable()
	case tag == atom.Tr:
		c.endRow()
	default:
		c.endCell()
	}
}

func (c *converter) startRow() {
	t := &c.tables[len(c.tables)-1]
	t.inRow, t.cells = true, 0
	switch {
	case t.layout:
		c.block(1)
	case t.rows == 0:
		c.endMarks()
		c.row = &firstRow{before: c.out, breaks: c.breaks}
		c.out, c.breaks = nil, 0
	}
}

func (c *converter) startCell() {
	t := &c.tables[len(c.tables)-1]
	c.leave(t.floor)
	c.deep = 0
	t.inCell = true
	t.cells++
	switch {
	case t.layout:
		c.space = true
		return
	case c.row != nil && len(c.row.cells) == maxColumns:
		c.giveUpTable()
		return
	case c.row != nil:
		c.row.cells = append(c.row.cells, len(c.out))
	case t.cells > 1:
		t.layout = !c.add(" | ")
	case t.endAt != len(c.out) || c.budget < 4*maxNesting:
		t.layout = true // text stands between the rows, or the budget is spent
		c.block(1)
		return
	default:
		c.newline(1)
		c.add("| ")
	}
	c.breaks, c.space, c.fresh = 0, false, true
}

func (c *converter) endCell() {
	t := &c.tables[len(c.tables)-1]
	if !t.inCell {
		return
	}
	c.endMarks()
	c.leave(t.floor)
	c.deep = 0
	t.inCell = false
	c.lead, c.heading = "", false
}

func (c *converter) endRow() {
	c.endCell()
	t := &c.tables[len(c.tables)-1]
	if !t.inRow {
		return
	}
	t.inRow = false
	switch {
	case t.layout:
	case c.row != nil:
		c.writeFirstRow()
	case t.cells > 0:
		c.add(" |")
		t.rows++
	}
	if t.endAt = len(c.out); t.layout {
		c.block(1)
	} else {
		c.breaks, c.space = 2, false
	}
}

func (c *converter) endTable() {
	c.endRow()
	c.tables = c.tables[:len(c.tables)-1]
	c.block(2)
}

// giveUpTable continues the current table as lines: it is the layout of a page.
func (c *converter) giveUpTable() {
	n := len(c.tables)
	if n == 0 || c.tables[n-1].layout || c.row == nil && !c.tables[n-1].inCell {
		return
	}
	c.tables[n-1].layout = true
	if c.row == nil {
		c.endMarks()
		c.out = bytes.TrimRight(c.out, " ")
		c.breaks = 2
		return
	}
	r, cells, breaks := c.row, c.out, c.breaks
	c.steps += len(cells) + len(r.cells)
	c.row, c.out, c.breaks = nil, r.before, r.breaks
	open := c.open
	c.open = [marks]bool{} // they are open in the cells that follow
	for i, at := range r.cells {
		end := len(cells)
		if i+1 < len(r.cells) {
			end = r.cells[i+1]
		}
		if at == end {
			continue
		}
		c.space = true
		wanted := c.wanted
		c.wanted = [marks]int{}
		c.begin()
		c.wanted = wanted
		c.out = append(c.out, cells[at:end]...)
	}
	c.open, c.codeAt = open, -1
	c.breaks = max(c.breaks, breaks)
}

// writeFirstRow writes the first row of a table, as its heading, if it is data: two or
// more cells.
func (c *converter) writeFirstRow() {
	r, t := c.row, &c.tables[len(c.tables)-1]
	if len(bytes.TrimSpace(c.out)) == 0 { // the next row is the first
		c.row, c.out, c.breaks = nil, r.before, r.breaks
		return
	}
	if cost := 8*len(r.cells) + bytes.Count(c.out, []byte("|")) + 4*maxNesting; len(r.cells) < 2 || c.budget < 2*cost {
		c.giveUpTable()
		return
	}
	cells := c.out
	c.steps += len(cells) + len(r.cells)
	c.row, c.out = nil, r.before
	c.newline(max(r.breaks, 1))
	for i, at := range r.cells {
		end := len(cells)
		if i+1 < len(r.cells) {
			end = r.cells[i+1]
		}
		c.add("| ")
		c.escapeBars(cells[at:end])
		c.add(" ")
	}
	c.add("|")
	c.newline(1)
	for range r.cells {
		c.add("|---")
	}
	c.add("|")
	t.rows = 1
}
