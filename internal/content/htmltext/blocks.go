package htmltext

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html/atom"
)

// maxNesting bounds how deep quotes and lists nest, because each level indents every
// line.
const maxNesting = 12

type containerKind int

const (
	quote containerKind = iota
	list
	item
)

// container is an open quote, list or item.
type container struct {
	kind   containerKind
	number int    // of the next item; -1 if they have none
	marker string // of the item's first line
	begun  bool   // the marker, or the first item, has been written
}

// nesting has the open elements that contain blocks.
type nesting struct {
	containers []container // quotes, lists and items
	deep       int         // further quotes and lists, beyond maxNesting
	shared     int         // of containers, how many were open on the last line too
	tables     []table
	deepTables int // further tables, beyond maxTables
}

// prefix begins a line in the open containers. It ends without white space on a blank
// line.
func (c *converter) prefix(blank bool) {
	from, n := len(c.out), len(c.containers)
	if blank {
		n = min(n, c.shared)
	} else {
		c.shared = n
	}
	c.steps += n
	for i := range n {
		k := &c.containers[i]
		switch {
		case k.kind == quote:
			c.add("> ")
		case k.kind == item && !k.begun && !blank:
			k.begun = true
			c.add(k.marker)
		case k.kind == item:
			c.add("             "[:len(k.marker)])
		}
	}
	if blank {
		c.out = append(c.out[:from], bytes.TrimRight(c.out[from:], " ")...)
	}
}

// floor is how many containers lie outside of the current table.
func (n *nesting) floor() int {
	if k := len(n.tables); k > 0 {
		return n.tables[k-1].floor
	}
	return 0
}

// push opens a container. Beyond maxNesting, quotes and lists are counted only, and
// items are lines.
func (n *nesting) push(k container) {
	switch {
	case n.deep == 0 && len(n.containers) < 2*maxNesting:
		n.containers = append(n.containers, k)
	case k.kind != item:
		n.deep++
	}
}

// leave closes containers until only the first ones are open.
func (n *nesting) leave(open int) {
	if open < len(n.containers) {
		n.containers = n.containers[:open]
		n.shared = min(n.shared, open)
	}
}

// pop closes the innermost container of a kind, and those inside it. Outside of a
// container of the kind until it closes nothing.
func (n *nesting) pop(kind containerKind) {
	if n.deep > 0 {
		if kind != item {
			n.deep--
		}
		return
	}
	for i := len(n.containers) - 1; i >= n.floor(); i-- {
		if k := n.containers[i].kind; k == kind {
			n.leave(i)
			return
		} else if kind == item && k == list {
			return
		}
	}
}

// start handles the start of an element.
func (c *converter) start(tag atom.Atom, a attributes) {
	switch tag {
	case atom.Base:
		if at, err := url.Parse(a.href); err == nil && a.href != "" && len(a.href) <= maxURL && c.base != nil && !c.based {
			c.base, c.based = c.base.ResolveReference(at), true
			c.baseSize += len(a.href)
		}
	case atom.B, atom.Strong:
		c.wanted[strong]++
	case atom.I, atom.Em:
		c.wanted[emphasis]++
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt, atom.Var:
		if c.lines.depth == 0 {
			c.wanted[code]++
		} else if !c.lines.begun && c.lines.language == "" {
			c.lines.language = language(a.class)
		}
	case atom.A:
		c.endLink()
		if a.href != "" && c.lines.depth == 0 {
			c.href, c.wanted[link] = a.href, 1
		}
	case atom.Img:
		c.image(a)
	case atom.Br:
		c.lineBreak()
	case atom.Option, atom.Button:
		c.space = true
	case atom.Table, atom.Tr, atom.Td, atom.Th:
		c.startTablePart(tag)
	default:
		c.startBlock(tag, a)
	}
}

func (c *converter) startBlock(tag atom.Atom, a attributes) {
	switch tag {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		c.structure()
		c.giveUpTable()
		c.block(2)
		c.heading = true
		c.lead = "######"[:tag.String()[1]-'0'] + " "
	case atom.Blockquote:
		if c.contain() {
			c.block(2)
			c.push(container{kind: quote})
		}
	case atom.Ul, atom.Ol, atom.Menu, atom.Dir:
		if c.contain() {
			c.startList(tag, a.start)
		}
	case atom.Li:
		if c.contain() {
			c.startItem()
		}
	case atom.Pre, atom.Xmp, atom.Listing:
		if c.lines.depth == 0 {
			c.structure()
			c.giveUpTable()
			c.block(2)
		}
		c.startPre(language(a.class))
	case atom.Hr:
		if c.contain() {
			c.block(2)
			c.begin()
			c.add("---")
			c.block(2)
		}
	default:
		if n := lines[tag]; n > 0 {
			c.block(n)
		}
	}
}

