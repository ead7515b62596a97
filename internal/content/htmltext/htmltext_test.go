package htmltext

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestConvert(t *testing.T) {
	t.Parallel()
	const base = "https://example.com/dir/page?x=1"
	for name, tt := range map[string]struct{ page, want string }{
		"paragraphs":    {"<p>one\n two<p>three</p>\n<div>four<div>five</div></div>six", "one two\n\nthree\n\nfour\n\nfive\n\nsix"},
		"headings":      {"<h1>A <em>b</em></h1><h3><div>C<br>d</div></h3>e<h2></h2>", "# A *b*\n\n### C d\n\ne"},
		"marks":         {"a<b> bold </b>and <i>it <b>al</b></i><strong></strong>.", "a **bold** and *it* ***al***."},
		"mark_unclosed": {"<p><b>a<p>b", "**a**\n\nb"},
		"code":          {"<code>x</code> <kbd>a`b</kbd>", "`x` ``a`b``"},
		"pre":           {"x<pre><code class='a language-go'>\nif a {\n\n\tb()\n}\n</code></pre>y", "x\n\n```go\nif a {\n\n\tb()\n}\n```\n\ny"},
		"pre_backticks": {"<pre>```\na</pre>", "````\n```\na\n````"},
		"pre_lines":     {"<pre><div>a</div><div>b</div></pre>", "```\na\nb\n```"},
		"links":         {`<a href="../b c">x <b>y</b></a> <a href="data:x">d</a><a href="javascript:x">e</a><a>f</a><a href="#g"></a>`, "[x **y**](https://example.com/b%20c) def"},
		"link_of_block": {`<a href="/x"><h2>Title</h2><p>More</p></a>z`, "## [Title](https://example.com/x)\n\nMore\n\nz"},
		"link_brackets": {`<a href="/a_(b)">x</a><a href="/a)">y</a>`, "[x](https://example.com/a_(b))[y](https://example.com/a%29)"},
		"base":          {`<base href="https://other.example/z/"><a href="y">x</a>`, "[x](https://other.example/z/y)"},
		"images": {`<img src="/a.png" alt=" a
 duck "><img src="data:x"><img src="data:x" alt="b"><a href="/l"><img src="i"></a>`, "![a duck](https://example.com/a.png)![b]()[![](https://example.com/dir/i)](https://example.com/l)"},
		"lists":          {"<p>x</p><ul><li>one<li><p>two</p><p>more</p></li><li>three<ol start=9><li>a</li><li>b</ol></ul>y", "x\n\n- one\n- two\n\n  more\n- three\n  9. a\n  10. b\n\ny"},
		"item_of_none":   {"<li>a<li>b", "- a\n- b"},
		"quotes":         {"a<blockquote><p>b</p><p>c<br>d</p><blockquote>e</blockquote></blockquote>f", "a\n\n> b\n>\n> c\n> d\n>\n> > e\n\nf"},
		"quote_of_code":  {"<blockquote><ul><li>x<pre>a\n\nb</pre></ul></blockquote>", "> - x\n>\n>   ```\n>   a\n>\n>   b\n>   ```"},
		"breaks":         {"a<br>b<br><br><br>c<hr>d", "a\nb\n\nc\n\n---\n\nd"},
		"definitions":    {"<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd"},
		"table":          {"x<table><caption>Cap</caption><thead><tr><th>A<br>a<th>B|c</thead><tr><td><p>1</p><td>2|3<tr><td>x</table>y", "x\n\nCap\n\n| A a | B\\|c |\n|---|---|\n| 1 | 2\\|3 |\n| x |\n\ny"},
		"table_in_quote": {"<blockquote>q<table><tr><td>a<td>b<tr><td>c<td>d</table></blockquote>", "> q\n>\n> | a | b |\n> |---|---|\n> | c | d |"},
		"table_list":     {"<table><tr><td>a<td>b<tr><td>c<td><ul><li>d<li>e</ul></table>", "| a | b |\n|---|---|\n| c | d e |"},
		"table_marks":    {"<table><tr><td><b>a<td>b<tr><td><a href=x>c<td>d</table>", "| **a** | b |\n|---|---|\n| [c](https://example.com/dir/x) | d |"},
		"layout":         {"<table><tr><td>menu<td><h1>Title</h1><p>one<p>two<ul><li>x</ul></table>", "menu\n\n# Title\n\none\n\ntwo\n\n- x"},
		"layout_single":  {"<table><tr><td>a<tr><td>b</table>c", "a\nb\n\nc"},
		"layout_nested":  {"<table><tr><td><table><tr><td>a<td>b<tr><td>c<td>d</table><td>e</table>", "| a | b |\n|---|---|\n| c | d |\n\ne"},
		"layout_late":    {"<table><tr><td>a<td>b<tr><td>c<td><pre>x</pre><tr><td>d<td>e</table>", "| a | b |\n|---|---|\n| c |\n\n```\nx\n```\n\nd e"},
		"cells_of_none":  {"<td>a<td>b<tr>c", "a\nb\nc"},
		"dropped":        {"<head><title>T</title><style>s</style></head><script>x</script><svg><title>i</title><text>j</text></svg><template>t</template><noscript>n</noscript><textarea>a</textarea><iframe>f</iframe>k", "k"},
		"svg_open":       {"<svg><g>x<p>y", "y"},
		"entities":       {"&lt;b&gt; &amp;amp; &#228;&nbsp;|*_", "<b> &amp; ä\u00a0|*_"},
		"nul":            {"a\x00b", "ab"},
		"not_utf8":       {"a\xffb", "a\uFFFDb"},
		"comments":       {"a<!-- <p>b --><!doctype x><?php y ?>c", "ac"},
		"nothing":        {" \n<p> </p><ul><li></ul><table><tr><td></table>", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Convert(t.Context(), []byte(tt.page), base, 1<<20)
			if d.Text != tt.want || d.Cut || err != nil {
				t.Errorf("%v\ngot  %q\nwant %q", err, d.Text, tt.want)
			}
		})
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"<title> A &amp;\n b</title><title>c</title>": "A & b",
		"<svg><title>icon</title></svg><title>d":      "d",
		"<title>" + strings.Repeat("ä", 2000):         strings.Repeat("ä", maxTitle/2),
		"<p>":                                         "",
	} {
		if d, _ := Convert(t.Context(), []byte(page), "", 100); d.Title != want {
			t.Errorf("%.30q: %q", page, d.Title)
		}
	}
}

