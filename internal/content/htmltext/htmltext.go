// Package htmltext converts HTML to Markdown in one pass, within bounds that hold
// while it works.
//
// It reads tokens and builds no tree: a parser that follows the standard repeats
// every open formatting element in every block, so that a page of 100 KB becomes a
// tree of half a gigabyte. Time and memory are linear in the size of the page here. What
// Markdown adds to the text (marks, links, indentation) has a budget in proportion to
// the page. When that is spent, or where a page nests too deep, the text goes on
// without them. docs/adr/0041 has the measurements.
package htmltext

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"agentd/internal/base/text"
)

const (
	// maxToken bounds a tag, which keeps 32 bytes of memory for each attribute.
	// Longer ones are skipped; longer text is read in pieces.
	maxToken = 256 << 10
	// tokensBetweenChecks is how many tokens are read between two looks at the context.
	tokensBetweenChecks = 256

	maxTitle = 1000 // bytes
	maxURL   = 2048 // bytes; a longer link is written without its address

	// The Markdown that is added may have markupFactor times the size of the page,
	// and markupFloor bytes.
	markupFactor = 3
	markupFloor  = 4 << 10
	// The addresses of its links may take linkFactor times the size of the page to
	// make absolute, and linkFloor bytes: each reads the page's own address.
	linkFactor = 8
	linkFloor  = 64 << 10
)

// MaxGrowth and GrowthFloor bound the text of a page: it has at most MaxGrowth times
// the bytes of the page, plus GrowthFloor.
const (
	MaxGrowth   = markupFactor + 2
	GrowthFloor = markupFloor + maxURL
)

// Document is a converted page.
type Document struct {
	Title string
	Text  string
	Cut   bool // the text was longer than the limit
}

// Convert converts a page in UTF-8. Links become absolute if base, the page's URL, is
// not "". limit bounds the bytes of the text. The only error is that of ctx.
func Convert(ctx context.Context, page []byte, base string, limit int) (Document, error) {
	d, _, err := convert(ctx, page, base, limit)
	return d, err
}

// convert also returns how many bytes were read, written and moved.
func convert(ctx context.Context, page []byte, base string, limit int) (d Document, steps int, err error) {
	c := &converter{ctx: ctx, limit: limit, links: linkFactor*len(page) + linkFloor}
	c.budget = markupFactor*len(page) + markupFloor
	if at, err := url.Parse(base); err == nil && at.IsAbs() {
		c.base, c.baseSize = at, len(base)
	}
	if err := c.read(page); err != nil {
		return Document{}, c.steps, err
	}
	c.finish()
	out := strings.ToValidUTF8(string(bytes.TrimSpace(c.out)), "\uFFFD")
	return Document{Title: c.title, Text: text.PrefixBytes(out, limit), Cut: len(out) > limit}, c.steps + len(out), nil
}

// converter is the state of a conversion.
type converter struct {
	ctx   context.Context
	limit int
	title string

	base     *url.URL // that links refer to; nil if it is not known
	baseSize int
	based    bool // the page named a base of its own
	links    int  // bytes of addresses that may still be made absolute

	raw     string    // the open element whose content is not HTML, such as script
	comment bool      // the last token was a comment
	skipped atom.Atom // the open element whose content is dropped
	nested  int       // elements of that name inside it

	output
	nesting
}

// read reads a page. Where a token is too long for the tokenizer, it goes on after it.
func (c *converter) read(page []byte) error {
	for len(page) > 0 {
		n, err := c.scan(page)
		if err != nil {
			return err
		}
		page = c.skip(page[n:])
	}
	return nil
}

