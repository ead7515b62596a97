package evaluation

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/guardrail"
	"agentd/internal/base/authz"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
)

func of(expected, answer string) *subject {
	return &subject{of: &Case{ExpectedOutput: jsontext.Value(expected)}, answer: answer}
}

func TestScores(t *testing.T) {
	t.Parallel()
	s := scoring{&Options{}}
	calls := func(want []ExpectedCall, made ...call) *subject {
		return &subject{of: &Case{ExpectedToolCalls: want}, calls: made}
	}
	add := ExpectedCall{Name: "add", Arguments: schema.Object(`{"a":1}`)}
	madeAdd, madeSub := call{"add", `{"a":1,"b":2}`}, call{"sub", `{}`}
	for name, c := range map[string]struct {
		config Config
		on     *subject
		want   float64 // -1: skipped
	}{
		"exact":                {Config{Type: exact}, of(`"Four"`, " Four\n"), 1},
		"exact, other case":    {Config{Type: exact}, of(`"Four"`, "four"), 0},
		"exact, ignoring case": {Config{Type: exact, IgnoreCase: true}, of(`"Four"`, "four"), 1},
		"exact text of object": {Config{Type: exact}, of(`{"text":"four"}`, "four"), 1},
		"exact JSON":           {Config{Type: exact}, of(`{"a":[1,2]}`, "```json\n{\"a\": [1, 2]}\n```"), 1},
		"exact other JSON":     {Config{Type: exact}, of(`{"a":[1,2]}`, `{"a":[2,1]}`), 0},
		"exact no JSON":        {Config{Type: exact}, of(`[1]`, `one`), 0},
		"exact number":         {Config{Type: exact}, of(`4`, `4`), 1},
		"exact of nothing":     {Config{Type: exact}, of(``, "four"), -1},
		"contains":             {Config{Type: contains}, of(`"four"`, "It is four."), 1},
		"contains half":        {Config{Type: contains}, of(`["four","five"]`, "It is four."), 0.5},
		"contains nothing":     {Config{Type: contains}, of(`{"a":1}`, "It is four."), -1},
		"regex":                {Config{Type: regex, Pattern: `^\d+$`}, of(``, "42"), 1},
		"regex without match":  {Config{Type: regex, Pattern: `^\d+$`}, of(``, "42!"), 0},
		"schema":               {Config{Type: jsonSchema, Schema: schema.Object(`{"required":["a"]}`)}, of(``, `{"a":1}`), 1},
		"schema does not fit":  {Config{Type: jsonSchema, Schema: schema.Object(`{"required":["a"]}`)}, of(``, `{}`), 0},
		"schema no JSON":       {Config{Type: jsonSchema, Schema: schema.Object(`{}`)}, of(``, `{`), 0},
		"numeric":              {Config{Type: numeric}, of(`"0.3"`, "0.1 + 0.2 = 0.30000000000000004"), 1},
		"numeric with commas":  {Config{Type: numeric}, of(`1234.5`, "It is 1,234.50 euros"), 1},
		"numeric in tolerance": {Config{Type: numeric, Tolerance: 0.5}, of(`"10"`, "about -10 or 10.4"), 1},
		"numeric out of it":    {Config{Type: numeric, Tolerance: 0.3}, of(`"10"`, "10.4"), 0},
		"numeric no number":    {Config{Type: numeric}, of(`"10"`, "ten"), 0},
		"numeric of nothing":   {Config{Type: numeric}, of(`"ten"`, "10"), -1},
		"calls":                {Config{Type: toolCalls}, calls([]ExpectedCall{add}, madeAdd), 1},
		"calls, other value":   {Config{Type: toolCalls}, calls([]ExpectedCall{add}, call{"add", `{"a":2}`}), 0},
		"calls, one more":      {Config{Type: toolCalls}, calls([]ExpectedCall{add}, madeSub, madeAdd), 0.5},
		"calls, more allowed":  {Config{Type: toolCalls, AllowExtraCalls: true}, calls([]ExpectedCall{add}, madeSub, madeAdd), 1},
		"calls, wrong order":   {Config{Type: toolCalls}, calls([]ExpectedCall{{Name: "sub"}, add}, madeAdd, madeSub), 0.5},
		"calls, none":          {Config{Type: toolCalls}, calls([]ExpectedCall{}), 1},
		"calls, any":           {Config{Type: toolCalls}, calls(nil, madeAdd), -1},
	} {
		v, err := s.score(t.Context(), &c.config, c.on)
		got := v.score
		if v.skipped {
			got = -1
		}
		if err != nil || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		if got >= 0 && got < 1 && v.reason == "" {
			t.Errorf("%s: there is no reason for %v", name, got)
		}
	}
	if _, err := s.score(t.Context(), &Config{Type: "fate"}, of(``, "")); err == nil {
		t.Error("a type that there is not gave a score")
	}
}

