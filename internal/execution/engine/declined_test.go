package engine_test

import (
	"testing"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb/sqldbtest"
)

// A refusal and a safety block fail the run with a code of their own, keep what was said,
// and ask no fallback (rule D23-declined).
func TestDeclined(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		code   string
		text   string
	}{
		"refusal":         {modeltest.Answer{Text: "I will not.", Finish: model.FinishRefusal}, run.CodeModelRefused, "I will not."},
		"filtered":        {modeltest.Answer{Text: "Well, ", Finish: model.FinishFilter}, run.CodeContentFiltered, "Well, "},
		"filtered call":   {modeltest.Answer{Finish: model.FinishFilter, ToolCalls: []model.ToolCall{{ID: "c", Name: "current_time", Arguments: `{}`}}}, run.CodeContentFiltered, ""},
		"filtered prompt": {modeltest.Answer{Status: 400, Raw: []byte(`{"error":{"message":"blocked","code":"content_filter"}}`)}, run.CodeContentFiltered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite), modeltest.Default(tt.answer))
			n := r.start("n", 4, nil)
			end := n.end(n.begin(run.Request{}).RunID)
			if end.Status != run.Failed || end.ErrorCode != tt.code || ptr.Value(end.Error) == "" || end.Metrics.ToolCallsCount != 0 {
				t.Fatalf("%s, %s, %v, %+v", end.Status, end.ErrorCode, ptr.Value(end.Error), end.Metrics)
			}
			if text := r.output(end).Text; text != tt.text {
				t.Errorf("the output is %q", text)
			}
			if r.sim.Calls() != 1 {
				t.Errorf("%d calls were made", r.sim.Calls())
			}
		})
	}
}
