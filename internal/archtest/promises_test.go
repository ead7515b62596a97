package archtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// absolute finds sentences that promise a behaviour without exception. They
// are what readers build on, so each names the test that keeps it true:
//
//	A final state never changes. <!-- test: run.TestMoves -->
//
// The comment stands in the same paragraph, list item or table row, is not
// rendered, and names tests as docs/conformance.md does.
var (
	absolute = regexp.MustCompile(`(?i)\b(never|always|exactly once|exactly one|(is|are) not lost|nothing (essential )?is lost|loses? (nothing|no))\b`)
	proof    = regexp.MustCompile(`<!-- test: (.*?) -->`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// unpromising lists pages that explain or instruct, and promise nothing to a
// user.
var unpromising = []string{
	"CHANGELOG.md", "CONTRIBUTING.md", "docs/adding-a-resource.md", "docs/adr/", "docs/architecture.md", "docs/conformance.md", "docs/configuration.md",
	"docs/contributing.md", "docs/glossary.md", "docs/regrets.md", "docs/tools.md", "bench/", "test/",
}

func TestPromisesNameTheirTests(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	for name, p := range pages(t) {
		if slices.ContainsFunc(unpromising, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		for _, b := range blocks(p.prose) {
			found := absolute.FindString(codeSpan.ReplaceAllString(proof.ReplaceAllString(b, ""), ""))
			proofs := proof.FindAllStringSubmatch(b, -1)
			if found != "" && len(proofs) == 0 {
				t.Errorf("%s promises %q and names no test; add <!-- test: package.TestName --> to it, or promise less: %s", name, found, firstLine(b))
			}
			for _, m := range proofs {
				for test := range strings.SplitSeq(m[1], ",") {
					if why := missing(pkgs, strings.TrimSpace(test)); why != "" {
						t.Errorf("%s: %s: %s", name, test, why)
					}
				}
			}
		}
	}
}

// named finds the tests that a document names as code.
var named = regexp.MustCompile("`([a-z][a-z0-9]*\\.(?:Test|Fuzz)[A-Z][A-Za-z0-9_]*(?:/[^` ]+)?)`")

// A test that a page names as a proof is there.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	pkgs := tree(t)
	found := 0
	for name, p := range pages(t) {
		if name == "CHANGELOG.md" || name == conformanceDoc { // history, and checked elsewhere
			continue
		}
		for _, m := range named.FindAllStringSubmatch(p.prose, -1) {
			found++
			if why := missing(pkgs, m[1]); why != "" {
				t.Errorf("%s: %s: %s", name, m[1], why)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d tests are named", found)
	}
}

// blocks splits prose into paragraphs, list items and table rows.
func blocks(prose string) []string {
	var found []string
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			found = append(found, b.String())
			b.Reset()
		}
	}
	for line := range strings.Lines(prose) {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
			end()
			continue
		case strings.HasPrefix(text, "|"), strings.HasPrefix(text, "- "), strings.HasPrefix(text, "#"), listItem.MatchString(text):
			end()
		}
		b.WriteString(line)
	}
	end()
	return found
}

var listItem = regexp.MustCompile(`^\d+\. `)

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// The check itself must be able to fail.
func TestBlocksAreSplit(t *testing.T) {
	t.Parallel()
	got := blocks("A runs\nand never ends.\n\n- one\n  more\n- two\n\n| a | b |\n| c | d |\n1. first\n")
	want := []string{"A runs\nand never ends.\n", "- one\n  more\n", "- two\n", "| a | b |\n", "| c | d |\n", "1. first\n"}
	if !slices.Equal(got, want) {
		t.Errorf("blocks: %q, want %q", got, want)
	}
}