// scan reads tokens to the end of the page, of what the output may have, or to one
// that is too long. It returns how much it read.
func (c *converter) scan(page []byte) (read int, err error) {
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(maxToken)
	for tokens := 0; len(c.out) <= c.limit; tokens++ {
		if tokens%tokensBetweenChecks == 0 && c.ctx.Err() != nil {
			return read, c.ctx.Err()
		}
		kind := z.Next()
		if kind == html.ErrorToken {
			if errors.Is(z.Err(), html.ErrBufferExceeded) {
				return read, nil
			}
			return len(page), nil
		}
		read += len(z.Raw())
		c.steps += len(z.Raw())
		c.comment = false
		switch kind {
		case html.TextToken:
			c.content(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			c.startTag(z, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := z.TagName()
			c.endTag(atom.Lookup(name), name)
		case html.CommentToken:
			c.comment = bytes.HasPrefix(z.Raw(), []byte("<!--"))
		default:
		}
	}
	return len(page), nil
}

// skip returns what follows a token that was too long. Text, comments and raw content
// have been read up to the limit, a tag begins here.
func (c *converter) skip(rest []byte) []byte {
	after := func(end string) []byte {
		if _, found, ok := bytes.Cut(rest, []byte(end)); ok {
			return found
		}
		return nil
	}
	switch {
	case c.raw != "":
		for at := 0; ; at += 2 {
			i := bytes.Index(rest[at:], []byte("</"))
			if i < 0 {
				return nil
			}
			at += i
			if name := rest[at+2:]; len(name) >= len(c.raw) && strings.EqualFold(string(name[:len(c.raw)]), c.raw) {
				return rest[at:]
			}
		}
	case c.comment:
		c.comment = false
		return after("-->")
	case len(rest) >= maxToken-1 && rest[0] == '<':
		return after(">")
	}
	return rest
}

// rawElements have content that the tokenizer does not read as HTML.
var rawElements = map[atom.Atom]bool{
	atom.Iframe: true, atom.Noembed: true, atom.Noframes: true, atom.Noscript: true, atom.Plaintext: true, atom.Script: true,
	atom.Style: true, atom.Textarea: true, atom.Title: true, atom.Xmp: true,
}

// content handles text.
func (c *converter) content(b []byte) {
	if bytes.IndexByte(b, 0) >= 0 {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	switch {
	case c.skipped != 0:
	case c.raw == "title":
		if c.title == "" {
			c.title = strings.ToValidUTF8(text.PrefixBytes(text.OneLine(string(b[:min(len(b), 2*maxTitle)])), maxTitle), "")
		}
	case c.raw == "" || c.raw == "xmp" || c.raw == "plaintext":
		c.text(b)
	}
}

func (c *converter) startTag(z *html.Tokenizer, selfClosing bool) {
	name, more := z.TagName()
	tag := atom.Lookup(name)
	if rawElements[tag] {
		c.raw = tag.String()
	}
	if c.skipped != 0 {
		if tag == c.skipped && !selfClosing {
			c.nested++
		}
		if c.skipped != atom.Svg || !endsForeign[tag] {
			return
		}
		c.skipped = 0 // as in browsers, a page goes on after an SVG that was not closed
	}
	if tag == atom.Svg || tag == atom.Template {
		if !selfClosing {
			c.skipped, c.nested = tag, 0
		}
		return
	}
	var a attributes
	if more && hasAttributes[tag] {
		a = readAttributes(z)
	}
	c.start(tag, a)
}

func (c *converter) endTag(tag atom.Atom, name []byte) {
	if c.raw != "" && string(name) == c.raw {
		c.raw = ""
	}
	if c.skipped != 0 {
		if tag == c.skipped {
			if c.nested--; c.nested < 0 {
				c.skipped = 0
			}
		}
		return
	}
	c.end(tag)
}

// endsForeign has the elements of HTML that end an open SVG.
var endsForeign = map[atom.Atom]bool{
	atom.Blockquote: true, atom.Body: true, atom.Br: true, atom.Div: true, atom.Dl: true, atom.H1: true, atom.H2: true, atom.H3: true,
	atom.H4: true, atom.H5: true, atom.H6: true, atom.Hr: true, atom.Img: true, atom.Li: true, atom.Ol: true, atom.P: true, atom.Pre: true,
	atom.Table: true, atom.Ul: true,
}

// hasAttributes has the elements whose attributes matter.
var hasAttributes = map[atom.Atom]bool{atom.A: true, atom.Base: true, atom.Code: true, atom.Img: true, atom.Ol: true, atom.Pre: true}

// attributes of an element.
type attributes struct{ href, src, alt, class, start string }

func readAttributes(z *html.Tokenizer) (a attributes) {
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		var to *string
		switch string(key) {
		case "href":
			to = &a.href
		case "src":
			to = &a.src
		case "alt":
			to = &a.alt
		case "class":
			to = &a.class
		case "start":
			to = &a.start
		}
		if to != nil && *to == "" {
			*to = string(value)
		}
	}
	return a
}

// address returns a link's absolute URL; "" for one that names nothing elsewhere.
func (c *converter) address(ref string) string {
	ref = strings.TrimSpace(ref)
	if ref == "" || ref[0] == '#' || len(ref) > maxURL || c.links < c.baseSize+len(ref) {
		return ""
	}
	c.links -= c.baseSize + len(ref)
	c.steps += c.baseSize + len(ref)
	at, err := url.Parse(strings.Map(visible, ref))
	if err != nil || at.Scheme == "data" || at.Scheme == "javascript" {
		return ""
	}
	if c.base != nil {
		at = c.base.ResolveReference(at)
	}
	out := at.String()
	if strings.Count(out, "(") != strings.Count(out, ")") {
		out = strings.NewReplacer("(", "%28", ")", "%29").Replace(out)
	}
	if len(out) > maxURL {
		return ""
	}
	return out
}

// visible removes control characters, which browsers do not take as a part of a URL.
func visible(r rune) rune {
	if r < ' ' {
		return -1
	}
	return r
}
