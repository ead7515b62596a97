package pattern_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"agentd/internal/base/pattern"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`(?i)secret\d+`:                   "",
		`a{1000}`:                         "",
		`\pL{100}`:                        "",
		``:                                "",
		`(`:                               "RE2",
		`(?<=a)b`:                         "RE2",
		`a{1001}`:                         "RE2",
		`(x{1000}){1000}`:                 "RE2",
		strings.Repeat(`a{0,1000}`, 20):   "limit is 2000",
		strings.Repeat(`(a|b){200,}`, 20): "limit is 2000",
		strings.Repeat("ab", 1500):        "limit is 2000",
		`(((a{1,30}){1,30}){1,30})`:       "",
	} {
		p, err := pattern.Compile(expression)
		switch {
		case expression == `(((a{1,30}){1,30}){1,30})`: // RE2 allows it, the bound does not
			if err == nil {
				t.Errorf("%q has %d instructions", expression, p.Size())
			}
		case want == "" && (err != nil || p.Size() > pattern.MaxSize):
			t.Errorf("%q: %v", expression, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.40q: %v", expression, err)
		}
	}
}

// An expression of the largest size on a text of the largest size ends when its
// context does.
func TestStops(t *testing.T) {
	t.Parallel()
	p, err := pattern.Compile("(?:" + strings.Repeat("a?", 600) + ")b")
	if err != nil {
		t.Fatal(err)
	}
	const steps = 1 << 25
	text := strings.Repeat("a", steps/p.Size()-1)
	ctx := &countedContext{Context: t.Context(), looks: 3}
	if _, err := p.Match(ctx, text, pattern.NewBudget(steps)); !errors.Is(err, context.Canceled) {
		t.Errorf("match: %v", err)
	}
	ctx.looks = 3
	if _, _, err := p.Replace(ctx, text, "", pattern.NewBudget(steps)); !errors.Is(err, context.Canceled) {
		t.Errorf("replace: %v", err)
	}
	if _, err := p.Match(t.Context(), text+"aa", pattern.NewBudget(steps)); !errors.Is(err, pattern.ErrSteps) {
		t.Errorf("too large: %v", err)
	}
}

// countedContext ends after a few looks.
type countedContext struct {
	context.Context
	looks int
}

// Err implements context.Context.
func (c *countedContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// Each match looks for a longer one to the end of the text, so that all of them
// together would take the square of its length.
func TestReplaceIsBounded(t *testing.T) {
	t.Parallel()
	p, err := pattern.Compile("(?s)a.*z|a")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Replace(t.Context(), strings.Repeat("a", 100_000), "x", pattern.NewBudget(1<<22)); !errors.Is(err, pattern.ErrSteps) {
		t.Error(err)
	}
	if out, _, err := p.Replace(t.Context(), strings.Repeat("a", 100), "x", pattern.NewBudget(1<<22)); out != strings.Repeat("x", 100) || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// Many small texts have one budget.
func TestBudget(t *testing.T) {
	t.Parallel()
	p, err := pattern.Compile("(?s)a.*z|a")
	if err != nil {
		t.Fatal(err)
	}
	text, b := strings.Repeat("a", 1000), pattern.NewBudget(1<<22)
	for n := 0; ; n++ {
		if _, _, err = p.Replace(t.Context(), text, "x", b); errors.Is(err, pattern.ErrSteps) {
			break
		} else if err != nil || n > 1000 {
			t.Fatalf("%d texts, %v", n, err)
		}
	}
	if _, err := p.Match(t.Context(), strings.Repeat("b", 1<<22/p.Size()), b); !errors.Is(err, pattern.ErrSteps) {
		t.Error(err)
	}
}

// FuzzReplace compares with the standard library.
func FuzzReplace(f *testing.F) {
	for _, expression := range []string{`a`, `\b`, `^a|b$`, `a*`, `(?m)^`, `\Ba`, `.`, `(?s).`, `ä|\xff`, `a|ab`, `(?U)a+`, `$`, `\z`, `(?i)k`, `\Qa`, `[^a]*`, `(a)(b)?`, `\A\w`} {
		for _, text := range []string{"", "a", "aaab ab", "ä\xffaä", "a\nb\na", "k\u212a", "\xff\xfe"} {
			f.Add(expression, text, "<>")
		}
	}
	f.Fuzz(func(t *testing.T, expression, text, by string) {
		if len(expression) > 200 || len(text) > 2000 || len(by) > 100 {
			return
		}
		p, err := pattern.Compile(expression)
		if err != nil {
			return
		}
		re := regexp.MustCompile(expression)
		got, found, err := p.Replace(t.Context(), text, by, pattern.NewBudget(1<<22))
		if errors.Is(err, pattern.ErrSteps) {
			return
		}
		want := re.ReplaceAllLiteralString(text, by)
		if err != nil || found != re.MatchString(text) || got != want {
			t.Errorf("%q in %q: got %q, %t, %v; want %q", expression, text, got, found, err, want)
		}
	})
}

// An expression that ends within \Q is one, also behind the first match.
func TestReplaceQuoted(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`\Qa.`: "xb xc aa", `\Qa.\E`: "xb xc aa", `(?i)\QA.`: "xb xc aa", `a\.|\Qc`: "xb xx aa", `\\Q`: "a.b a.c aa", `a$|\Qa.)`: "a.b a.c ax",
	} {
		p, err := pattern.Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if out, _, err := p.Replace(t.Context(), "a.b a.c aa", "x", pattern.NewBudget(1<<22)); out != want || err != nil {
			t.Errorf("%s makes %q, %v; want %q", expression, out, err, want)
		}
	}
}

// A class of characters costs the same whatever it has: written out, a thousand of
// them would take seconds.
func TestClassesAreCheap(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for range 20 {
		for _, expression := range []string{strings.Repeat("[^/]*[^/]", 1000), strings.Repeat("[^a]", 1900), `(?i)` + strings.Repeat(`\W`, 1900)} {
			_, _ = pattern.Compile(expression) // whether it is too large is another test's
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("60 expressions take %v", took)
	}
}