func TestEmbeddingScores(t *testing.T) {
	t.Parallel()
	vectors := map[string][]float32{"king": {1, 0}, "queen": {0.8, 0.6}, "car": {-1, 0}, "void": {0, 0}, "other": {1}}
	s := scoring{&Options{Embed: func(_ context.Context, _ authz.Caller, texts []string) (all [][]float32, err error) {
		for _, text := range texts {
			if text == "down" {
				return nil, &model.Error{Code: "model_error"}
			}
			all = append(all, vectors[text])
		}
		return all, nil
	}}}
	for answer, want := range map[string]float64{"king": 1, "queen": 0.8, "car": 0, "": 0} {
		v, err := s.score(t.Context(), &Config{Type: embedding}, of(`"king"`, answer))
		if err != nil || math.Abs(v.score-want) > 1e-6 {
			t.Errorf("%q: %v, %v", answer, v, err)
		}
	}
	for _, answer := range []string{"void", "other", "down"} {
		if v, err := s.score(t.Context(), &Config{Type: embedding}, of(`"king"`, answer)); err == nil {
			t.Errorf("%q: %v", answer, v)
		}
	}
	if v, err := s.score(t.Context(), &Config{Type: embedding}, of(``, "king")); err != nil || !v.skipped {
		t.Errorf("nothing is expected: %v, %v", v, err)
	}
}

type hooks func(guardrail.Call) (guardrail.Reply, error)

func (h hooks) Call(_ context.Context, c guardrail.Call) (guardrail.Reply, error) { return h(c) }

func TestHookScores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply guardrail.Reply
		err   error
		want  float64 // -1: an error
	}{
		"fine":       {guardrail.Reply{Status: 200, Body: []byte(`{"score":0.25,"reason":"meh"}`)}, nil, 0.25},
		"no answer":  {guardrail.Reply{}, errors.New("late"), -1},
		"status":     {guardrail.Reply{Status: 500}, nil, -1},
		"no JSON":    {guardrail.Reply{Status: 200, Body: []byte(`great`)}, nil, -1},
		"no score":   {guardrail.Reply{Status: 200, Body: []byte(`{}`)}, nil, -1},
		"too high":   {guardrail.Reply{Status: 200, Body: []byte(`{"score":1.01}`)}, nil, -1},
		"too low":    {guardrail.Reply{Status: 200, Body: []byte(`{"score":-1}`)}, nil, -1},
		"no number":  {guardrail.Reply{Status: 200, Body: []byte(`{"score":"1"}`)}, nil, -1},
		"out of any": {guardrail.Reply{Status: 200, Body: []byte(`{"score":1e999}`)}, nil, -1},
	} {
		var sent guardrail.Call
		s := scoring{&Options{Hooks: hooks(func(call guardrail.Call) (guardrail.Reply, error) {
			sent = call
			return c.reply, c.err
		})}}
		on := of(`"x"`, strings.Repeat("y", 2*maxSent))
		on.who.TenantID, on.eval, on.caseID = "acme", "e", "c"
		v, err := s.score(t.Context(), &Config{Type: hook, URL: "https://example.com/"}, on)
		if (err != nil) != (c.want < 0) || err == nil && v.score != c.want {
			t.Errorf("%s: %v, %v", name, v, err)
		}
		if sent.TenantID != "acme" || sent.Key != "e/c" || sent.MaxAnswer != maxHookAnswer || sent.Timeout != 10e9 || len(sent.Body) > maxSent+1000 {
			t.Errorf("%s: sent was %s to %s, %d bytes", name, sent.Key, sent.URL, len(sent.Body))
		}
	}
}

