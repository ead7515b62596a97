package runsql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/run/runtest"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// Where the output of a step has a run's text, the row of the run has none, and
// no reader notices. A migration back stores it there again.
func TestAnswersAreStoredOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`He said \"yes\",\"no\" \u0000ü. `, 100)
	cases := []struct{ name, output, step, stored string }{
		{"the same text", `{"text":"` + long + `","finish_reason":"stop"}`, `{"text":"` + long + `","finish_reason":"stop","model":"m"}`,
			`{"finish_reason":"stop"}`},
		{"nothing else", `{"text":"` + long + `"}`, `{"text":"` + long + `","thinking":"` + long + `","finish_reason":""}`, `{}`},
		{"another text", `{"text":"` + long + `"}`, `{"text":"` + long + `.","finish_reason":""}`, ""},
		{"a short text", `{"text":"yes"}`, `{"text":"yes","finish_reason":""}`, ""},
		{"no text", `{"text":""}`, `{"finish_reason":""}`, ""},
		{"no output of the step", `{"text":"` + long + `"}`, ``, ""},
		{"no output", ``, `{"text":"` + long + `","finish_reason":""}`, ""},
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		store, tenant := runsql.New(db), ident.New()
		ids := make([]string, len(cases))
		for i, c := range cases {
			r := runtest.Sample(tenant, ident.New())
			ids[i] = r.RunID
			r.CreatedAt = r.CreatedAt.Add(-time.Duration(i) * time.Second) // lists begin with the first
			st := &run.Step{StepID: ident.New(), TenantID: tenant, RunID: r.RunID, Seq: 3, Type: run.StepLLM, Status: run.StepCompleted,
				CompletedAt: &r.CreatedAt, Output: schema.Nullable(c.step)}
			u := run.UpdateOf(r)
			u.Status, u.Output, u.Answer = run.Completed, schema.Nullable(c.output), st
			for _, op := range []txn.Op{store.Create(r), store.AppendStep(st), store.Update(tenant, r.RunID, u)} {
				if err := db.Write(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
		}
		stored := func() (all []string) {
			for _, id := range ids {
				var text string
				if err := db.QueryRow(t.Context(), `SELECT COALESCE(output, '') FROM runs WHERE run_id = ?`, id).Scan(&text); err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
			return all
		}
		var want, outputs []string
		for _, c := range cases {
			want, outputs = append(want, c.stored), append(outputs, c.output)
			if c.stored == "" {
				want[len(want)-1] = c.output
			}
		}
		if diff := cmp.Diff(want, stored()); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
		var got []string
		listed, err := store.List(t.Context(), tenant, run.Filter{}, page.Window{Limit: 10})
		for _, r := range listed {
			got = append(got, string(r.Output))
		}
		if diff := cmp.Diff(outputs, got); err != nil || diff != "" {
			t.Errorf("listed: %v (-want +got):\n%s", err, diff)
		}
		journals, err := runsql.WithSteps(t.Context(), db, tenant, ids)
		for i, j := range journals {
			if err != nil || string(j.Run.Output) != cases[i].output || len(j.Steps) != 1 || string(j.Steps[0].Output) != cases[i].step {
				t.Errorf("%s: with steps %v, %+v", cases[i].name, err, j)
			}
		}
		summaries, err := store.ListSummaries(t.Context(), tenant, run.Filter{}, page.Window{Limit: 10})
		for i, r := range summaries {
			if have := strings.Contains(cases[i].output, "He said"); err != nil || have != strings.HasPrefix(r.OutputPreview, `He said "yes","no"`) {
				t.Errorf("%s: the preview is %q, %v", cases[i].name, r.OutputPreview, err)
			}
		}
		if err := db.MigrateDown(t.Context(), 124); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outputs, stored()); diff != "" {
			t.Errorf("after a migration back (-want +got):\n%s", diff)
		}
	})
}
