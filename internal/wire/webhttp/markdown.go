package webhttp

import (
	"slices"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// markdown returns a page's title and its content as Markdown with absolute links. For
// a page that cannot be parsed, for example because it nests too deep, or converted,
// it returns the text between the tags.
func markdown(page, url string) (title, content string) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", stripTags(page)
	}
	title = prepare(doc, 0)
	defer func() {
		if recover() != nil { // the converter does not expect every tree that a parser makes
			content = stripTags(page)
		}
	}()
	c := newConverter()
	c.Register.TagType("svg", converter.TagTypeRemove, converter.PriorityEarly)
	out, err := c.ConvertNode(doc, converter.WithDomain(url))
	if err != nil {
		return title, stripTags(page)
	}
	return title, strings.TrimSpace(string(out))
}

func newConverter() *converter.Converter {
	return converter.NewConverter(
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()),
		// The Markdown is not rendered again, and escaping takes time that grows with
		// the square of the page.
		converter.WithEscapeMode(converter.EscapeModeDisabled),
	)
}

// maxNesting bounds the nesting of quotes and lists: each level indents every line, so
// that a page could grow to many times its size.
const maxNesting = 12

// prepare removes data: URLs, quotes and lists that nest too deep, and spans of table
// cells, because a cell that spans a million rows would become a million cells. It
// returns the title. The parser limits the nesting to 512.
func prepare(n *html.Node, nesting int) (title string) {
	if n.Type == html.ElementNode {
		switch n.DataAtom {
		case atom.Blockquote, atom.Ul, atom.Ol, atom.Li:
			if nesting++; nesting > maxNesting {
				n.DataAtom, n.Data = atom.Div, "div"
			}
		case atom.Title:
			if n.FirstChild != nil && n.Namespace == "" {
				return strings.Join(strings.Fields(n.FirstChild.Data), " ")
			}
		}
		n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
			return a.Key == "colspan" || a.Key == "rowspan" || (a.Key == "src" || a.Key == "href") && isData(a.Val)
		})
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if found := prepare(c, nesting); title == "" {
			title = found
		}
	}
	return title
}

// isData reports whether a URL is a data: URL.
func isData(url string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(url[:min(len(url), 20)])), "data:")
}

// stripTags returns the text of a page without its tags.
func stripTags(page string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	skip := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.TrimSpace(b.String())
		case html.TextToken:
			if skip == "" {
				b.Write(z.Text())
				b.WriteByte(' ')
			}
		case html.StartTagToken:
			if name, _ := z.TagName(); skip == "" && (string(name) == "script" || string(name) == "style") {
				skip = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		default:
		}
	}
}
