package responsechain_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/responsechain/responsechainsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a store with runs in it.
type harness struct {
	*responsechain.Service
	t      *testing.T
	db     *sqldb.DB
	runs   *runsql.Store
	tenant string
}

func newHarness(t *testing.T, db *sqldb.DB) *harness {
	t.Helper()
	return &harness{&responsechain.Service{Store: responsechainsql.New(db), Writer: db, Clock: clock.System{}}, t, db, runsql.New(db), ident.New()}
}

// turn is a response to be made.
type turn struct {
	previous string
	in       run.Input
	standing string
	status   run.Status // "": completed
	steps    []run.Step
}

func asked(message string) run.Input { return run.Input{Message: message} }

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// said is a step of the model.
func (r *harness) said(text string, calls ...model.ToolCall) run.Step {
	r.t.Helper()
	return run.Step{Type: run.StepLLM, Status: run.StepCompleted, Output: schema.Nullable(encode(r.t, run.LLMOutput{Text: text, ToolCalls: calls}))}
}

func called(id string) model.ToolCall { return model.ToolCall{ID: id, Name: "f", Arguments: "{}"} }

func result(id, text string) model.Message {
	return model.Message{Role: model.Tool, ToolCallID: id, Text: text}
}

// add stores a response with its run and steps.
func (r *harness) add(made turn) *run.Record {
	r.t.Helper()
	rec, store := r.op(made)
	if err := r.db.Write(r.t.Context(), store); err != nil {
		r.t.Fatal(err)
	}
	return rec
}

