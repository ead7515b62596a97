package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// witness is a Governor that allows everything, and notes which sources it was shown.
type witness struct {
	mu      sync.Mutex
	seen    map[string][]string // the sources of the last act, by action
	changed []string            // acts of one action with different sources
	effect  policy.Effect       // of tool:mail
}

func (w *witness) Judge(_ context.Context, _ policy.Run, act policy.Act) (ruling policy.Ruling, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	action := act.Actions[0]
	if before, ok := w.seen[action]; ok && strings.HasPrefix(action, "tool:") && !slices.Equal(before, act.Sources) {
		w.changed = append(w.changed, fmt.Sprint(action, before, act.Sources))
	}
	w.seen[action] = act.Sources
	if action == "tool:mail" && w.effect > policy.Allow {
		ruling.Effect = w.effect
		ruling.Findings = []policy.Finding{{RuleID: "r", Severity: "error", Action: action, Decision: w.effect.String(), Message: "Ask."}}
	}
	return ruling, nil
}

func (*witness) RecordTx(txn.Tx, policy.Run, policy.Ruling) error { return nil }

// reader is an agent that reads a page, then sends a mail.
func reader(t *testing.T, db *sqldb.DB) (*harness, *witness) {
	r := newHarness(t, db, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		switch countAssistant(req.Chat()) {
		case 0:
			return modeltest.Answer{ToolCalls: []model.ToolCall{call("f1", "fetch", `{}`)}}
		case 1:
			return modeltest.Answer{ToolCalls: []model.ToolCall{call("m1", "mail", `{}`)}}
		}
		return modeltest.Answer{Text: "Sent."}
	}))
	fetch, mail := echoing("fetch"), echoing("mail")
	fetch.Source, fetch.ReadOnly, mail.Idempotent = model.SourceWeb, true, true
	r.tools = []tool.Tool{fetch, mail}
	r.agents.spec.Tools, r.agents.spec.Model.ModelRef = []string{"fetch", "mail"}, "sim-model"
	r.agents.spec.ApprovalTimeout = time.Hour
	w := &witness{seen: map[string][]string{}}
	r.rules = w
	return r, w
}

// A run remembers what it has read: rules see it at its later acts, its journal has
// it, and so has its output.
func TestSourcesAreRemembered(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r, w := reader(t, db)
		n := r.start("n", 4, nil)
		got := n.end(n.begin(run.Request{}).RunID)
		want := map[string][]string{"model:sim-model": {"web"}, "tool:fetch": nil, "tool:mail": {"web"}}
		if diff := cmp.Diff(want, w.seen); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"web"}, r.output(got).Sources); diff != "" || r.results(got.RunID)["f1"].Sources == nil {
			t.Errorf("output %s, steps %+v", diff, r.results(got.RunID))
		}
		r.checkEnded(got)

		w.seen = map[string][]string{}
		n.end(n.begin(run.Request{Options: run.Options{Continues: got.RunID}}).RunID)
		if s := w.seen["model:sim-model"]; !slices.Equal(s, []string{"web"}) {
			t.Errorf("a run that continues it has read %v", s)
		}
	})
}

// What a run has read survives crashes at any write, and the wait for an approval.
func TestSourcesSurvive(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	for at, crashed := 2, true; crashed; at++ {
		r, w := reader(t, db)
		writer := dieAtWrite(db, at)
		first := r.start(fmt.Sprintf("s-%d", at), 4, writer)
		started := first.begin(run.Request{})
		waitFor(t, func() bool {
			got, err := first.Get(t.Context(), r.who.TenantID, started.RunID)
			return writer.died() || err == nil && got.Status.Final()
		})
		first.stop()
		crashed = writer.died()
		got := r.start(fmt.Sprintf("s-%d", at), 4, nil).end(started.RunID)
		if s := w.seen["tool:mail"]; !slices.Equal(s, []string{"web"}) || !slices.Equal(r.output(got).Sources, s) || w.changed != nil {
			t.Errorf("crash at write %d: %v, %v, %v", at, s, r.output(got).Sources, w.changed)
		}
	}
	r, w := reader(t, db)
	w.effect = policy.Approve
	first := r.start("waits", 4, nil)
	started := first.begin(run.Request{})
	waiting := first.reaches(started.RunID, run.AwaitingApproval).PendingApprovals
	first.stop()
	second := r.start("goes on", 4, nil)
	if _, err := second.Approve(t.Context(), r.who, started.RunID, run.ApproveRequest{ApprovalID: waiting[0].ApprovalID}); err != nil {
		t.Fatal(err)
	}
	if got := second.end(started.RunID); got.Status != run.Completed || w.changed != nil || len(w.seen["tool:mail"]) != 1 {
		t.Errorf("%s, %v, %v", got.Status, w.seen, w.changed)
	}
}

// What starts a run passes on what it has read. A run that has read nothing stores
// nothing about it.
func TestSourcesAreInherited(t *testing.T) {
	t.Parallel()
	r, w := reader(t, sqldbtest.Open(t, sqldbtest.SQLite))
	var seen []string
	r.tools[0].Run = func(_ context.Context, c tool.Call) (tool.Result, error) {
		seen = c.Sources
		return tool.Result{Output: "hello", Sources: []string{model.SourceMessage("other")}}, nil
	}
	n := r.start("n", 4, nil)
	n.end(n.begin(run.Request{Options: run.Options{Sources: []string{model.SourceSensor}}}).RunID)
	if diff := cmp.Diff([]string{"message:other", "sensor", "web"}, w.seen["tool:mail"]); diff != "" || !slices.Equal(seen, []string{"sensor"}) {
		t.Errorf("%s, the tool was given %v", diff, seen)
	}
	image := run.Request{Input: []byte(`{"message":"","parts":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}`)}
	n.end(n.begin(image).RunID)
	if s := w.seen["tool:mail"]; !slices.Equal(s, []string{"file", "message:other", "web"}) {
		t.Errorf("with an image: %v", s)
	}

	r.tools, r.agents.spec.Tools = []tool.Tool{echoing("fetch"), echoing("mail")}, []string{"fetch", "mail"}
	plain := r.start("p", 4, nil)
	n.stop()
	got := plain.end(plain.begin(run.Request{}).RunID)
	stored, err := r.runs.Get(t.Context(), r.who.TenantID, got.RunID)
	if err != nil || strings.Contains(string(stored.Output), "sources") || stored.Options.Sources != nil || w.seen["tool:mail"] != nil {
		t.Errorf("%v, %s, %v, %v", err, stored.Output, stored.Options.Sources, w.seen)
	}
	for _, s := range r.steps(got.RunID) {
		if strings.Contains(string(s.Output), "sources") {
			t.Errorf("%s", s.Output)
		}
	}
}
