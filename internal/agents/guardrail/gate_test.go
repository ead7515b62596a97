package guardrail_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/guardrail"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
)

// asked is one question to a gate.
type asked struct {
	stage, text string // stage: input, output, arguments, result
	tool        string
}

func (b *bench) run(settings string) policy.Run {
	return policy.Run{TenantID: b.Who.TenantID, RunID: "run-1", AgentID: "agent-1", Guardrails: []byte(settings)}
}

func (b *bench) ask(t testing.TB, settings string, a asked) policy.Verdict {
	t.Helper()
	v, err := b.try(t, settings, a)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (b *bench) try(t testing.TB, settings string, a asked) (policy.Verdict, error) {
	ctx, r := t.Context(), b.run(settings)
	if a.tool == "" {
		a.tool = "pay"
	}
	switch a.stage {
	case "input":
		return b.gate.BeforeInput(ctx, r, a.text)
	case "output":
		return b.gate.BeforeAnswer(ctx, r, a.text)
	case "arguments":
		return b.gate.BeforeTool(ctx, r, a.tool, a.text)
	}
	return b.gate.AfterTool(ctx, r, a.tool, a.text)
}

// outcome is a verdict in a word: pass, block, flag, or the redacted text.
func outcome(v policy.Verdict) string {
	switch {
	case v.Refused:
		return "block"
	case v.Changed:
		return v.Text
	case len(v.Violations) > 0:
		return "flag"
	}
	return "pass"
}

// field is a guardrails field that names guardrails for one stage.
func field(stage string, ids ...string) string {
	uses := make([]string, len(ids))
	for i, id := range ids {
		uses[i] = `{"guardrail_id":"` + id + `"}`
	}
	return `{"` + stage + `":[` + strings.Join(uses, ",") + `]}`
}

func TestKinds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind, config string
		texts        map[asked]string
	}{
		"regex": {"regex", `{"patterns":["(?i)secret\\d+","\\bfoo\\b"],"pattern":"^bar","replacement":"$1*"}`, map[asked]string{
			{"input", "my SECRET12 and foo.", ""}: "my $1* and $1*.",
			{"input", "barking foot", ""}:         "$1*king foot",
			{"input", "secret, foobar", ""}:       "pass",
			{"output", "foo", ""}:                 "pass",
		}},
		"regex of JSON": {"regex", `{"pattern":"a@b|\"n\":\\s*7"}`, map[asked]string{
			{"input", `{"x": "a\u0040b", "y": ["a@b"], "z": 1.50}`, ""}: `{"x": "[REDACTED]", "y": ["[REDACTED]"], "z": 1.50}`,
			{"input", `{"n": 7}`, ""}:                                   `{[REDACTED]}`,
			{"input", `{"a@b": 7} {"x":`, ""}:                           `{"[REDACTED]": 7} {"x":`,
		}},
		"keyword": {"keyword", `{"keywords":["Bomb","credit  card","C++","straße","café","机密","$$$"],"replacement":"#"}`, map[asked]string{
			{"input", "a BOMB, bombs, a-bomb; xbomb", ""}:       "a #, bombs, a-#; xbomb",
			{"input", "Credit\n\tCard credit-card", ""}:         "# credit-card",
			{"input", "C++ and c++17, C+", ""}:                  "# and #17, C+",
			{"input", "STRASSE Straße strasse strassen", ""}:    "# # # strassen",
			{"input", "cafe\u0301 CAFÉ cafés", ""}:              "# # cafés",
			{"input", "这是机密文件", ""}:                             "这是#文件",
			{"input", "b\u200bo\u00admb and bo mb", ""}:         "# and bo mb",
			{"input", "$$$$ x$$$y", ""}:                         "#$ x#y",
			{"input", `{"a":"x\nbomb","bomb":1}`, ""}:           `{"a":"x\n#","#":1}`,
			{"input", "ünbomb bomb\u0301 bömb bomb_ 1bomb", ""}: "pass",
			{"input", "", ""}:                                   "pass",
		}},
		"keyword with case": {"keyword", `{"keywords":["Bomb"],"case_sensitive":true}`, map[asked]string{
			{"input", "Bomb bomb", ""}: "[REDACTED] bomb",
		}},
		"pii": {"pii", `{"entities":["email","credit_card"]}`, map[asked]string{
			{"input", "jane@example.com, 203.0.113.9", ""}:                          "[EMAIL], 203.0.113.9",
			{"input", `{"to":"jane\u0040example.com","card":4111111111111111}`, ""}: `{"to":"[EMAIL]","card":"[CREDIT_CARD]"}`,
			{"input", "{not JSON: jane@example.com", ""}:                            "{not JSON: [EMAIL]",
			{"input", `"line\njane@example.com"`, ""}:                               `"line\n[EMAIL]"`,
			{"input", "[1,2,3]", ""}:                                                "pass",
		}},
		"pii with replacement": {"pii", `{"replacement":""}`, map[asked]string{
			{"input", "<jane@example.com> 203.0.113.9!", ""}: "<> !",
		}},
		"cel": {"cel", `{"expression":"text.contains('x') && stage == 'input' && agent_id == 'agent-1'"}`, map[asked]string{
			{"input", "ax", ""}: "[REDACTED]",
			{"input", "a", ""}:  "pass",
		}},
		"cel that fails":            {"cel", `{"expression":"arguments.amount > 1"}`, map[asked]string{{"input", "a", ""}: "block"}},
		"cel that fails and allows": {"cel", `{"expression":"arguments.amount > 1","on_error":"allow"}`, map[asked]string{{"input", "a", ""}: "pass"}},
	}
	for name, test := range tests {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, rig{})
			for act, want := range map[string]func(string) string{
				"redact": func(w string) string { return w },
				"block": func(w string) string {
					if w == "pass" {
						return w
					}
					return "block"
				},
				"flag": func(w string) string {
					if w == "pass" || w == "block" { // what cannot decide does not flag
						return "pass"
					}
					return "flag"
				},
			} {
				id := b.make(t, fmt.Sprintf(`{"name":"g","kind":%q,"stage":"input","action":%q,"config":%s}`, test.kind, act, test.config))
				for a, w := range test.texts {
					v := b.ask(t, field("input", id), a)
					if got := outcome(v); got != want(w) {
						t.Errorf("%s, %v: %q, want %q", act, a, got, want(w))
					}
					if a.stage == "input" && v.Checks != 1 || a.stage == "output" && v.Checks != 0 {
						t.Errorf("%s, %v: %d checks", act, a, v.Checks)
					}
				}
			}
		})
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	for _, test := range []struct {
		kind, action, config string
		a                    asked
		want                 string
	}{
		{"cel", "block", `{"expression":"tool == 'pay' && arguments.amount > 100"}`, asked{"arguments", `{"amount":100.5}`, "pay"}, "block"},
		{"cel", "block", `{"expression":"tool == 'pay' && arguments.amount > 100"}`, asked{"arguments", `{"amount":100}`, "pay"}, "pass"},
		{"cel", "block", `{"expression":"tool == 'pay' && arguments.amount > 100"}`, asked{"arguments", `{}`, "read"}, "pass"},
		{"cel", "block", `{"expression":"tool == 'pay' && arguments.amount > 100"}`, asked{"arguments", `{}`, "pay"}, "block"},
		{"cel", "block", `{"expression":"tool == 'pay' && arguments.amount > 100"}`, asked{"arguments", `{"amount":1,"amount":1000}`, "pay"}, "block"},
		{"cel", "block", `{"expression":"arguments.amount > 100"}`, asked{"result", `done`, "pay"}, "pass"}, // about calls only
		{"cel", "block", `{"expression":"part == 'result' && text == 'bad'","part":"both"}`, asked{"result", `bad`, "pay"}, "block"},
		{"cel", "redact", `{"expression":"text == 'bad'","part":"result"}`, asked{"result", `bad`, "pay"}, "[REDACTED]"},
		{"cel", "redact", `{"expression":"true"}`, asked{"arguments", `{}`, "pay"}, "block"}, // nothing could be called with what is left
		{"pii", "redact", `{}`, asked{"arguments", `{"to":"jane@example.com","n":1}`, "mail"}, `{"to":"[EMAIL]","n":1}`},
		{"pii", "redact", `{"part":"result"}`, asked{"arguments", `{"to":"jane@example.com"}`, "mail"}, "pass"},
		{"pii", "redact", `{"part":"result"}`, asked{"result", `jane@example.com`, "mail"}, "[EMAIL]"},
		{"regex", "redact", `{"pattern":"\"to\""}`, asked{"arguments", `{"to":1}`, "mail"}, "block"},
		{"regex", "flag", `{"pattern":"\"to\""}`, asked{"arguments", `{"to":1}`, "mail"}, "flag"},
		{"keyword", "block", `{"keywords":["rm"]}`, asked{"arguments", `{"command":"sudo\trm -rf"}`, "shell"}, "block"},
		{"keyword", "block", `{"keywords":["rm"]}`, asked{"arguments", ``, "shell"}, "pass"},
	} {
		id := b.make(t, fmt.Sprintf(`{"name":"g","kind":%q,"stage":"tool","action":%q,"config":%s}`, test.kind, test.action, test.config))
		if got := outcome(b.ask(t, field("tool", id), test.a)); got != test.want {
			t.Errorf("%s %s of %v: %q, want %q", test.kind, test.config, test.a, got, test.want)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	digits := b.make(t, `{"name":"digits","kind":"regex","stage":"both","action":"redact","config":{"pattern":"[0-9]+","replacement":"N"}}`)
	n := b.make(t, `{"name":"no N","kind":"keyword","stage":"input","action":"block","config":{"keywords":["N"]}}`)
	flag := b.make(t, `{"name":"all","kind":"cel","stage":"input","action":"log","config":{"expression":"text != ''"}}`)

	v := b.ask(t, field("input", flag, digits, n, flag), asked{stage: "input", text: "say 42"})
	want := policy.Verdict{
		Refused: true, Code: "guardrail_blocked", Reason: `The guardrail "no N" blocked the message: it contains a listed word.`,
		Changed: true, Text: "say N", Checks: 3,
		Violations: []policy.Violation{
			{GuardrailID: flag, Name: "all", Stage: "input", Action: "flag", Reason: `The guardrail "all" flagged the message: its rule matches.`},
			{GuardrailID: digits, Name: "digits", Stage: "input", Action: "redact", Reason: `The guardrail "digits" redacted the message: one of its patterns matches.`},
			{GuardrailID: n, Name: "no N", Stage: "input", Action: "block", Reason: `The guardrail "no N" blocked the message: it contains a listed word.`},
		},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	if got := outcome(b.ask(t, field("input", n, digits), asked{stage: "input", text: "say 42"})); got != "say N" {
		t.Errorf("in the other order: %q", got)
	}
	if got := outcome(b.ask(t, field("output", digits), asked{stage: "output", text: "42"})); got != "N" {
		t.Errorf("the answer: %q", got)
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	id := b.make(t, `{"name":"g","kind":"keyword","stage":"input","config":{"keywords":["x"],"replacement":"1"}}`)
	off := b.make(t, `{"name":"off","kind":"keyword","stage":"input","enabled":false,"config":{"keywords":["x"]}}`)
	use := func(id, more string) string { return `{"input":[{"guardrail_id":"` + id + `"` + more + `}]}` }
	for settings, want := range map[string]string{
		use(id, ``):                 "block",
		use(id, `,"enabled":true`):  "block",
		use(id, `,"enabled":false`): "pass",
		use(id, `,"enabled":null,"action_override":null,"config_override":null`):                       "block",
		use(id, `,"action_override":"redact"`):                                                         "1 y",
		use(id, `,"action_override":"warn"`):                                                           "flag",
		use(id, `,"action_override":"log"`):                                                            "flag",
		use(id, `,"config_override":{"keywords":["y"]},"action_override":"redact"`):                    "x 1",
		use(id, `,"config_override":{"keywords":["y"],"replacement":null},"action_override":"redact"`): "x [REDACTED]",
		use(id, `,"config_override":{"keywords":["z"]}`):                                               "pass",
		use(id, `,"config_override":{"keywords":[]}`):                                                  "block",
		use(off, ``):   "pass",
		`{"input":[]}`: "pass",
		`{}`:           "pass",
		`null`:         "pass",
		``:             "pass",
		`{"output":[{"guardrail_id":"` + id + `"}]}`: "pass", // another stage's
	} {
		if got := outcome(b.ask(t, settings, asked{stage: "input", text: "x y"})); got != want {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
}

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	key := "AKIAIOSFODNN7EXAMPLE"
	for _, test := range []struct{ names, stage, text, want string }{
		{`"pii"`, "input", "jane@example.com " + key, "[EMAIL] [API_KEY]"},
		{`"pii"`, "output", "jane@example.com", "[EMAIL]"},
		{`"pii"`, "arguments", `{"to":"jane@example.com"}`, "pass"},
		{`"pii"`, "result", "jane@example.com", "pass"},
		{`"secrets"`, "input", "jane@example.com " + key, "jane@example.com [API_KEY]"},
		{`"secrets"`, "arguments", `{"k":"` + key + `"}`, `{"k":"[API_KEY]"}`},
		{`"secrets"`, "result", key, "[API_KEY]"},
		{`"secrets","pii","pii"`, "output", "jane@example.com " + key, "[EMAIL] [API_KEY]"},
	} {
		v := b.ask(t, `{"built_in":[`+test.names+`]}`, asked{stage: test.stage, text: test.text})
		if got := outcome(v); got != test.want {
			t.Errorf("%s at %s: %q, want %q", test.names, test.stage, got, test.want)
		}
	}
	v := b.ask(t, `{"built_in":["pii"]}`, asked{stage: "input", text: "jane@example.com"})
	if v.Checks != 1 || len(v.Violations) != 1 || v.Violations[0].GuardrailID != "built_in.pii" || v.Violations[0].Action != policy.Redact {
		t.Errorf("the verdict is %+v", v)
	}
	if strings.Contains(v.Violations[0].Reason, "jane") {
		t.Errorf("the reason repeats the text: %s", v.Violations[0].Reason)
	}
}

// TestFailsClosed has agents name what cannot be asked.
func TestFailsClosed(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	id := b.make(t, samples.Minimal)
	output := b.make(t, `{"name":"for answers","kind":"pii","stage":"output"}`)
	stranger := resourcetest.NewClient(b.Routes)
	mine := *b
	mine.Client = stranger
	foreign := mine.make(t, samples.Minimal)
	gone := b.make(t, samples.Minimal)
	if _, err := b.Do(t.Context(), "DELETE", item, resourcetest.Args{"guardrailId": gone}); err != nil {
		t.Fatal(err)
	}
	for settings, reason := range map[string]string{
		field("input", "0190f3a2-7c11-7b22-9d33-1234567890ab"): "which does not exist",
		field("input", gone):     "which does not exist",
		field("input", foreign):  "which does not exist",
		field("input", "x"):      "cannot be read (input[0].guardrail_id",
		field("input", output):   `"for answers" is for the stage output, but the agent names it for input`,
		`{"input":7}`:            "cannot be read (input",
		`{"input":[{}]}`:         "cannot be read (input[0].guardrail_id",
		`[]`:                     "cannot be read",
		`{"built_in":["magic"]}`: "cannot be read (built_in[0]",
		`{"input":[{"guardrail_id":"` + id + `","action_override":"explode"}]}`:        "cannot be read (input[0].action_override",
		`{"input":[{"guardrail_id":"` + id + `","config_override":{"keywords":[]}}]}`:  "is invalid (config.keywords",
		`{"input":[{"guardrail_id":"` + id + `","config_override":{"on_error":"x"}}]}`: "is invalid (config.on_error",
	} {
		v := b.ask(t, settings, asked{stage: "input", text: "harmless"})
		if !v.Refused || v.Code != guardrail.Blocked || !strings.Contains(v.Reason, reason) {
			t.Errorf("%s: %+v, want %s", settings, v, reason)
		}
		if len(v.Violations) != 1 || v.Violations[0].Action != policy.Block {
			t.Errorf("%s: violations %+v", settings, v.Violations)
		}
		w, err := b.gate.Watches(t.Context(), b.run(settings))
		if err != nil || !w.Input {
			t.Errorf("%s: watches %+v, %v: it would not even be asked", settings, w, err)
		}
	}
}

func TestWatches(t *testing.T) {
	t.Parallel()
	b := newBench(t, rig{})
	input := b.make(t, `{"name":"i","kind":"pii","stage":"both"}`)
	tool := b.make(t, `{"name":"t","kind":"pii","stage":"tool"}`)
	off := b.make(t, `{"name":"off","kind":"pii","stage":"both","enabled":false}`)
	for settings, want := range map[string]policy.Watch{
		"":                         {},
		"null":                     {},
		"{}":                       {},
		`{"built_in":[]}`:          {},
		`{"input":null}`:           {},
		field("input", input):      {Input: true},
		field("output", input):     {Output: true},
		field("tool", tool):        {Tool: true},
		field("input", off):        {},
		field("input", off, input): {Input: true},
		`{"built_in":["pii"]}`:     {Input: true, Output: true},
		`{"built_in":["secrets"]}`: {Input: true, Output: true, Tool: true},
		`{"input":[{"guardrail_id":"` + input + `","enabled":false}]}`: {},
		`[]`: {Input: true, Output: true, Tool: true},
	} {
		got, err := b.gate.Watches(t.Context(), b.run(settings))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", settings, got, err, want)
		}
	}
}

func TestNothingCostsNothing(t *testing.T) {
	b := newBench(t, rig{})
	ctx, r := t.Context(), b.run("")
	r.Guardrails = nil
	allocs := testing.AllocsPerRun(100, func() {
		if w, err := b.gate.Watches(ctx, r); err != nil || w != (policy.Watch{}) {
			t.Error(w, err)
		}
		if v, err := b.gate.BeforeTool(ctx, r, "pay", "{}"); err != nil || v.Refused {
			t.Error(v, err)
		}
		if v, err := b.gate.BeforeAnswer(ctx, r, "text"); err != nil || v.Refused {
			t.Error(v, err)
		}
	})
	if allocs != 0 || b.backend.reads != 0 {
		t.Errorf("%v allocations, %d reads", allocs, b.backend.reads)
	}
}

func TestChangesAreSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rig{})
		id := b.make(t, `{"name":"g","kind":"keyword","stage":"input","config":{"keywords":["x"]}}`)
		ask := func() string { return outcome(b.ask(t, field("input", id), asked{stage: "input", text: "x y"})) }
		for range 3 {
			if got := ask(); got != "block" {
				t.Fatal(got)
			}
		}
		if b.backend.reads != 1 {
			t.Errorf("%d reads for three questions", b.backend.reads)
		}
		patch := func(b *bench, body string) {
			t.Helper()
			if _, err := b.Do(t.Context(), "PATCH", item, resourcetest.Args{"guardrailId": id, "": body}); err != nil {
				t.Fatal(err)
			}
		}
		if patch(b, `{"config":{"keywords":["z"]}}`); ask() != "pass" {
			t.Error("a change is not seen")
		}
		other := *b
		other.all = newGuardrails(b.deps, rig{})
		other.Client = resourcetest.Client{Routes: other.all.Routes(), Who: b.Who}
		if patch(&other, `{"config":{"keywords":["y"]},"action":"flag"}`); ask() != "pass" {
			t.Error("a change of another process is seen at once: the test proves nothing")
		}
		time.Sleep(1100 * time.Millisecond)
		if got := ask(); got != "flag" {
			t.Errorf("a change of another process is not seen after a second: %s", got)
		}
		b.backend.fail = errors.New("the database is away")
		time.Sleep(1100 * time.Millisecond)
		if _, err := b.try(t, field("input", id), asked{stage: "input", text: "x"}); !errors.Is(err, b.backend.fail) {
			t.Errorf("without a database: %v", err)
		}
		if _, err := b.gate.Watches(t.Context(), b.run(field("input", id))); !errors.Is(err, b.backend.fail) {
			t.Errorf("without a database: %v", err)
		}
	})
}

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		``: "", `null`: "", `{}`: "", `{"input":[],"built_in":["pii","secrets"],"other":1}`: "",
		field("tool", "0190f3a2-7c11-7b22-9d33-1234567890ab"): "",
		`[]`: "guardrails",
		`{"input":{},"output":[{}],"tool":[{"guardrail_id":"x","action_override":"y"}]}`: "guardrails.input guardrails.output[0].guardrail_id guardrails.tool[0].guardrail_id guardrails.tool[0].action_override",
		`{"built_in":["pii","magic"]}`: "guardrails.built_in[1]",
	} {
		var got []string
		for _, f := range guardrail.CheckSettings([]byte(settings)) {
			got = append(got, f.Field)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", settings, got, want)
		}
	}
}