func (r *harness) op(made turn) (*run.Record, txn.Op) {
	r.t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	if made.status == "" {
		made.status = run.Completed
	}
	rec := &run.Record{Run: run.Run{
		RunID: ident.New(), TenantID: r.tenant, AgentID: ident.New(), Status: made.status, Input: encode(r.t, made.in), Metadata: schema.Object(`{}`), CreatedAt: now,
	}, Options: run.Options{Follows: made.previous}}
	link := responsechain.Link{RunID: rec.RunID, Previous: made.previous, Standing: made.standing, Asked: jsontext.Value(`{"model":"m"}`)}
	return rec, func(tx txn.Tx) error {
		if err := r.runs.Create(rec)(tx); err != nil {
			return err
		}
		if turned, err := r.Make(link)(tx, rec); err != nil || !turned {
			return err
		}
		for i, s := range made.steps {
			s.StepID, s.RunID, s.TenantID, s.Seq, s.StartedAt, s.CompletedAt = ident.New(), rec.RunID, r.tenant, int64(i+1), now, &now
			if err := r.runs.AppendStep(&s)(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *harness) exec(query string, args ...any) {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), func(tx txn.Tx) error { _, err := sqldb.From(tx).Exec(query, args...); return err }); err != nil {
		r.t.Fatal(err)
	}
}

// before returns the messages before a run that continues another, one line each.
func (r *harness) before(previous string, in run.Input) (lines []string) {
	r.t.Helper()
	return r.messages(&run.Record{Run: run.Run{TenantID: r.tenant}, Parsed: &in, Options: run.Options{Follows: previous}})
}

func (r *harness) messages(rec *run.Record) (lines []string) {
	r.t.Helper()
	all, err := r.Before(r.t.Context(), rec, run.Reach{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range all {
		line := string(m.Role) + ": " + m.Text
		for _, c := range m.ToolCalls {
			line += " " + c.ID
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *harness) want(got []string, want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for name, test := range map[string]func(*testing.T, *harness){
			"chain": chain, "read": read, "gone": gone, "deleted": deleted, "calls": calls, "calls_of_the_gone": callsOfTheGone,
			"policy": policy, "standing": standing, "folded": folded, "circle": circle,
		} {
			t.Run(name, func(t *testing.T) { test(t, newHarness(t, db)) })
		}
	})
}

// A chain is longer than one statement takes ids, and may fork.
func chain(t *testing.T, r *harness) {
	const turns = 510
	var want []string
	previous := ""
	ids := make([]string, turns)
	ops := make([]txn.Op, turns)
	for i := range turns {
		n := strconv.Itoa(i)
		var rec *run.Record
		rec, ops[i] = r.op(turn{previous: previous, in: run.Input{Message: "q" + n, Instructions: "once"}, steps: []run.Step{r.said("a" + n)}})
		ids[i], previous = rec.RunID, rec.RunID
		want = append(want, "user: q"+n, "assistant: a"+n)
	}
	err := r.db.Write(t.Context(), func(tx txn.Tx) error {
		for _, op := range ops {
			if err := op(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.want(r.before(previous, asked("now")), want...)
	r.want(r.before(ids[2], asked("now")), want[:6]...)
	fork := r.add(turn{previous: ids[0], in: asked("other"), steps: []run.Step{r.said("way")}}).RunID
	r.want(r.before(fork, asked("now")), "user: q0", "assistant: a0", "user: other", "assistant: way")
	r.want(r.before("", asked("now")))

	other := newHarness(r.t, r.db)
	other.want(other.before(ids[5], asked("now")))
}

func read(t *testing.T, r *harness) {
	first := r.add(turn{in: asked("q"), steps: []run.Step{r.said("a")}})
	second := r.add(turn{previous: first.RunID, in: asked("q"), standing: "Be kind."})
	got, err := r.Get(t.Context(), r.tenant, second.RunID)
	if err != nil {
		t.Fatal(err)
	}
	want := responsechain.Link{RunID: second.RunID, Previous: first.RunID, Standing: "Be kind.", Asked: jsontext.Value(`{"model":"m"}`)}
	if diff := cmp.Diff(want, got.Link); diff != "" || got.Run.RunID != second.RunID || len(got.Steps) != 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ordinary := &run.Record{Run: run.Run{RunID: ident.New(), TenantID: r.tenant, Metadata: schema.Object(`{"source":"responses"}`), Input: schema.Object(`{}`), CreatedAt: time.Now()}}
	if err := r.db.Write(t.Context(), r.runs.Create(ordinary)); err != nil {
		t.Fatal(err)
	}
	r.exec(`DELETE FROM runs WHERE tenant_id = ? AND run_id = ?`, r.tenant, first.RunID)
	for name, id := range map[string][2]string{
		"absent": {r.tenant, ident.New()}, "foreign": {ident.New(), second.RunID}, "ordinary": {r.tenant, ordinary.RunID}, "gone": {r.tenant, first.RunID},
	} {
		if _, err := r.Get(t.Context(), id[0], id[1]); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	third := r.add(turn{in: asked("q")})
	all, err := r.All(t.Context(), r.tenant, []string{third.RunID, ident.New(), first.RunID, second.RunID})
	if err != nil || len(all) != 2 || all[0].RunID != third.RunID || all[1].RunID != second.RunID {
		t.Errorf("%v, %v", all, err)
	}
	if none, err := r.All(t.Context(), r.tenant, nil); len(none) != 0 || err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

// What a run that is gone said is missing, and nothing else.
func gone(_ *testing.T, r *harness) {
	a := r.add(turn{in: asked("one"), steps: []run.Step{r.said("1")}})
	b := r.add(turn{previous: a.RunID, in: asked("two"), steps: []run.Step{r.said("2")}})
	c := r.add(turn{previous: b.RunID, in: asked("three"), steps: []run.Step{r.said("3")}})
	r.exec(`DELETE FROM runs WHERE tenant_id = ? AND run_id = ?`, r.tenant, b.RunID)
	r.want(r.before(c.RunID, asked("now")), "user: one", "assistant: 1", "user: three", "assistant: 3")
	r.want(r.before(b.RunID, asked("now")), "user: one", "assistant: 1")
}

// A deleted response is not read or continued, and those that follow it lack its messages.
func deleted(t *testing.T, r *harness) {
	who := authz.Caller{TenantID: r.tenant}
	a := r.add(turn{in: asked("one"), steps: []run.Step{r.said("1")}})
	b := r.add(turn{previous: a.RunID, in: asked("two"), steps: []run.Step{r.said("2")}})
	c := r.add(turn{previous: b.RunID, in: asked("three"), steps: []run.Step{r.said("3")}})
	if err := r.Delete(t.Context(), authz.Caller{TenantID: ident.New()}, b.RunID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another company deletes: %v", err)
	}
	if err := r.Delete(t.Context(), who, b.RunID); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), who, b.RunID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is deleted twice: %v", err)
	}
	if _, err := r.Get(t.Context(), r.tenant, b.RunID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it can be read: %v", err)
	}
	r.want(r.before(c.RunID, asked("now")), "user: one", "assistant: 1", "user: three", "assistant: 3")
}

// Calls stay where their results come next, and only there.
func calls(_ *testing.T, r *harness) {
	a := r.add(turn{in: asked("q"), steps: []run.Step{r.said("Hm.", called("c1"), called("own"), called("c2"))}})
	b := r.add(turn{previous: a.RunID, in: run.Input{History: []model.Message{result("c1", "one"), result("c2", "two")}}, steps: []run.Step{r.said("done")}})
	both := []string{"user: q", "assistant: Hm. c1 c2", "tool: one", "tool: two", "assistant: done"}
	r.want(r.before(b.RunID, asked("now")), both...)
	r.want(r.before(a.RunID, run.Input{History: []model.Message{result("c2", "two"), {Role: model.User, Text: "x"}, result("c1", "no")}}), "user: q", "assistant: Hm. c2")
	r.want(r.before(a.RunID, asked("never mind")), "user: q", "assistant: Hm.")
	c := r.add(turn{previous: a.RunID, in: asked("never mind"), steps: []run.Step{r.said("well", called("c1"))}})
	r.want(r.before(c.RunID, run.Input{History: []model.Message{result("c1", "late")}}), "user: q", "assistant: Hm.", "user: never mind", "assistant: well c1")
}

func callsOfTheGone(_ *testing.T, r *harness) {
	a := r.add(turn{in: asked("q"), steps: []run.Step{r.said("", called("c1"))}})
	b := r.add(turn{previous: a.RunID, in: run.Input{Message: "so?", History: []model.Message{result("c1", "one")}}, steps: []run.Step{r.said("done")}})
	c := r.add(turn{previous: b.RunID, in: asked("more"), steps: []run.Step{r.said("ok")}})
	want := []string{"user: so?", "assistant: done", "user: more", "assistant: ok"}
	r.exec(`DELETE FROM runs WHERE tenant_id = ? AND run_id = ?`, r.tenant, a.RunID)
	r.want(r.before(c.RunID, asked("now")), want...)
	r.exec(`DELETE FROM responses WHERE tenant_id = ? AND run_id = ?`, r.tenant, a.RunID)
	r.want(r.before(c.RunID, asked("now")), want...)
}

// What policy took out or kept back stays so; what failed was said all the same.
func policy(t *testing.T, r *harness) {
	check := func(status run.StepStatus, out run.GuardrailOutput) run.Step {
		return run.Step{Type: run.StepGuardrail, Status: status, Output: schema.Nullable(encode(t, out))}
	}
	a := r.add(turn{in: asked("my number is 4111"), steps: []run.Step{check(run.StepCompleted, run.GuardrailOutput{Changed: true, Text: "my number is ****"}), r.said("noted")}})
	b := r.add(turn{previous: a.RunID, in: asked("secret"), status: run.GuardrailBlocked, steps: []run.Step{check(run.StepFailed, run.GuardrailOutput{})}})
	c := r.add(turn{previous: b.RunID, in: asked("rejected"), status: run.Rejected})
	broken := r.said("half a")
	broken.Status = run.StepFailed
	d := r.add(turn{previous: c.RunID, in: asked("failed"), status: run.Failed, steps: []run.Step{r.said("", called("own")), broken}})
	r.want(r.before(d.RunID, asked("now")), "user: my number is ****", "assistant: noted", "user: failed")
}

// Standing instructions are said again, those of the input never.
func standing(_ *testing.T, r *harness) {
	a := r.add(turn{in: run.Input{Message: "q", Instructions: "Be brief.\n\nBe kind."}, standing: "Be kind.", steps: []run.Step{r.said("", called("c1"))}})
	b := r.add(turn{previous: a.RunID, standing: "Be sure.", in: run.Input{History: []model.Message{result("c1", "one")}}, steps: []run.Step{r.said("a")}})
	got := r.before(b.RunID, asked("now"))
	r.want(got, "user: Instructions of the caller:\nBe sure.\n\nInstructions of the caller:\nBe kind.\n\nq", "assistant:  c1", "tool: one", "assistant: a")
	// It does not change the stored input.
	r.want(r.before(b.RunID, asked("now")), got...)
}

// A summary stands for what a run of the chain folded, in later ones too.
func folded(t *testing.T, r *harness) {
	a := r.add(turn{in: asked("one"), steps: []run.Step{r.said("1")}})
	b := r.add(turn{previous: a.RunID, in: asked("two"), steps: []run.Step{r.said("2")}})
	fold := run.Step{
		Type: run.StepCompaction, Status: run.StepCompleted, Input: schema.Nullable(encode(t, run.CompactionInput{Compaction: contextwindow.Compaction{Messages: 4}})),
		Output: schema.Nullable(encode(t, run.CompactionOutput{Summary: "1 and 2"})),
	}
	c := r.add(turn{previous: b.RunID, in: asked("three"), steps: []run.Step{fold, r.said("3")}})
	got := r.before(c.RunID, asked("now"))
	if len(got) != 3 || !strings.Contains(got[0], "1 and 2") || !slices.Equal(got[1:], []string{"user: three", "assistant: 3"}) {
		t.Errorf("the model reads %q", got)
	}
}

// A chain cannot become a cycle; a table with one must do no harm.
func circle(_ *testing.T, r *harness) {
	a := r.add(turn{in: asked("one")})
	b := r.add(turn{previous: a.RunID, in: asked("two")})
	r.exec(`UPDATE responses SET previous_id = ? WHERE tenant_id = ? AND run_id = ?`, b.RunID, r.tenant, a.RunID)
	r.want(r.before(b.RunID, asked("now")), "user: one", "user: two")
}
