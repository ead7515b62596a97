package reconciliation_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/quota"
	"agentd/internal/operation/reconciliation"
	"agentd/internal/operation/reconciliation/reconciliationsql"
	"agentd/internal/operation/setting"
	"agentd/internal/operation/setting/settingsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is two companies with runs under a fake clock.
type world struct {
	t       *testing.T
	db      *sqldb.DB
	clock   *clock.Fake
	store   *reconciliationsql.Store
	counted map[string]map[string]quota.Use // by company and source
	log     bytes.Buffer
	found   []int // what Drifting was called with
}

func newWorld(t *testing.T, db *sqldb.DB) *world {
	w := &world{t: t, db: db, clock: clock.NewFake(), store: reconciliationsql.New(db)}
	w.clock.Advance(24 * time.Hour) // the day before is September 10
	w.counted = map[string]map[string]quota.Use{"acme": {}, "walrus": {}}
	for id := range w.counted {
		w.exec(`INSERT INTO tenants (tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at, legal_hold)
			VALUES (?, ?, ?, 'active', 'free', '{}', FALSE, 1, 1, FALSE)`, id, id, id)
	}
	return w
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	err := w.db.Write(w.t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// run adds a run of a day that says it called a model once.
func (w *world) run(id, day, metadata, metrics string, ended bool) {
	at, _ := time.Parse("2006-01-02 15:04", day+" 10:00")
	completed := int64(0)
	if ended {
		completed = at.UnixMicro() + 1
	}
	w.exec(`INSERT INTO runs (tenant_id, run_id, agent_id, agent_version, status, input, metrics, error_code, metadata, resource_limits,
		options, pending, step_seq, event_seq, created_at, started_at, completed_at)
		VALUES ('acme', ?, 'a', 1, 'completed', '{}', ?, '', ?, '{}', '{}', '[]', 1, 1, ?, 0, ?)`, id, metrics, metadata, at.UnixMicro(), completed)
}

// service returns one of a node of its own.
func (w *world) service(maxRuns int, initial reconciliation.Settings) *reconciliation.Service {
	settings := setting.New(setting.Deps{Store: settingsql.New(w.db), Writer: w.db, Clock: w.clock})
	section := reconciliation.Section(settings)
	section.Initial = initial
	if err := settings.Load(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return &reconciliation.Service{Deps: reconciliation.Deps{
		Store: w.store, Settings: section, Writer: w.db, Clock: w.clock, MaxRuns: maxRuns, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Counted: func(_ context.Context, tenant, from, to string) (map[string]quota.Use, error) {
			if from != "2026-09-10" || to != from {
				w.t.Errorf("the counters of %s to %s are read", from, to)
			}
			return w.counted[tenant], nil
		},
		Drifting: func(n int) { w.found = append(w.found, n) },
	}}
}

const priced = `{"llm_calls_count":1,"input_tokens":10,"output_tokens":5,"tool_calls_count":2,"total_cost_usd":0.25}`

// result makes a turn and returns what is kept of a company.
func (w *world) result(s *reconciliation.Service) *reconciliation.Result {
	w.t.Helper()
	if err := s.Look(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	r, err := w.store.GetResult(w.t.Context(), "acme")
	if err != nil || r == nil {
		w.t.Fatalf("%v, %v", r, err)
	}
	return r
}

var always = reconciliation.Settings{Enabled: true, Hours: 24, Threshold: 1}

// The sums over the runs of a day are compared with its counters, by source, with what is
// used outside of runs left out.
func TestCompare(t *testing.T) {
	t.Parallel()
	use := func(runs int64) quota.Use {
		return quota.Use{Runs: runs, ModelCalls: runs, InputTokens: 10 * runs, OutputTokens: 5 * runs, ToolCalls: 2 * runs, CostNano: 250_000_000 * runs}
	}
	for name, c := range map[string]struct {
		change func(w *world)
		want   string // metrics that differ too much, of all and by source
		drift  float64
		over   int64
	}{
		"equal":                    {func(*world) {}, "", 0, 0},
		"a run that is deleted":    {func(w *world) { w.exec(`DELETE FROM runs WHERE run_id = 'two'`) }, "all/cost_usd all/input_tokens all/model_calls all/output_tokens all/runs all/tool_calls", 1, 0},
		"a run that still goes on": {func(w *world) { w.exec(`UPDATE runs SET completed_at = 0 WHERE run_id = 'two'`) }, "", 0, 1},
		"less than the threshold":  {func(w *world) { u := use(2); u.InputTokens = 30; u.OutputTokens = 10; w.counted["acme"]["api"] = u }, "all/input_tokens", 0, 0},
		"outside of runs":          {func(w *world) { w.counted["acme"][quota.SourceMemory] = use(7) }, "", 0, 0},
		"a price unknown to the run": {func(w *world) {
			w.exec(`UPDATE runs SET metrics = '{"llm_calls_count":1,"input_tokens":10,"output_tokens":5,"tool_calls_count":2}' WHERE run_id = 'one'`)
		}, "", 0, 0},
		"money that nothing counts": {func(w *world) { u := use(2); u.CostNano = 0; w.counted["acme"]["api"] = u }, "all/cost_usd", 0, 0},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				w := newWorld(t, db)
				w.run("one", "2026-09-10", `{}`, priced, true)
				w.run("two", "2026-09-10", `{}`, priced, true)
				w.run("fired", "2026-09-10", `{"source":"schedule"}`, priced, true)
				w.run("before", "2026-09-09", `{}`, priced, true)
				w.run("after", "2026-09-11", `{}`, priced, true)
				w.counted["acme"] = map[string]quota.Use{"api": use(2), "schedule": use(1)}
				c.change(w)
				r := w.result(w.service(0, always))
				var got []string
				for _, m := range r.Metrics {
					if m.Exceeded {
						got = append(got, "all/"+m.Metric)
					}
				}
				if !r.Complete || r.Exceeded != (c.want != "") || r.Over != c.over || r.Metrics[0].Drift != c.drift {
					t.Errorf("%+v", r)
				}
				want := strings.Fields(c.want)
				if diff := cmp.Diff(len(want), len(got)); diff != "" {
					t.Errorf("%v differ, want %v", got, want)
				}
				for _, name := range want {
					if !strings.Contains(fmt.Sprint(got), name) {
						t.Errorf("%s is missing in %v", name, got)
					}
				}
				if warned := strings.Contains(w.log.String(), "differs from what its runs say"); warned != r.Exceeded {
					t.Errorf("warned: %v", warned)
				}
				if len(r.Sources) != 2 || r.Sources[1].Source != "schedule" || r.Sources[1].Metrics[0].OfRuns != 1 {
					t.Errorf("by source: %+v", r.Sources)
				}
			})
		})
	}
}

