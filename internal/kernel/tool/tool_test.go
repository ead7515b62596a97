package tool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const anything = `{"type":"object"}`

// set returns a set of the tools; those without a schema accept any object.
func set(t *testing.T, limits Limits, tools ...Tool) Set {
	t.Helper()
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
		if tools[i].Parameters == nil {
			tools[i].Parameters = jsontext.Value(anything)
		}
	}
	r, err := NewRegistry(limits, tools...)
	if err != nil {
		t.Fatal(err)
	}
	s, unknown := r.Select(names)
	if unknown != nil {
		t.Fatalf("unknown: %v", unknown)
	}
	return s
}

func says(output string) func(context.Context, Call) (Result, error) {
	return func(context.Context, Call) (Result, error) { return Result{Output: output}, nil }
}

func TestSelect(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry(Limits{}, Builtins(clock.NewFake())...)
	if err != nil {
		t.Fatal(err)
	}
	s, unknown := r.Select([]string{"current_time", "web_search", "calculator", "current_time"})
	if diff := cmp.Diff([]string{"web_search"}, unknown); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, spec := range s.Specs() {
		names = append(names, spec.Name)
		if spec.Description == "" || !spec.Parameters.IsValid() {
			t.Errorf("%+v", spec)
		}
	}
	if diff := cmp.Diff([]string{"current_time", "calculator"}, names); diff != "" {
		t.Error(diff)
	}
	if tool, ok := s.Lookup("calculator"); !ok || !tool.Repeatable() {
		t.Errorf("%+v, %v", tool, ok)
	}
	empty, _ := r.Select(nil)
	if empty.Len() != 0 || empty.Specs() != nil {
		t.Error("no names, but tools")
	}
}

