package cli

import (
	"encoding/xml"
	"strings"
	"testing"
)

// What CI systems read of an evaluation: each case, why it did not pass, and a regression.
func TestJUnitReport(t *testing.T) {
	t.Parallel()
	e := &evaluation{DatasetID: "d", Error: "The plan is used up.", Summary: &evalSummary{Regressed: true}}
	e.Summary.Regression = &struct {
		Baseline     string   `json:"baseline_eval_run_id"`
		BaselineRate float64  `json:"baseline_pass_rate"`
		PassRate     float64  `json:"pass_rate"`
		P            float64  `json:"p_value"`
		Reasons      []string `json:"reasons"`
		RolledBackTo string   `json:"rolled_back_to_version"`
	}{Reasons: []string{"It fell."}}
	report, err := junitReport("calc", e, []evalResult{
		{CaseID: "1", Passed: true, DurationMS: 1500, Output: "a <b> \x1b[31m"},
		{CaseID: "2", Scores: map[string]float64{"exact": 0, "polite": 1}, Reasons: map[string]string{"exact": `It says "no".`}},
		{CaseID: "3", Error: "The run failed."},
	})
	if err != nil {
		t.Fatal(err)
	}
	var read junitSuites
	if err := xml.Unmarshal(report, &read); err != nil {
		t.Fatalf("%v: %s", err, report)
	}
	s := read.Suites[0]
	if s.Name != "calc" || s.Tests != 5 || s.Failures != 2 || s.Errors != 2 || s.Time != "1.500" || s.Cases[0].Time != "1.500" || s.Cases[0].Failure != nil {
		t.Errorf("the report is %s", report)
	}
	if got := s.Cases[1].Failure.Message; !strings.Contains(got, `exact 0. It says "no".`) || strings.Contains(got, "polite") {
		t.Errorf("the failure is %q", got)
	}
	if s.Cases[2].Error.Message != "The run failed." || s.Cases[3].Failure.Message != "It fell." || s.Cases[4].Error.Message != e.Error {
		t.Errorf("the report is %s", report)
	}
}

func TestEvalVerdicts(t *testing.T) {
	t.Parallel()
	cmd := &evalRunCommand{MinPassRate: 0.9}
	for name, c := range map[string]struct {
		e    evaluation
		fail string // "": it does not
	}{
		"fine":      {evaluation{Status: "completed", Summary: &evalSummary{PassRate: 0.9}}, ""},
		"too few":   {evaluation{Status: "completed", Summary: &evalSummary{PassRate: 0.89}}, "--min-pass-rate"},
		"cut short": {evaluation{Status: "failed", Error: "no money", Summary: &evalSummary{PassRate: 1}}, "no money"},
	} {
		err := cmd.verdict(&c.e)
		if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