// A page with a token that is too long for the tokenizer is read on after it.
func TestLongTokens(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxToken)
	for name, tt := range map[string]struct{ page, want string }{
		"script":     {"a<script>" + long + "<p></b></script>b", "ab"},
		"comment":    {"a<!-- " + long + "<p>c-->b", "ab"},
		"attribute":  {`a<img src="data:` + long + `">b`, "ab"},
		"attributes": {"a<p " + strings.Repeat("y ", maxToken) + ">b", "ab"},
		"text":       {"a " + long + " b", "a " + long + " b"},
		"tag":        {"a<" + long + ">b", "ab"},
		"unclosed":   {"a<script>" + long, "a"},
		"open_tag":   {"a<p " + long, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Convert(t.Context(), []byte(tt.page), "", 1<<22)
			if d.Text != tt.want || err != nil {
				t.Errorf("%d bytes: %.40q, %v", len(d.Text), d.Text, err)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	d, err := Convert(t.Context(), []byte(strings.Repeat("<p>ä", 1000)), "", 101)
	if err != nil || !d.Cut || len(d.Text) > 101 || len(d.Text) < 97 || !utf8.ValidString(d.Text) {
		t.Errorf("%d bytes, %+v, %v", len(d.Text), d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Convert(ctx, []byte("x"), "", 100); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