func TestNewRegistryRefuses(t *testing.T) {
	t.Parallel()
	valid := Tool{Name: "x", Parameters: jsontext.Value(anything), Run: says("")}
	with := func(change func(*Tool)) Tool {
		bad := valid
		change(&bad)
		return bad
	}
	for name, tools := range map[string][]Tool{
		"twice":      {valid, valid},
		"bad-name":   {with(func(t *Tool) { t.Name = "a b" })},
		"no-run":     {with(func(t *Tool) { t.Run = nil })},
		"no-schema":  {with(func(t *Tool) { t.Parameters = nil })},
		"no-object":  {with(func(t *Tool) { t.Parameters = jsontext.Value(`{"type":"string"}`) })},
		"bad-schema": {with(func(t *Tool) { t.Parameters = jsontext.Value(`{"type":"object","properties":7}`) })},
		"file-ref":   {with(func(t *Tool) { t.Parameters = jsontext.Value(`{"type":"object","$ref":"file:///etc/hostname"}`) })},
		"http-ref":   {with(func(t *Tool) { t.Parameters = jsontext.Value(`{"type":"object","$ref":"http://127.0.0.1/x"}`) })},
	} {
		if _, err := NewRegistry(Limits{}, tools...); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestBuiltins(t *testing.T) {
	t.Parallel()
	s := set(t, Limits{}, Builtins(clock.NewFake())...)
	for _, test := range []struct {
		name, arguments string
		want            string // "!…": a failure with these words
	}{
		{"calculator", `{"expression":"2+3*4"}`, "14"},
		{"calculator", `{"expression":"7/2"}`, "3.5"},
		{"calculator", `{"expression":"1/0"}`, "!division by zero"},
		{"calculator", `{"expression":""}`, "!/expression: "},
		{"calculator", `{"expression":7}`, "!/expression: got number, want string"},
		{"calculator", `{"expr":"1"}`, "!missing property 'expression'"},
		{"calculator", `{"expression":"1","x":1}`, "!'x' not allowed"},
		{"calculator", ``, "!missing property"},
		{"calculator", `2+2`, "!not valid JSON"},
		{"calculator", `"2+2"`, "!got string, want object"},
		{"calculator", `{"expression":"1","expression":"2"}`, "!/expression is duplicated"},
		{"calculator", `{"expression":"1"`, "!not valid JSON"},
		{"current_time", `{}`, "2026-09-10T12:00:00Z"},
		{"current_time", ``, "2026-09-10T12:00:00Z"},
		{"current_time", `{"timezone":null}`, "2026-09-10T12:00:00Z"},
		{"current_time", `{"timezone":"Europe/Berlin"}`, "2026-09-10T14:00:00+02:00"},
		{"current_time", `{"timezone":"America/St_Johns"}`, "2026-09-10T09:30:00-02:30"},
		{"current_time", `{"timezone":"Local"}`, "!not known"},
		{"current_time", `{"timezone":"Mars/Olympus"}`, "!not known"},
		{"current_time", `{"timezone":"../../etc/passwd"}`, "!not known"},
		{"web_search", `{}`, "!the tools are: calculator, current_time"},
	} {
		got, err := s.Call(t.Context(), Call{Name: test.name, Arguments: test.arguments})
		words, fails := strings.CutPrefix(test.want, "!")
		if err != nil || got.Failed != fails || fails && !strings.Contains(got.Output, words) || !fails && got.Output != test.want {
			t.Errorf("%s %s = %+v, %v; want %q", test.name, test.arguments, got, err, test.want)
		}
	}
	if got, _ := (Set{}).Call(t.Context(), Call{Name: "x"}); !got.Failed || !strings.Contains(got.Output, "no tools are available") {
		t.Errorf("%+v", got)
	}
}

func TestCallsThatGoWrong(t *testing.T) {
	t.Parallel()
	s := set(t, Limits{Output: 60, Arguments: 100},
		Tool{Name: "panics", Run: func(context.Context, Call) (Result, error) { panic("oh no") }},
		Tool{Name: "breaks", Run: func(context.Context, Call) (Result, error) { return Result{}, errors.New("pq: secret") }},
		Tool{Name: "refuses", Run: func(context.Context, Call) (Result, error) {
			return Result{}, fault.New(fault.NotFound, "", "There is no such file.")
		}},
		Tool{Name: "talks", Run: says("talk")},
	)
	for name, want := range map[string]Result{
		"panics":  {Output: "The tool failed because of a defect in it.", Failed: true},
		"breaks":  {Output: "The tool failed.", Failed: true},
		"refuses": {Output: "There is no such file.", Failed: true},
		"talks":   {Output: "talk"},
	} {
		got, err := s.Call(t.Context(), Call{Name: name, Arguments: "{}"})
		cause := got.Cause
		got.Cause = nil
		if diff := cmp.Diff(want, got); err != nil || diff != "" || (cause != nil) != want.Failed {
			t.Errorf("%s: %v, cause %v (-want +got):\n%s", name, err, cause, diff)
		}
	}
	got, _ := s.Call(t.Context(), Call{Name: "talks", Arguments: `{"x":"` + strings.Repeat("x", 100) + `"}`})
	if !got.Failed || !strings.Contains(got.Output, "longer than 100 bytes") {
		t.Errorf("%+v", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := set(t, Limits{Timeout: 5 * time.Second},
			Tool{Name: "hangs", Run: func(context.Context, Call) (Result, error) { <-release; return Result{}, nil }},
			Tool{Name: "returns", ReadOnly: true, Timeout: time.Second, Run: func(ctx context.Context, _ Call) (Result, error) {
				<-ctx.Done()
				return Result{}, ctx.Err()
			}},
		)
		began := time.Now()
		got, err := s.Call(t.Context(), Call{Name: "hangs"})
		if err != nil || !got.Failed || !strings.Contains(got.Output, "within 5s. Whether it took effect is unknown") || time.Since(began) != 5*time.Second {
			t.Errorf("hangs: %+v, %v after %v", got, err, time.Since(began))
		}
		if got, err = s.Call(t.Context(), Call{Name: "returns"}); err != nil || got.Output != "The tool did not answer within 1s." {
			t.Errorf("returns: %+v, %v", got, err)
		}
		for _, name := range []string{"hangs", "returns"} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := s.Call(ctx, Call{Name: name}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled: %v", name, err)
			}
		}
		close(release)
		synctest.Wait()
	})
}

// Tools receive the call unchanged, with arguments that they can decode.
func TestCallIsPassedOn(t *testing.T) {
	t.Parallel()
	var seen Call
	s := set(t, Limits{}, Tool{Name: "x", Run: func(_ context.Context, c Call) (Result, error) { seen = c; return Result{}, nil }})
	call := Call{TenantID: "t", AgentID: "a", RunID: "r", SessionID: "s", ID: "c", Name: "x"}
	if _, err := s.Call(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	call.Arguments = "{}"
	if diff := cmp.Diff(call, seen); diff != "" {
		t.Error(diff)
	}
}

// For any arguments the call ends with a result.
func FuzzArguments(f *testing.F) {
	f.Add("calculator", `{"expression":"1"}`)
	f.Add("current_time", `{"timezone":"Europe/Berlin"}`)
	f.Add("current_time", `{"timezone":"\u0000/../x"}`)
	r, err := NewRegistry(Limits{}, Builtins(clock.NewFake())...)
	if err != nil {
		f.Fatal(err)
	}
	s, _ := r.Select(r.Names())
	f.Fuzz(func(t *testing.T, name, arguments string) {
		got, err := s.Call(t.Context(), Call{Name: name, Arguments: arguments})
		if err != nil || got.Output == "" {
			t.Errorf("%s %q = %+v, %v", name, arguments, got, err)
		}
		if got.Cause != nil {
			t.Errorf("%s %q is not the tool's fault: %v", name, arguments, got.Cause)
		}
	})
}

// The zero Set has no limits, so a set that is joined with it keeps its own.
func TestJoinedWithNothing(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry(Limits{}, Tool{
		Name: "echo", Description: "Echoes.", Parameters: jsontext.Value(`{"type":"object"}`),
		Run: func(context.Context, Call) (Result, error) { return Result{Output: "fine"}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	set, _ := r.Select([]string{"echo"})
	for name, joined := range map[string]Set{"before": set.Join(Set{}), "after": Set{}.Join(set)} {
		got, err := joined.Call(t.Context(), Call{Name: "echo", Arguments: `{}`})
		if err != nil || got.Output != "fine" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