var _ resource.Backend = (*counting)(nil)

// large are texts of a megabyte.
func large() map[string]string {
	return map[string]string{
		"prose": strings.Repeat("On 2024-01-02 the agent said 42 things to 17 people; see https://example.com/a?b=1#c. ", 1<<20/86),
		"json":  `{"rows":[` + strings.Repeat(`{"id":12345,"name":"somebody","note":"said things"},`, 1<<20/52) + `{}]}`,
	}
}

func BenchmarkGate(b *testing.B) {
	bench := newBench(b, rig{})
	for name, body := range map[string]string{
		"pii":     `{"name":"g","kind":"pii","stage":"input","config":{}}`,
		"regex":   `{"name":"g","kind":"regex","stage":"input","config":{"patterns":["(?i)password\\s*[:=]","\\b[A-Z]{2}[0-9]{6}\\b"]}}`,
		"keyword": `{"name":"g","kind":"keyword","stage":"input","config":{"keywords":["bomb","credit card","schärfe"]}}`,
		"cel":     `{"name":"g","kind":"cel","stage":"input","config":{"expression":"text.contains('needle')"}}`,
	} {
		settings := field("input", bench.make(b, body))
		for size, text := range large() {
			b.Run(name+"/1MiB_"+size, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if v := bench.ask(b, settings, asked{stage: "input", text: text}); v.Checks != 1 {
						b.Fatal(v)
					}
				}
			})
		}
		b.Run(name+"/short", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.ask(b, settings, asked{stage: "input", text: "What is the weather like in Berlin today?"})
			}
		})
	}
	b.Run("watches", func(b *testing.B) {
		b.ReportAllocs()
		r := bench.run(field("input", bench.make(b, samples.Minimal)))
		for b.Loop() {
			if _, err := bench.gate.Watches(b.Context(), r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzGate has texts looked at by everything that reads them itself: what is
// left of JSON is JSON.
func FuzzGate(f *testing.F) {
	bench := newBench(f, rig{})
	pii := field("input", bench.make(f, `{"name":"g","kind":"pii","stage":"input","action":"redact"}`))
	words := field("input", bench.make(f, `{"name":"g","kind":"keyword","stage":"input","action":"redact","config":{"keywords":["bomb","ß x"],"replacement":"#"}}`))
	for _, s := range []string{`{"a":"jane\u0040example.com"}`, `["bomb",4111111111111111]`, "STRASSE ß  X", `"\ud800 bomb"`, "{\"\xff\":\"bomb\"}", `{} bomb`, "bo\u200bmb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, settings := range []string{pii, words} {
			v, err := bench.gate.BeforeInput(t.Context(), bench.run(settings), text)
			if err != nil {
				t.Fatal(err)
			}
			if !v.Changed {
				continue
			}
			structured := strings.ContainsAny(strings.TrimLeft(text, " \t\r\n")[:1], "{[\"") // a number alone is text
			if structured && isJSON(text) && !isJSON(v.Text) {
				t.Errorf("%q becomes %q", text, v.Text)
			}
		}
	})
}

func isJSON(text string) bool { return jsontext.Value(text).IsValid() }
