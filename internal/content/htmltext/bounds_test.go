package htmltext

import (
	"context"
	"runtime/metrics"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const (
	maxSteps  = 40 // for each byte of a page
	maxMemory = 60 // bytes allocated in all for each byte of a page
	memory    = 2 << 20
)

// pieces of pages, of which many together are expensive for other converters.
var pieces = []string{
	"<br>", "<b>", "</b>", "<div>", "</div>", "<a><b><i><font color=1>", "<table>", "</table>", "<table><tr><td>", "<tr>", "<tr><td>b", "<td>",
	"<th>|", "</tr>", "<td colspan=1000 rowspan=1000>x", "<p a=b c=d e=f>", "<blockquote>x", "<blockquote>", "</blockquote>", "<ul><li>x", "<ol><li>",
	"<ol start=99999998>", "<li>", "</li>", "</ul>", "&amp;", "&nGt;", "*_`[", "<", "</", "<!--", "-->", `<a href="x">y</a>`, "<a href=x>", "</a>", "<pre>", "</pre>",
	"<pre><code>```", "```", "<code>`", "</code>", "x\n", " \n\t", "<h1>x", "</h1>", "<span> ", "<b>x <i>y</i>", "<img src=x alt=y>", "<dl><dt>x<dd>y",
	"<hr>", "<caption>", "<svg>", "</svg>", "<title>", "</title>", "<script>", "</script>", "<font a=1>", "x", "word ", "<td><p>a<p>b", "<base href=/aaaaaaaaaa/>",
	"a</x>", "<p>a<table><tr><td>1</table>", "<input value='", "'>", "<p ", "a ", "\x00", "\xff", "ä",
}

func inBounds(page, base string) (steps, length int, ok bool, err error) {
	const limit = 1 << 30
	d, steps, err := convert(context.Background(), []byte(page), base, limit)
	length = len(d.Text)
	ok = length <= MaxGrowth*len(page)+GrowthFloor && steps <= maxSteps*(len(page)+GrowthFloor) && utf8.ValidString(d.Text) && utf8.ValidString(d.Title)
	return steps, length, ok, err
}

// What a page costs grows with its size, whatever it consists of: a beginning that is
// repeated up to 2,000 times, then a few pieces in turn.
func TestGrowth(t *testing.T) { // alone, because it measures memory
	base := "https://example.com/" + strings.Repeat("long/", 300)
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	allocated := func() int {
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	check := func(t interface {
		Errorf(format string, args ...any)
	}, page string) {
		before := allocated()
		steps, length, ok, err := inBounds(page, base)
		if got := allocated() - before; !ok || err != nil || got > maxMemory*len(page)+memory {
			t.Errorf("%d bytes became %d in %d steps with %d bytes of memory, %v: %.100q", len(page), length, steps, got, err, page)
		}
	}
	for _, first := range pieces {
		check(t, strings.Repeat(first, (64<<10)/len(first)))
	}
	if t.Failed() {
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom(pieces)
		begin := strings.Repeat(strings.Join(rapid.SliceOfN(piece, 0, 3).Draw(t, "begin"), ""), rapid.IntRange(0, 2000).Draw(t, "times"))
		turn := strings.Join(rapid.SliceOfN(piece, 1, 8).Draw(t, "turn"), "")
		check(t, begin+strings.Repeat(turn, (32<<10)/len(turn)))
	})
}

// A wide first row before many narrow ones, which other converters fill up to a
// rectangle.
func TestWideTable(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"wide_first": "<table><tr>" + strings.Repeat("<td>", 8000) + strings.Repeat("<tr><td>b", 8000),
		"wide_last":  "<table>" + strings.Repeat("<tr><td>b<td>c", 8000) + "<tr>" + strings.Repeat("<td>x", 8000),
		"spans":      "<table>" + strings.Repeat("<tr><td colspan=1000 rowspan=65534>b<td>c", 8000),
		"formatting": "<div>" + strings.Repeat("<font a>", 400) + "</div>" + strings.Repeat("<div>x</div>", 8000),
	} {
		steps, length, ok, err := inBounds(page, "")
		if !ok || err != nil {
			t.Errorf("%s: %d bytes became %d in %d steps, %v", name, len(page), length, steps, err)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add("<table><tr><td colspan=3><table><a><b></table>")
	f.Add(strings.Repeat("<div>", 600) + "deep")
	f.Add("<title></title><ol start=99999999999999999999><li><pre>x")
	for _, p := range pieces {
		f.Add(p + "<ul><li>" + p + "<table><tr><td>" + p + "<td>" + p + "<tr><td>" + p + "</table><pre>" + p)
	}
	f.Fuzz(func(t *testing.T, page string) {
		if steps, length, ok, err := inBounds(page, "https://example.com/a/b"); !ok || err != nil {
			t.Errorf("%d bytes became %d in %d steps, %v", len(page), length, steps, err)
		}
	})
}
