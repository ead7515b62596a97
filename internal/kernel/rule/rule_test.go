package rule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"agentd/internal/kernel/rule"
)

// vars are values as JSON gives them.
func vars() map[string]any {
	return map[string]any{
		"text": "please pay 100.50 to DE89370400440532013000",
		"tool": "pay",
		"arguments": map[string]any{
			"amount": 100.5, "whole": 3.0, "to": "é", "list": []any{1.0, "a", nil}, "null": nil, "yes": true,
			"inner": map[string]any{"deep": 7.0},
		},
		"count": 5, "count64": int64(5),
	}
}

var names = []string{"text", "tool", "arguments", "count", "count64"}

func TestTrue(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		`arguments.amount > 100`:                                        true,
		`arguments.amount > 100.5`:                                      false,
		`arguments.amount >= 100.5 && tool == "pay"`:                    true,
		`arguments.whole == 3 && arguments.whole == 3.0`:                true,
		`arguments.whole < 4 && arguments.whole != 4`:                   true,
		`arguments.whole in [1, 2, 3]`:                                  true,
		`count == 5.0 && count64 > 4.5 && count < arguments.amount`:     true,
		`arguments.amount * 2.0 == 201.0`:                               true,
		`int(arguments.whole) % 2 == 1`:                                 true,
		`arguments.list[0] == 1 && arguments.list[1] == "a"`:            true,
		`arguments.list.exists(x, x == "a")`:                            true,
		`arguments.list[2] == null && arguments["null"] == null`:        true,
		`arguments.inner.deep == 7`:                                     true,
		`has(arguments.amount) && !has(arguments.absent)`:               true,
		`has(arguments.absent) && arguments.absent > 1`:                 false,
		`arguments.absent > 1 || tool == "pay"`:                         true,
		`arguments.absent > 1 && tool == "read"`:                        false,
		`arguments.yes`:                                                 true,
		`text.matches("DE[0-9]{20}")`:                                   true,
		`text.matches("(?i)PLEASE") && text.startsWith("please")`:       true,
		`size(arguments.to) == 1`:                                       true,
		`duration("1h") > duration("59m")`:                              true,
		`timestamp("2026-01-01T12:00:00Z").getHours() == 12`:            true,
		"// a comment\n\ttool == 'pay' // and another\n":                true,
		`arguments.list == [1, "a", null] && arguments.inner.size()==1`: true,
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r, err := rule.Compile(source, names...)
			if err != nil {
				t.Fatalf("%s: %v", source, err)
			}
			if got, err := r.True(t.Context(), vars()); err != nil || got != want {
				t.Errorf("%s is %v, %v", source, got, err)
			}
		})
	}
}

func TestRefusedSources(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                          "the rule is empty",
		" \n\t":                     "the rule is empty",
		"1":                         "the rule gives a value of type int; it must be true or false",
		`"true"`:                    "the rule gives a value of type string; it must be true or false",
		"amount > 1":                "line 1, column 1: undeclared reference to 'amount'",
		"tool == 'x' &&\n  whom":    "line 2, column 3: undeclared reference to 'whom'",
		"arguments.":                "line 1, column 11: no viable alternative at input '.'",
		"(":                         "line 1, column 2: ",
		`text.matches("(")`:         "the rule cannot be compiled: error parsing regexp",
		"exec('rm')":                "line 1, column 5: undeclared reference to 'exec'",
		"\xff":                      "line 1",
		strings.Repeat("(", 4000):   "expression recursion limit exceeded: 100",
		strings.Repeat("x", 10_000): "the rule is longer than 8192 bytes",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			_, err := rule.Compile(source, names...)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%.40q is refused with %v, want %s", source, err, want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`arguments.absent > 1`:              "no such key: absent",
		`arguments.list[9] == 1`:            "index out of bounds: 9",
		`arguments["null"] > 1`:             "an operator does not take values of these types",
		`arguments.amount * 2 > 1`:          "an operator does not take values of these types",
		`arguments.to`:                      "the rule gave a value of type string; it must be true or false",
		`1 / (count - 5) > 1`:               "division by zero",
		`text.matches(tool + "(")`:          "error parsing regexp",
		`count64 + 9223372036854775807 > 0`: "integer overflow",
	} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r, err := rule.Compile(source, names...)
			if err != nil {
				t.Fatalf("%s: %v", source, err)
			}
			got, err := r.True(t.Context(), vars())
			if err == nil || got || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s is %v, %v, want %q", source, got, err, want)
			}
		})
	}
}

func TestMissingVariable(t *testing.T) {
	t.Parallel()
	r, err := rule.Compile(`tool == "pay"`, "tool")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := r.True(t.Context(), nil); is || err == nil {
		t.Errorf("it is %v, %v", is, err)
	}
}

