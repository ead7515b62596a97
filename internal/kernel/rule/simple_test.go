package rule_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agentd/internal/kernel/rule"
)

// Holds answers as True does, whether the work of a rule is counted or not.
func TestHoldsIsTrue(t *testing.T) {
	t.Parallel()
	sources := []string{
		`args.amount > 100`, `has(args.amount) && args.amount > 100`, `args.amount == 250.0`, `'web' in sources`, `!('web' in sources)`,
		`size(sources) > 0`, `args.to.endsWith("@acme.org")`, `args.to.contains("x") || args.amount != 3`, `args.missing == 1`,
		`args.amount > "x"`, `args.amount * 2.0 > 400.0`, `args.list[0] == "a"`, `args.list[7] == "a"`, `args.amount > 5 ? true : false`,
		`agent.id in ["a", "b"]`, `args.to`, `args.amount / 0.0 > 1.0`, `1 / 0 > 1`, `-args.amount < 0.0`, `args["amount"] >= 250`,
		`args.to.matches("^b.*g$")`, `sources.exists(s, s == "web")`, `args.to + "x" == "bob@acme.orgx"`, `{"a": 1}.a == 1`, `args == {"x": 1}`,
		`string(args.amount) == "250"`, `args.nested.deep.er == true`, `type(args) == map`,
	}
	args := map[string]any{
		"amount": 250.0, "to": "bob@acme.org", "list": []any{"a", 1.0, nil}, "nested": map[string]any{"deep": map[string]any{"er": true}},
	}
	for _, source := range sources {
		r, err := rule.Compile(source, "args", "agent", "sources")
		if err != nil {
			t.Fatal(source, err)
		}
		for _, read := range [][]any{{}, {"web"}} {
			vars := map[string]any{"args": args, "agent": map[string]any{"id": "a"}, "sources": read}
			want, wantErr := r.True(t.Context(), vars)
			v, err := rule.NewValues(vars, 500)
			if err != nil {
				t.Fatal(err)
			}
			got, gotErr := r.Holds(t.Context(), v)
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Errorf("%s: %v, %v; want %v, %v", source, got, gotErr, want, wantErr)
			}
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := rule.Compile(`args.a == 1`, "args")
	if err != nil {
		t.Fatal(err)
	}
	v, err := rule.NewValues(map[string]any{"args": map[string]any{"a": 1}}, 10)
	if _, e := r.Holds(gone, v); err != nil || e != context.Canceled {
		t.Errorf("%v, %v", err, e)
	}
}

// Rules whose work is not proportional to their values are counted, and so are all
// rules on large values.
func TestHoldsIsBounded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	for source, want := range map[string]error{
		"[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, args.a + args.a + args.a)).size() == 1": rule.ErrTooExpensive,
		strings.TrimSuffix(strings.Repeat("args.a == 'xy' || ", 400), " || "):                          nil,
	} {
		r, err := rule.Compile(source, "args")
		if err != nil {
			t.Fatal(err)
		}
		v, err := rule.NewValues(map[string]any{"args": map[string]any{"a": text}}, len(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, got := r.Holds(t.Context(), v); got != want {
			t.Errorf("%.40s: %v, want %v", source, got, want)
		}
	}
}