// lines has how many newlines surround a block.
var lines = map[atom.Atom]int{
	atom.Address: 2, atom.Article: 2, atom.Aside: 2, atom.Body: 2, atom.Caption: 2, atom.Center: 2, atom.Dd: 1, atom.Details: 2,
	atom.Div: 2, atom.Dl: 2, atom.Dt: 1, atom.Fieldset: 2, atom.Figcaption: 2, atom.Figure: 2, atom.Footer: 2, atom.Form: 2,
	atom.H1: 2, atom.H2: 2, atom.H3: 2, atom.H4: 2, atom.H5: 2, atom.H6: 2, atom.Header: 2, atom.Hgroup: 2, atom.Legend: 2,
	atom.Main: 2, atom.Nav: 2, atom.P: 2, atom.Section: 2, atom.Select: 2, atom.Summary: 2,
}

// end handles the end of an element.
func (c *converter) end(tag atom.Atom) {
	switch tag {
	case atom.B, atom.Strong:
		c.wanted[strong] = max(0, c.wanted[strong]-1)
	case atom.I, atom.Em:
		c.wanted[emphasis] = max(0, c.wanted[emphasis]-1)
	case atom.Code, atom.Kbd, atom.Samp, atom.Tt, atom.Var:
		if c.wanted[code] = max(0, c.wanted[code]-1); c.wanted[code] == 0 {
			c.closeMarks(code)
		}
	case atom.A:
		c.endLink()
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		c.block(2)
		c.lead, c.heading = "", false
	case atom.Blockquote:
		if c.contain() {
			c.block(2)
			c.pop(quote)
		}
	case atom.Ul, atom.Ol, atom.Menu, atom.Dir:
		if c.contain() {
			c.endList()
		}
	case atom.Li:
		if c.contain() {
			c.block(1)
			c.pop(item)
		}
	case atom.Pre, atom.Xmp, atom.Listing:
		if c.lines.depth > 1 {
			c.lines.depth--
		} else {
			c.endPre()
		}
	case atom.Table, atom.Tr, atom.Td, atom.Th:
		c.endTablePart(tag)
	default:
		if n := lines[tag]; n > 0 {
			c.block(n)
		}
	}
}

// contain prepares for a container and reports whether it may be opened or closed: not
// in the cell of a table.
func (c *converter) contain() bool {
	c.structure()
	if c.inRow() {
		c.block(1)
		return false
	}
	return true
}

// structure ends what cannot contain a block.
func (c *converter) structure() {
	c.endPre()
	c.lead, c.heading = "", false
	if c.row != nil {
		c.giveUpTable()
	}
}

func (c *converter) startList(tag atom.Atom, start string) {
	n := 2
	if len(c.containers) > c.floor() && c.containers[len(c.containers)-1].kind == item {
		n = 1
	}
	c.block(n)
	number := -1
	if tag == atom.Ol {
		number = 1
		if at, err := strconv.Atoi(start); err == nil && at >= 0 && at <= 99_999_999 {
			number = at
		}
	}
	c.push(container{kind: list, number: number})
}

func (c *converter) endList() {
	c.block(1)
	c.pop(list)
	if n := len(c.containers); n == c.floor() || c.containers[n-1].kind != item {
		c.block(2)
	}
}

// startItem begins an item of a list, or one without a list.
func (c *converter) startItem() {
	c.endMarks()
	c.pop(item)
	marker, lines := "- ", 1
	if n := len(c.containers); n > c.floor() && c.containers[n-1].kind == list {
		l := &c.containers[n-1]
		if !l.begun {
			lines = max(c.breaks, 1)
		}
		l.begun = true
		if l.number >= 0 {
			marker = strconv.Itoa(l.number) + ". "
			l.number++
		}
	}
	c.breaks, c.space = lines, false
	c.push(container{kind: item, marker: marker})
}

func (o *output) endLink() {
	if o.open[link] {
		o.closeMarks(0)
	}
	o.wanted[link], o.href = 0, ""
}

func (c *converter) lineBreak() {
	switch {
	case c.lines.depth > 0:
		c.lines.newlines++
	case c.inRow() || c.heading:
		c.space = true
	case !c.fresh:
		c.endMarks()
		c.breaks, c.space = min(c.breaks+1, 2), false
	}
}

func (c *converter) image(a attributes) {
	alt := strings.Join(strings.Fields(a.alt), " ")
	src := c.address(a.src)
	if alt == "" && src == "" {
		return
	}
	if c.lines.depth > 0 || c.budget < len("![]()")+len(src) {
		c.text([]byte(alt))
		return
	}
	c.begin()
	c.add("![")
	c.write([]byte(alt))
	c.add("](" + src + ")")
}

// language returns the language that the class of a code element names.
func language(class string) string {
	for name := range strings.FieldsSeq(class) {
		for _, prefix := range []string{"language-", "lang-"} {
			if of, ok := strings.CutPrefix(name, prefix); ok && len(of) <= 20 && !strings.ContainsFunc(of, notInName) {
				return of
			}
		}
	}
	return ""
}

func notInName(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("+#-_", r))
}