func TestJudgements(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]float64{
		`{"word":"w","score":0.5,"reason":"so so"}`:  0.5,
		"```json\n{\"word\":\"w\",\"score\":1}\n```": 1,
		`{"score":1}`:            -1,
		`{"word":"v","score":1}`: -1,
		`{"word":"w","score":2}`: -1,
		`{"word":"w"}`:           -1,
		`{"word":"w","score":0.1} {"word":"w","score":0.9}`: -1,
		`The score is 1.`: -1,
	} {
		v, err := readJudgement(judge.Fence{Word: "w"}, answer)
		if (err != nil) != (want < 0) || err == nil && v.score != want {
			t.Errorf("%s: %v, %v", answer, v, err)
		}
	}
	m := judgeMessages(&Config{Rubric: "Be kind."}, judge.Fence{Mark: "MARK", Word: "WORD"}, jsontext.Value(`{"answer":"hi"}`))
	if !strings.Contains(m[0].Text, "Be kind.") || !strings.Contains(m[0].Text, "WORD") || strings.Contains(m[1].Text, "WORD") {
		t.Errorf("the messages are %v", m)
	}
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	private := func(url string) error {
		if strings.Contains(url, "10.0.0.1") {
			return errors.New("it is private")
		}
		return nil
	}
	half := 0.5
	for name, c := range map[string]struct {
		config Config
		wrong  string // a field; "": none
	}{
		"plain":            {Config{Type: exact, Threshold: &half, IgnoreCase: true}, ""},
		"regex":            {Config{Type: regex, Pattern: "a+"}, ""},
		"no pattern":       {Config{Type: regex}, "config.pattern"},
		"bad pattern":      {Config{Type: regex, Pattern: "("}, "config.pattern"},
		"costly pattern":   {Config{Type: regex, Pattern: "(a{1,500}){1,500}"}, "config.pattern"},
		"schema":           {Config{Type: jsonSchema, Schema: schema.Object(`{"type":"object"}`)}, ""},
		"bad schema":       {Config{Type: jsonSchema, Schema: schema.Object(`{"type":"thing"}`)}, "config.schema"},
		"judge":            {Config{Type: byModel, Model: "default/m", Rubric: "good"}, ""},
		"no rubric":        {Config{Type: byModel, Model: "default/m", Rubric: " "}, "config.rubric"},
		"webhook":          {Config{Type: hook, URL: "https://example.com/", TimeoutMS: 5}, ""},
		"private webhook":  {Config{Type: hook, URL: "http://10.0.0.1/"}, "config.url"},
		"field of another": {Config{Type: exact, URL: "https://example.com/"}, "config.url"},
		"tolerance":        {Config{Type: contains, Tolerance: 1}, "config.tolerance"},
	} {
		wrong := c.config.check(private)
		if (len(wrong) > 0) != (c.wrong != "") || len(wrong) > 0 && wrong[0].Field != c.wrong {
			t.Errorf("%s: %v", name, wrong)
		}
	}
	for kind, want := range map[string]float64{exact: 1, embedding: 0.8, byModel: 0.5, hook: 0.5} {
		if got := (&Config{Type: kind}).threshold(); got != want {
			t.Errorf("%s passes from %v", kind, got)
		}
	}
	if got := (&Config{Type: exact, Threshold: &half}).threshold(); got != half {
		t.Errorf("a threshold that was set is %v", got)
	}
}
