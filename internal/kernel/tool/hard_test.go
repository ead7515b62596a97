package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Invalid arguments are refused at once with a sentence about what is wrong, and
// the tool is not called.
func TestArgumentsThatAreNoGood(t *testing.T) {
	t.Parallel()
	var called atomic.Int32
	s := set(t, Limits{}, Tool{
		Name:       "x",
		Parameters: jsontext.Value(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"additionalProperties":{"type":"object"}}`),
		Run:        func(context.Context, Call) (Result, error) { called.Add(1); return Result{Output: "called"}, nil },
	})
	deep := func(n int) string { return strings.Repeat(`{"x":`, n) + "{}" + strings.Repeat("}", n) }
	for name, test := range map[string]struct{ arguments, want string }{
		"no_json":         {`{"a":`, "not valid JSON (at byte 5)"},
		"not_an_object":   {`[1]`, "got array, want object"},
		"two_values":      {`{} {}`, "not valid JSON"},
		"duplicate":       {`{"a":[1],"a":[2]}`, "/a is duplicated"},
		"deep_duplicate":  {`{"x":{"y":{},"y":{}}}`, "/x/y is duplicated"},
		"bad_utf8":        {"{\"x\":{\"y\":\"\xff\"}}", "not valid JSON"},
		"lone_surrogate":  {`{"x":{"y":"\ud800"}}`, "not valid JSON"},
		"violates":        {`{"a":["1"]}`, "/a/0: got string, want integer"},
		"violates_often":  {`{"a":[` + strings.Repeat(`"1",`, 20_000) + `"1"]}`, "/a/0: got string"},
		"65_deep":         {deep(64), "deeper than 64"},
		"10000_deep":      {deep(10_000), "deeper than 64"},
		"10000_unclosed":  {strings.Repeat("[", 10_000), "deeper than 64"},
		"quotes_brackets": {`{"x":{"y":"` + strings.Repeat(`[\"`, 1000) + `"},"a":7}`, "/a: got number"},
		"too_long":        {`{"x":{"y":"` + strings.Repeat("x", 1<<20) + `"}}`, "longer than 1048576 bytes"},
		"million_names":   {`{"a":1` + strings.Repeat(" ", 1<<19) + `}`, "/a: got number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Call(t.Context(), Call{Name: "x", Arguments: test.arguments})
			if err != nil || !got.Failed || !strings.Contains(got.Output, test.want) || len(got.Output) > 4096 || got.Cause != nil {
				t.Errorf("%.300q, %v (cause %v); want %q", got.Output, err, got.Cause, test.want)
			}
		})
	}
	t.Cleanup(func() {
		if called.Load() != 0 {
			t.Error("the tool was called")
		}
	})
	big := `{"x":{"y":"` + strings.Repeat("x", 1<<20-20) + `"}}`
	if got, err := s.Call(t.Context(), Call{Name: "x", Arguments: big}); err != nil || got.Output != "called" {
		t.Errorf("nearly 1 MiB of valid arguments: %.100q, %v", got.Output, err)
	}
	if got, err := s.Call(t.Context(), Call{Name: "x", Arguments: deep(63)}); err != nil || got.Output != "called" {
		t.Errorf("64 levels: %.100q, %v", got.Output, err)
	}
	called.Store(0)
}

// at panics if c is nil.
func (c *Call) at(int) string { return c.Name }

// Any output of a tool becomes text that a journal accepts.
func TestResultsThatAreNoGood(t *testing.T) {
	t.Parallel()
	s := set(t, Limits{},
		Tool{Name: "huge", Run: says(strings.Repeat("ä", 50<<20))},
		Tool{Name: "bytes", Run: says("a\xff\xfeb\x00\xc3")},
		Tool{Name: "failing", Run: func(context.Context, Call) (Result, error) { return Failure("no \xff"), nil }},
		Tool{Name: "nothing", Run: says("")},
		Tool{Name: "wild", Run: func(context.Context, Call) (Result, error) { var c *Call; return Result{Output: c.at(0)}, nil }},
		Tool{Name: "exits", Run: func(context.Context, Call) (Result, error) { panic(nil) }},
	)
	for name, want := range map[string]string{
		"huge": "[cut off: the result has 104857600 bytes", "bytes": "a\uFFFDb\x00\uFFFD", "failing": "no \uFFFD",
		"nothing": "", "wild": "a defect in it", "exits": "a defect in it",
	} {
		got, err := s.Call(t.Context(), Call{Name: name})
		if err != nil || !strings.Contains(got.Output, want) || !utf8.ValidString(got.Output) || len(got.Output) > 65<<10 {
			t.Errorf("%s: %d bytes, %.200q, %v; want %q", name, len(got.Output), got.Output, err, want)
		}
	}
}

// Concurrent calls of a tool do not affect each other.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	all := make(chan struct{})
	var inside atomic.Int32
	s := set(t, Limits{}, Tool{
		Name: "meet", Parameters: jsontext.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
		Run: func(_ context.Context, c Call) (Result, error) {
			if inside.Add(1) == 100 {
				close(all)
			}
			<-all
			return Result{Output: c.ID + c.Arguments}, nil
		},
	})
	var running sync.WaitGroup
	for i := range 100 {
		running.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			got, err := s.Call(t.Context(), Call{Name: "meet", ID: "call", Arguments: want})
			if err != nil || got.Output != "call"+want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	running.Wait()
}

// Calls of tools that hang are counted, and further calls are refused once there
// are too many. When they end, calls are made again.
func TestToolsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r, err := NewRegistry(Limits{Timeout: time.Second},
			Tool{Name: "hangs", Parameters: jsontext.Value(anything), Run: func(context.Context, Call) (Result, error) { <-release; panic("at last") }},
			Tool{Name: "quick", Parameters: jsontext.Value(anything), Run: says("done")})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := r.Select(r.Names())
		call := func(tenant, name string) string {
			t.Helper()
			got, err := s.Call(t.Context(), Call{TenantID: tenant, Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return got.Output
		}
		for i := range maxOrphansPerTool {
			if got := call("t", "hangs"); !strings.Contains(got, "did not answer within 1s") {
				t.Fatalf("call %d: %s", i, got)
			}
		}
		time.Sleep(orphanGrace + time.Second)
		began := time.Now()
		if got := call("t", "hangs"); !strings.Contains(got, "too many earlier calls") || time.Since(began) != 0 {
			t.Errorf("one more: %s after %v", got, time.Since(began))
		}
		if n := r.LeftBehind(); n != maxOrphansPerTool {
			t.Errorf("%d are left behind", n)
		}
		if got := call("t", "quick"); got != "done" {
			t.Errorf("another tool: %s", got)
		}
		if got := call("other", "hangs"); !strings.Contains(got, "did not answer") {
			t.Errorf("another tenant: %s", got)
		}
		close(release)
		synctest.Wait()
		if n := r.LeftBehind(); n != 0 || len(r.orphans.calls) != 0 {
			t.Errorf("%d are left behind after all of them ended", n)
		}
		if got := call("t", "hangs"); !strings.Contains(got, "a defect in it") {
			t.Errorf("afterwards: %s", got)
		}
	})
}

// A run that is cancelled abandons its calls at once. Those of tools that return
// soon after do not count.
func TestCancelledCallsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := NewRegistry(Limits{}, Tool{
			Name: "tidies", Parameters: jsontext.Value(anything),
			Run: func(ctx context.Context, _ Call) (Result, error) {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // to tidy up
				return Result{}, ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := r.Select(r.Names())
		for range 2 * maxOrphansPerTool {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := s.Call(ctx, Call{Name: "tidies"}); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v; %d are left behind", err, r.LeftBehind())
			}
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := r.LeftBehind(); n != 0 {
			t.Errorf("%d are left behind", n)
		}
	})
}

// Schemas that come from outside can neither load anything, nor recurse without
// end, nor make a check too expensive.
func TestSchemasFromOutside(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry(Limits{})
	if err != nil {
		t.Fatal(err)
	}
	doubling := `{"type":"object","allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`
	for i := range 60 {
		doubling += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d60":{"minProperties":1}}}`
	for name, test := range map[string]struct{ schema, want string }{
		"doubles":   {doubling, "cannot be checked"},
		"old_draft": {strings.Replace(doubling, "{", `{"$schema":"http://json-schema.org/draft-07/schema#",`, 1), "cannot be checked"},
		"by_depth":  {`{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"$ref":"#"}]}]},"minProperties":1}`, "cannot be checked"},
		"itself":    {`{"type":"object","$ref":"#"}`, "The arguments do not fit"},
		"recursive": {`{"type":"object","additionalProperties":{"$ref":"#"}}`, "called"},
		"cheap":     {`{"type":"object","minProperties":1,"title":"x","unknown":{"$ref":"nowhere"}}`, "called"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, bad := r.Compile(Tool{Name: "x", Parameters: jsontext.Value(test.schema), Run: says("called")})
			if bad != nil {
				t.Fatal(bad)
			}
			arguments := strings.Repeat(`{"x":`, 40) + "{}" + strings.Repeat("}", 40)
			for range 2 {
				got, err := s.Call(t.Context(), Call{Name: "x", Arguments: arguments})
				if err != nil || !strings.Contains(got.Output, test.want) || got.Cause != nil {
					t.Errorf("%.300q, %v, cause %v; want %q", got.Output, err, got.Cause, test.want)
				}
			}
		})
	}
	for name, schema := range map[string]string{
		"long":     `{"type":"object","title":"` + strings.Repeat("x", 64<<10) + `"}`,
		"deep":     `{"type":"object","not":` + strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 71),
		"no_json":  `{"type":"object"`,
		"bad_expr": `{"type":"object","patternProperties":{"(":{}}}`,
		"big_expr": `{"type":"object","properties":{"x":{"pattern":"` + strings.Repeat("a{0,1000}", 20) + `b"}}}`,
		"big_name": `{"type":"object","patternProperties":{"` + strings.Repeat("a{0,1000}", 20) + `b":{}}}`,
		"many_big": `{"type":"object","patternProperties":{"a{500,900}":{},"b{500,900}":{},"c{500,900}":{},"d{500,900}":{},"e{500,900}":{},"f{500,900}":{}}}`,
		"remote":   `{"type":"object","properties":{"x":{"$ref":"https://example.com/schema"}}}`,
		"dialect":  `{"$schema":"file:///etc/passwd","type":"object"}`,
	} {
		if _, bad := r.Compile(Tool{Name: "x", Parameters: jsontext.Value(schema), Run: says("")}); len(bad) != 1 {
			t.Errorf("%s is accepted", name)
		}
	}
}

// The regular expressions of a schema share a budget in each check.
func TestPatternsOfSchemas(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry(Limits{Arguments: 1 << 20, Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s, bad := r.Compile(Tool{
		Name: "x", Run: says("called"),
		Parameters: jsontext.Value(`{"type":"object","additionalProperties":{"items":{"pattern":"^(` + strings.Repeat("a?", 500) + `)*$"}}}`),
	})
	if bad != nil {
		t.Fatal(bad)
	}
	for arguments, want := range map[string]string{
		`{"x":["` + strings.Repeat("a", 2000) + `"]}`: "called",
		`{"x":["b"]}`: "do not fit",
		`{"x":["` + strings.Repeat("a", 100_000) + `b"]}`:                            "cannot be checked",
		`{"x":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 100) + `"b"]}`: "cannot be checked",
	} {
		if got, err := s.Call(t.Context(), Call{Name: "x", Arguments: arguments}); err != nil || !strings.Contains(got.Output, want) {
			t.Errorf("%.30q: %.300q, %v; want %q", arguments, got.Output, err, want)
		}
	}
}

// FuzzSchema checks that a call ends with a result for any schema and arguments.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`)
	f.Add(`{"type":"object","patternProperties":{"^a":{"enum":[1,"x",null]}}}`, `{"ab":2}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","dependencies":{"a":["b"]}}`, `{"a":1}`)
	f.Add(`{"type":"object","unevaluatedProperties":false,"if":{"required":["a"]},"then":{"properties":{"a":true}}}`, `{"a":1,"b":[]}`)
	r, err := NewRegistry(Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		s, bad := r.Compile(Tool{Name: "x", Parameters: jsontext.Value(schema), Run: says("called")})
		if bad != nil {
			return
		}
		got, err := s.Call(t.Context(), Call{Name: "x", Arguments: arguments})
		if err != nil || got.Output == "" || got.Cause != nil {
			t.Errorf("%q %q = %+v, %v", schema, arguments, got, err)
		}
	})
}
