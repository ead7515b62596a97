package judge_test

import (
	"math"
	"strings"
	"testing"

	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
)

func parsed(t testing.TB, raw string) *judge.Rubric {
	t.Helper()
	r, wrong := judge.Parse([]byte(raw), "outcome")
	if r == nil || wrong != nil {
		t.Fatalf("%s: %v", raw, wrong)
	}
	return r
}

func TestRubrics(t *testing.T) {
	t.Parallel()
	if r, wrong := judge.Parse([]byte(`null`), "outcome"); r != nil || wrong != nil {
		t.Errorf("null is %v, %v", r, wrong)
	}
	if r := parsed(t, `{"criteria":[{"name":"a"}]}`); r.Least() != 0.8 || r.MaxIterations != 3 {
		t.Errorf("the defaults are %v and %d", r.Least(), r.MaxIterations)
	}
	many := `{"criteria":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 21), ",") + `]}`
	for raw, want := range map[string]string{
		`[]`:                          "outcome: it is not a rubric",
		`{}`:                          "outcome.criteria: a rubric needs at least one criterion",
		many:                          "outcome.criteria: a rubric has at most 20 criteria, and this one has 21",
		`{"criteria":[{"name":" "}]}`: "outcome.criteria[0].name: expected a short name",
		`{"criteria":[{"name":"a"},{"name":"A "}]}`:                                     "outcome.criteria[1].name: criteria[0] has the same name",
		`{"criteria":[{"name":"a","weight":0},{"name":"b","weight":0}]}`:                "outcome.criteria: the weights of all criteria are 0",
		`{"criteria":[{"name":"a","weight":-1}]}`:                                       "outcome.criteria[0].weight: expected a number from 0",
		`{"criteria":[{"name":"a"}],"min_score":1.5}`:                                   "outcome.min_score: expected a number from 0 to 1",
		`{"criteria":[{"name":"a"}],"max_iterations":11}`:                               "outcome.max_iterations: expected a number from 1 to 10",
		`{"criteria":[{"name":"a"}],"max_cost_usd":-1}`:                                 "outcome.max_cost_usd: expected US dollars",
		`{"criteria":[{"name":"a","description":"` + strings.Repeat("x", 8001) + `"}]}`: "outcome.criteria[0].description: expected at most",
	} {
		_, wrong := judge.Parse([]byte(raw), "outcome")
		found := false
		for _, f := range wrong {
			found = found || strings.HasPrefix(f.Field+": "+f.Message, want)
		}
		if !found {
			t.Errorf("%.80s: %v, without %q", raw, wrong, want)
		}
	}
}

// A judge reads the work as data between marks, and its answer counts only with the word
// and a score for each criterion.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := parsed(t, `{"criteria":[{"name":"true","description":"It is true.","weight":3},{"name":"kind"},{"name":"beside","weight":0}]}`)
	f := judge.Fence{Mark: "MARK", Word: "WORD"}
	req, err := r.Request(f, judge.Work{Task: "Say it.", Result: strings.Repeat("x", 200_000), Files: []judge.File{{Name: "a.txt", Size: 3, Head: "abc"}}})
	if err != nil {
		t.Fatal(err)
	}
	told, shown := req.Messages[0].Text, req.Messages[1].Text
	if !strings.Contains(told, "c1: true. It is true.") || !strings.Contains(told, `"word": "WORD"`) || strings.Contains(shown, "WORD") ||
		!strings.HasPrefix(shown, "<case-MARK>\n") || len(shown) > 101_000 || !strings.Contains(shown, `"result_is_cut_off":true`) ||
		!strings.Contains(shown, `"beginning":"abc"`) {
		t.Errorf("the judge is told %s and shown %.200s", told, shown)
	}
	scores, total, err := r.Read(f, "```json\n"+
		`{"word":"WORD","c1":{"score":1,"reason":"It\nis."},"c2":{"score":0,"reason":"No."},"c3":{"score":0.2}}`+"\n```")
	if err != nil || total != 0.75 || len(scores) != 3 || scores[0].Reason != "It is." {
		t.Fatalf("%v with %v, %v", scores, total, err)
	}
	said := r.Feedback(scores, total)
	if !strings.Contains(said, "score 0.75, and 0.80 is needed") || !strings.Contains(said, "- kind: 0.00. The judge says: No.") ||
		strings.Contains(said, "It is true.") {
		t.Errorf("the feedback is %s", said)
	}
	for _, answer := range []string{
		"", "fine", `[]`, `{"word":"other","c1":{"score":1},"c2":{"score":1},"c3":{"score":1}}`, `{"word":"WORD","c1":{"score":1}}`,
		`{"word":"WORD","c1":{"score":2},"c2":{"score":1},"c3":{"score":1}}`, `{"word":"WORD","c1":1,"c2":{"score":1},"c3":{"score":1}}`,
	} {
		if _, _, err := r.Read(f, answer); err == nil {
			t.Errorf("%q is a verdict", answer)
		}
	}
}

// builtin/echo judges too: a criterion that quotes a text is met by work with that text.
func TestEchoJudges(t *testing.T) {
	t.Parallel()
	r := parsed(t, `{"criteria":[{"name":"polite","description":"It says \"please\"."},{"name":"any"}]}`)
	for result, want := range map[string]float64{"Do it, please.": 1, "Do it.": 0.5} {
		f := judge.NewFence()
		req, err := r.Request(f, judge.Work{Result: result})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := model.Echo{}.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, total, err := r.Read(f, resp.Text); err != nil || total != want {
			t.Errorf("%q has %v, %v: %s", result, total, err, resp.Text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"word":"w","c1":{"score":0.5,"reason":"r"}}`)
	f.Add("```json\n{}\n```")
	r := parsed(f, `{"criteria":[{"name":"a"}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		scores, total, err := r.Read(judge.Fence{Word: "w"}, answer)
		if err == nil && (len(scores) != 1 || math.IsNaN(total) || total < 0 || total > 1) {
			t.Errorf("%q has %v, %v", answer, scores, total)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"criteria":[{"name":"a","weight":2}],"min_score":0.5}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, wrong := judge.Parse(raw, "outcome")
		if r == nil || len(wrong) > 0 {
			return
		}
		req, err := r.Request(judge.NewFence(), judge.Work{})
		if err == nil && !req.Extra["response_format"].IsValid() {
			t.Errorf("%s has the format %s", raw, req.Extra["response_format"])
		}
	})
}
