package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const personFormat = `{"type":"json_schema","json_schema":{"name":"person","schema":{"type":"object","required":["name"],
	"properties":{"name":{"type":"string"}},"additionalProperties":false}}}`

// An answer has the form that the caller set, is repaired once, or fails the run.
// Nothing of an answer that is not used is published, and all calls are counted.
func TestForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		answers      []string
		calls        int64
		status       run.Status
		text, reason string
		limit        *float64
	}{
		{name: "fits", answers: []string{`{"name":"Ada"}`}, calls: 1, status: run.Completed, text: `{"name":"Ada"}`},
		{name: "fenced", answers: []string{"```json\n{\"name\":\"Ada\"}\n```"}, calls: 1, status: run.Completed, text: `{"name":"Ada"}`},
		{name: "repaired", answers: []string{"Her name is Ada.", `{"name":"Ada"}`}, calls: 2, status: run.Completed, text: `{"name":"Ada"}`},
		{name: "not repaired", answers: []string{`{"name":1}`, `{"nam":"Ada"}`, `{"name":"late"}`}, calls: 2, status: run.Failed,
			reason: "(it was asked once to repair it)"},
		{name: "on a budget", answers: []string{"prose", `{"name":"Ada"}`}, calls: 1, status: run.Failed, reason: "pays for no repair", limit: new(1.0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				var asked atomic.Int64
				var repair atomic.Pointer[string]
				r := newHarness(t, db, modeltest.Respond(func(q modeltest.Request) modeltest.Answer {
					n := asked.Add(1)
					if n == 2 {
						last := q.Chat().Last(model.User)
						repair.Store(&last)
					}
					return modeltest.Answer{
						Text:  tt.answers[n-1],
						Usage: &model.Usage{InputTokens: 100, OutputTokens: 5, CachedTokens: 40},
					}
				}))
				n := r.start("n", 4, nil)
				end := n.end(n.begin(run.Request{
					Limits:  run.Limits{MaxCostUSD: tt.limit},
					Options: run.Options{Extra: map[string]jsontext.Value{"response_format": jsontext.Value(personFormat)}},
				}).RunID)
				if end.Status != tt.status || end.Metrics.LLMCallsCount != tt.calls || !strings.Contains(ptr.Value(end.Error), tt.reason) {
					t.Fatalf("%s with %d calls: %s %v", end.Status, end.Metrics.LLMCallsCount, end.ErrorCode, ptr.Value(end.Error))
				}
				if m := end.Metrics; m.InputTokens != 100*tt.calls || m.CachedTokens != 40*tt.calls {
					t.Errorf("not all calls are counted: %+v", m)
				}
				if tt.status == run.Completed && r.output(end).Text != tt.text {
					t.Errorf("the answer is %q", r.output(end).Text)
				}
				if tt.status == run.Failed && end.ErrorCode != run.CodeOutputMismatch {
					t.Errorf("the code is %s", end.ErrorCode)
				}
				if tt.calls == 2 && (repair.Load() == nil || !strings.Contains(*repair.Load(), "Your answer cannot be used: ")) {
					t.Errorf("the repair is asked for by %v", repair.Load())
				}
				published := ""
				for _, e := range r.events(end.RunID) {
					if e.Name == "llm.chunk" {
						published += string(e.Data)
					}
				}
				if tt.text == "" && published != "" || tt.text != "" && strings.Count(published, "Ada") != 1 {
					t.Errorf("published: %s", published)
				}
				r.checkEnded(end)
			})
		})
	}
}

// Text beside the calls of tools is not part of the answer.
func TestFormWithTools(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := newHarness(t, db, modeltest.Respond(modeltest.ToolRounds(1, modeltest.Answer{Text: `{"name":"Ada"}`})))
		n := r.start("n", 4, nil)
		end := n.end(n.begin(run.Request{
			Options: run.Options{Extra: map[string]jsontext.Value{"response_format": jsontext.Value(personFormat)}},
		}).RunID)
		if end.Status != run.Completed || end.Metrics.LLMCallsCount != 2 || r.output(end).Text != `{"name":"Ada"}` {
			t.Errorf("%s %v after %d calls", end.Status, ptr.Value(end.Error), end.Metrics.LLMCallsCount)
		}
		r.checkEnded(end)
	})
}