func TestRulesThatTakeTooLong(t *testing.T) {
	t.Parallel()
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	big := map[string]any{"text": strings.Repeat("x", 1<<20)}
	for name, source := range map[string]string{
		"nested loops":  ten + ".all(a," + strings.Repeat(ten+".all(a,", 9) + "true" + strings.Repeat(")", 10),
		"growing lists": ten + strings.Repeat(".map(x,[x,x,x,x,x])", 30) + " == []",
		"growing text":  "[text]" + strings.Repeat(".map(x, x+x)", 40) + ".size() > 0",
		"large regex":   `text.matches("(` + strings.Repeat("x?", 900) + `)*y")`,
		"dynamic regex": `text.matches((text.size() > 0 ? "(" : "") + "` + strings.Repeat("x?", 900) + `)*y")`,
		"large regexes": strings.Repeat(`text.matches("(`+strings.Repeat("x?", 60)+`)*y") || `, 12) + "false",
		"many searches": "[" + strings.Repeat("1,", 900) + `1].all(a, [1,2,3,4,5,6,7,8].all(b, !text.matches("(y|z|xy){1,8}$")))`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if underRace && name == "large regexes" {
				t.Skip("played without the race detector; see .ci/run")
			}
			t.Parallel()
			r, err := rule.Compile(source, "text")
			if err != nil {
				t.Fatal(err)
			}
			if is, err := r.True(t.Context(), big); is || !errors.Is(err, rule.ErrTooExpensive) {
				t.Errorf("it is %v, %v", is, err)
			}
		})
	}
}

func TestLargeTexts(t *testing.T) {
	t.Parallel()
	r, err := rule.Compile(`text.matches("(?i)secret|password|x{20}y") || text.contains("needle")`, "text")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := r.True(t.Context(), map[string]any{"text": strings.Repeat("hay ", 1<<18) + "needle"}); !is || err != nil {
		t.Errorf("it is %v, %v", is, err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	r, err := rule.Compile("true")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.True(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it gave %v", err)
	}
}

// A value that panics where the language looks into it.
type trap map[string]any

func (trap) Value() any { panic("trapped") }

func TestPanics(t *testing.T) {
	t.Parallel()
	r, err := rule.Compile(`x.y == 1`, "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []any{trap{}, (*int)(nil), func() {}, make(chan int), struct{ y int }{1}} {
		if is, err := r.True(t.Context(), map[string]any{"x": x}); is || err == nil {
			t.Errorf("%T: it is %v, %v", x, is, err)
		}
	}
}

func TestSharedAndBounded(t *testing.T) {
	t.Parallel()
	a, err := rule.Compile(`x == "shared"`, "x")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := rule.Compile(`x == "shared"`, "x"); err != nil || a != b {
		t.Errorf("compiled again: %v", err)
	}
	if b, err := rule.Compile(`x == "shared"`, "x", "y"); err != nil || a == b {
		t.Errorf("shared with other variables: %v", err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				r, err := rule.Compile(fmt.Sprintf("x == %d", i), "x")
				if err != nil {
					t.Error(err)
					return
				}
				if is, err := r.True(t.Context(), map[string]any{"x": float64(w)}); err != nil || is != (i == w) {
					t.Errorf("%d == %d is %v, %v", w, i, is, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzRule(f *testing.F) {
	for _, s := range []string{
		`arguments.amount > 100 && tool == "pay"`, `text.matches("(a+)+b")`, `arguments.list.map(x, x)`, `has(arguments.a.b)`,
		`{"a": 1}["a"] == 1`, `b"\xff" == bytes(text)`, `dyn(1) == 1u`, `!true ? 1 : "x"`, `timestamp(text) > timestamp(0)`, "((((((1))))))", `r'\d'`, "\x00",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		r, err := rule.Compile(source, names...)
		if err != nil {
			if said := err.Error(); said == "" || strings.Contains(said, "\n") || !utf8.ValidString(said) {
				t.Errorf("refused with %q", said)
			}
			return
		}
		if is, err := r.True(t.Context(), vars()); err != nil && (is || strings.Contains(err.Error(), "\n")) {
			t.Errorf("it is %v, %v", is, err)
		}
	})
}

func BenchmarkTrue(b *testing.B) {
	r, err := rule.Compile(`arguments.amount > 100 && tool == "pay"`, names...)
	if err != nil {
		b.Fatal(err)
	}
	v := vars()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.True(b.Context(), v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := rule.Compile(fmt.Sprintf(`arguments.amount > %d && tool == "pay"`, i), names...); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := rule.Compile(`arguments.amount > 100 && tool == "pay"`, names...); err != nil {
				b.Fatal(err)
			}
		}
	})
}