// A turn is made once by all nodes in an interval, and not at all where it is switched off;
// of too many runs nothing is said.
func TestTurns(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		for i := range 3 {
			w.run(fmt.Sprint(i), "2026-09-10", `{}`, priced, true)
		}
		look := func(s *reconciliation.Service) {
			t.Helper()
			if err := s.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		off := always
		off.Enabled = false
		look(w.service(0, off))
		if turn, err := w.store.GetTurn(t.Context()); turn != nil || err != nil {
			t.Fatalf("a turn while enabled is false: %+v, %v", turn, err)
		}
		s, other := w.service(0, always), w.service(0, always)
		look(s)
		look(other)
		w.clock.Advance(11 * time.Hour)
		look(s)
		if diff := cmp.Diff([]int{1}, w.found); diff != "" {
			t.Errorf("turns in a day: %s", diff)
		}
		turn, err := w.store.GetTurn(t.Context())
		if err != nil || !turn.Complete || turn.Companies != 2 || turn.Drifts != 1 || turn.Worst[0].TenantID != "acme" || turn.Worst[0].Worst.Percent != 100 {
			t.Errorf("%+v, %v", turn, err)
		}
		often := always
		often.Hours = 6
		look(w.service(0, often))
		if diff := cmp.Diff([]int{1, 1}, w.found); diff != "" {
			t.Errorf("with a shorter interval_hours: %s", diff)
		}
		w.exec(`INSERT INTO runs (tenant_id, run_id, agent_id, agent_version, status, input, metrics, error_code, metadata, resource_limits,
			options, pending, step_seq, event_seq, created_at, started_at, completed_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
			SELECT 'acme', 'many' || i, 'a', 1, 'completed', '{}', '{}', '', '{}', '{}', '{}', '[]', 1, 1, r.created_at, 0, 1
			FROM n JOIN runs r ON r.tenant_id = 'acme' AND r.run_id = '0'`)
		for bound, want := range map[int]int64{1000: 1000, 0: 1103} {
			w.exec(`UPDATE reconciliation_turns SET started_at = 0`)
			if r := w.result(w.service(bound, always)); r.Complete != (bound == 0) || r.Exceeded != r.Complete || r.RunsRead != want {
				t.Errorf("up to %d runs: %+v", bound, r)
			}
		}
	})
}
