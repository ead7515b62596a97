package initiative_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
	"agentd/internal/teams/initiative"
)

// Register implements resource.Emitter.
func (w *world) Register(string, string, reflect.Type) {}

// EmitTx implements resource.Emitter.
func (w *world) EmitTx(_ txn.Tx, e resource.Event) error {
	data, err := e.Data()
	w.webhook = append(w.webhook, e.Type+" "+string(data))
	return err
}

func open(t *testing.T, seed uint64, crashes float64) *world {
	t.Helper()
	return openOn(t, sqldbtest.Open(t, sqldbtest.SQLite), seed, crashes)
}

func openOn(t *testing.T, db *sqldb.DB, seed uint64, crashes float64) *world {
	t.Helper()
	deps, _ := resourcetest.Deps(resourcesql.New(db), db)
	clk := clock.NewFake()
	deps.Clock = clk
	w := newWorld(t, db, deps, seed, crashes)
	w.Clock, w.Crew.Clock, w.Queue = clk, clk, worksql.New(db, clk, func(string) {})
	w.Crew.Queue = w.Queue
	return w
}

// names returns the names of the webhook events.
func (w *world) names() (names []string) {
	for _, e := range w.webhook {
		name, _, _ := strings.Cut(e, " ")
		names = append(names, name)
	}
	return names
}

func verified(in run.Input) (string, string) {
	if strings.Contains(in.Instructions, "Verify whether") {
		return `{"verified":true}`, ""
	}
	title, _, _ := strings.Cut(in.Message, "\n")
	return "did " + title, ""
}

// until lets everybody work until an initiative has had so many ticks and nothing is
// under way.
func (w *world) until(id string, ticks int) {
	w.T.Helper()
	w.Settle(initiative.WorkKind, w.Handle, func() bool {
		_, r := w.read(id)
		tasks, err := w.Crew.Store.ListOpenTasks(w.T.Context(), w.Tenant, id)
		if err != nil {
			w.T.Fatal(err)
		}
		if r.State.Ticks < ticks && r.State.Status == initiative.Active && len(tasks) == 0 && len(w.Open()) == 0 {
			w.Clock.Advance(10 * time.Minute)
		}
		return r.State.Ticks >= ticks && len(tasks) == 0 && len(w.Open()) == 0
	})
}

// plans answers as a strategist at its ticks, one answer each; the last one again and
// again.
func (w *world) plans(answers ...func(in run.Input) string) {
	n := 0
	w.Answer = func(_ string, in run.Input) (string, string) {
		if !strings.Contains(in.Instructions, "Decide what is to be done next") {
			return verified(in)
		}
		n++
		return answers[min(n, len(answers))-1](in), ""
	}
}

// Strategists are asked by the schedule; what they plan is done, as trees, by whom they
// say; and goals that they find reached are.
func TestTicks(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := openOn(t, db, 1, 0)
		bob := ident.New()
		w.staff.known = []string{bob}
		i := w.create(func(i *initiative.Initiative) {
			i.AgentIDs = []string{bob}
			i.StrategicGoals = []initiative.Goal{{Title: "Weekly issues", KPIs: []initiative.KPI{{Name: "readers", Target: 10}}}, {Title: "Later"}}
		})
		if w.staff.made[i.StrategistAgentID] != "Letter (strategist)" || i.CompanyID != i.ID || i.StrategicGoals[0].GoalID == "" {
			t.Fatalf("%+v", i)
		}
		goal := i.StrategicGoals[0].GoalID
		var briefs []string
		w.plans(func(in run.Input) string {
			briefs = append(briefs, in.Message)
			return fmt.Sprintf(`Here: {"objectives":[
				{"ref":"issue","goal_id":%q,"title":"First issue"},
				{"ref":"text","parent":"issue","title":"Write it","success_criteria":["it is short"],"agent_id":%q,"goal_id":%q},
				{"parent":"issue","title":"Send it","depends_on":["text"],"goal_id":%q}],"kpis":[{"goal_id":%q,"name":"readers","current":3}]}`,
				goal, bob, goal, goal, goal)
		}, func(in run.Input) string {
			briefs = append(briefs, in.Message)
			return fmt.Sprintf(`{"completed_goals":[%q],"escalation":{"message":"Please look."}}`, goal)
		})
		w.until(i.ID, 1)
		if got := w.objectives(i.ID); got != "Weekly issues in_progress, First issue completed, Write it completed, Send it completed" {
			t.Errorf("after the first tick: %s", got)
		}
		w.staff.spawned = []string{"child"}
		w.until(i.ID, 2)
		if got := w.objectives(i.ID); !strings.HasPrefix(got, "Weekly issues completed,") {
			t.Errorf("after the second tick: %s", got)
		}
		now, rec := w.read(i.ID)
		g := now.StrategicGoals[0]
		if g.CompletedAt == nil || g.RootID == "" || *g.KPIs[0].Current != 3 || now.LastTickAt == nil || now.LastSuccessAt == nil ||
			!slices.Equal(now.CreatedAgentIDs, []string{"child"}) || now.StrategicGoals[1].CompletedAt != nil {
			t.Errorf("%+v", now)
		}
		if !strings.Contains(briefs[0], "A letter that people read") || !strings.Contains(briefs[0], "readers: unknown of 10") ||
			!strings.Contains(briefs[0], bob) || !strings.Contains(briefs[1], "result: did Write it") {
			t.Errorf("the strategist was told %q", briefs)
		}
		if got := w.names(); !slices.Equal(got, []string{initiative.EventGoal}) || !strings.Contains(w.webhook[0], goal) {
			t.Errorf("webhooks %v", w.webhook)
		}
		if len(w.notices) != 1 || !strings.HasSuffix(w.notices[0], "Please look.") {
			t.Errorf("notices %v", w.notices)
		}
		for id, req := range w.Asked {
			writes := strings.HasPrefix(string(req.Input), `{"message":"Write it`) && !strings.Contains(string(req.Input), "Verify whether")
			if w.Stored[id].AgentID == bob != writes || req.Budgets[0] != i.ID || len(req.Budgets) != 2 {
				t.Errorf("%s: %s %v", w.Stored[id].AgentID, req.Input, req.Budgets)
			}
		}
		_, counts := w.Events(i.ID, rec.EventSeq)
		want := map[string]int{
			"initiative.tick_start": 2, "initiative.tick_end": 2, "objective_added": 4, "objective_change": 8, "task_started": 5, "task_ended": 5,
			"initiative.goal_completed": 1, "initiative.escalation": 1,
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// An answer that cannot be followed is not followed in any part, the strategist learns
// why, and after three of them people do.
func TestAnswersThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	many := `{"objectives":[` + strings.Repeat(`{"title":"x"},`, 10) + `{"title":"x"}]}`
	w := open(t, 1, 0)
	i := w.create(func(i *initiative.Initiative) { i.StrategicGoals = []initiative.Goal{{Title: "g"}} })
	goal := i.StrategicGoals[0].GoalID
	for n, c := range []struct{ answer, wrong string }{
		{`I have no plan.`, "There is no JSON"},
		{`{"objectives":[{"title":"a","agent_id":"stranger"}]}`, `objectives[0]: the agent "stranger" is none`},
		{`{"objectives":[{"title":"a"},{"title":"b","team_id":"stranger"}]}`, `objectives[1]: the team "stranger" is none`},
		{`{"objectives":[{"title":"a","goal_id":"stranger"}]}`, `there is no goal "stranger"`},
		{`{"objectives":[{"title":"a","parent":"stranger"}]}`, `there is no objective "stranger"`},
		{`{"objectives":[{"ref":"a","title":"a","depends_on":["b"]},{"ref":"b","title":"b","depends_on":["a"]}]}`, "in a circle"},
		{`{"objectives":[{"ref":"a","title":"a","parent":"b"},{"ref":"b","title":"b","parent":"a"}]}`, "in a circle"},
		{`{"objectives":[{"ref":"a","title":"a"},{"ref":"a","title":"b"}]}`, `the ref "a" is there twice`},
		{`{"objectives":[{"title":1}]}`, "objectives[0].title"},
		{`{"objectives":[{"title":"a","agent_id":"x","team_id":"y"}]}`, "an agent and a team"},
		{many, "It has 11 objectives; at most 10"},
		{`{"completed_goals":["stranger"]}`, `there is no goal "stranger"`},
		{`{"objectives":[{"title":"a","goal_id":"` + goal + `"}],"completed_goals":["` + goal + `"]}`, "objectives that are not over"},
	} {
		told := ""
		w.plans(func(in run.Input) string {
			told = in.Message
			return c.answer
		})
		before, _ := w.read(i.ID)
		w.until(i.ID, n+1)
		after, rec := w.read(i.ID)
		if !strings.Contains(rec.State.Feedback, c.wrong) || w.objectives(i.ID) != "" || after.LastSuccessAt != before.LastSuccessAt {
			t.Errorf("%s: %q, %s", c.answer, rec.State.Feedback, w.objectives(i.ID))
		}
		if n > 0 && !strings.Contains(told, "What was wrong with your last answer") {
			t.Errorf("the strategist was told %s", told)
		}
	}
	if len(w.notices) != 1 || !strings.Contains(w.notices[0], "three times in a row") {
		t.Errorf("notices %v", w.notices)
	}
}

// What is spent is counted: at a threshold people are notified; at the limit of a day
// nothing begins until the next; and at the total the initiative is paused.
func TestBudgets(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	i := w.create(func(i *initiative.Initiative) {
		i.Budget = initiative.Budget{TotalUSD: 10, DailyUSD: 4, AlertAtPct: 50}
	})
	w.CostUSD = 1
	w.plans(func(run.Input) string { return `{"objectives":[{"title":"a"}]}` })
	tick := func(n int) {
		t.Helper()
		w.Settle(initiative.WorkKind, w.Handle, func() bool {
			_, r := w.read(i.ID)
			tasks, err := w.Crew.Store.ListOpenTasks(t.Context(), w.Tenant, i.ID)
			return err == nil && len(tasks) == 0 && len(w.Open()) == 0 && r.State.Ticks >= n
		})
	}
	w.Clock.Advance(time.Hour)
	tick(1) // 2 dollars: half of the day's
	w.Clock.Advance(time.Hour)
	tick(2) // 4
	if got := w.names(); !slices.Equal(got, []string{initiative.EventAlert, initiative.EventExceeded}) || !strings.Contains(w.webhook[0], `"budget":"daily"`) {
		t.Fatalf("webhooks %v", w.webhook)
	}
	for range 5 {
		w.Clock.Advance(time.Hour)
		for w.Drive(initiative.WorkKind, "n1", w.Handle) {
			continue
		}
	}
	if _, r := w.read(i.ID); r.State.Ticks != 2 || len(w.Open()) != 0 {
		t.Errorf("on a day whose limit is used up there are %d ticks", r.State.Ticks)
	}
	w.webhook = nil
	w.Clock.Advance(24 * time.Hour)
	tick(3) // 6: half of the total
	w.Clock.Advance(time.Hour)
	tick(4) // 8
	w.Clock.Advance(24 * time.Hour)
	tick(5) // 10
	now, _ := w.read(i.ID)
	if now.Status != initiative.Paused || now.StatusReason != "budget_exceeded" || now.Budget.SpentUSD != 10 {
		t.Errorf("%+v", now)
	}
	got := w.names()
	slices.Sort(got)
	if want := []string{
		initiative.EventAlert, initiative.EventAlert, initiative.EventAlert, initiative.EventExceeded, initiative.EventExceeded, initiative.EventPaused,
	}; !slices.Equal(got, want) {
		t.Errorf("webhooks %v", w.webhook)
	}
	if len(w.notices) != 7 {
		t.Errorf("%d notices: %v", len(w.notices), w.notices)
	}

	// A caller raises the total, and it goes on.
	_, err := w.Resources().Update(t.Context(), authz.Caller{TenantID: w.Tenant}, i.ID, func(_ txn.Tx, i *initiative.Initiative) error {
		i.Budget.TotalUSD, i.Status = 20, initiative.Active
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(24 * time.Hour)
	tick(6)
	_, rec := w.read(i.ID)
	if _, counts := w.Events(i.ID, rec.EventSeq); counts["initiative.budget_updated"] != 1 || counts["initiative.resumed"] != 1 || counts[initiative.EventPaused] != 1 {
		t.Errorf("events %v", counts)
	}
}

// Runs that fail because the budget pays for no call are no strikes: their objectives
// wait until there is money.
func TestRunsWithoutMoney(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	i := w.create(func(i *initiative.Initiative) { i.Budget = initiative.Budget{TotalUSD: 10, DailyUSD: 1, AlertAtPct: 0} })
	poor := true
	w.Answer = func(_ string, in run.Input) (string, string) {
		switch {
		case strings.Contains(in.Instructions, "Decide what is to be done next") && poor:
			return `{"objectives":[{"title":"a"}]}`, ""
		case strings.Contains(in.Instructions, "Decide what is to be done next"):
			return `{}`, ""
		case poor:
			return "", run.CodeBudgetExceeded
		}
		return verified(in)
	}
	w.until(i.ID, 1)
	if got := w.objectives(i.ID); got != "a pending" || !slices.Equal(w.names(), []string{initiative.EventExceeded}) {
		t.Fatalf("%s, %v", got, w.names())
	}
	poor = false
	w.Clock.Advance(24 * time.Hour)
	w.until(i.ID, 2)
	if got := w.objectives(i.ID); got != "a completed" {
		t.Errorf("on the next day: %s", got)
	}
}

// A paused initiative, and that of a suspended company, begins nothing; a deleted one
// leaves nothing behind.
func TestPausedAndDeleted(t *testing.T) {
	t.Parallel()
	w := open(t, 1, 0)
	i := w.create(nil)
	who := authz.Caller{TenantID: w.Tenant}
	set := func(status string) {
		t.Helper()
		if _, err := w.Resources().Update(t.Context(), who, i.ID, func(_ txn.Tx, i *initiative.Initiative) error {
			i.Status = status
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	idle := func(why string) {
		t.Helper()
		for range 3 {
			w.Clock.Advance(time.Hour)
			for w.Drive(initiative.WorkKind, "n1", w.Handle) {
				continue
			}
		}
		if len(w.Stored) != 0 {
			t.Errorf("%s: %d runs were started", why, len(w.Stored))
		}
	}
	set(initiative.Paused)
	idle("paused")
	w.held = true
	set(initiative.Active)
	idle("suspended")
	w.held = false
	w.Clock.Advance(time.Hour)
	for w.Drive(initiative.WorkKind, "n1", w.Handle) {
		continue
	}
	if len(w.Stored) != 1 {
		t.Fatalf("%d runs", len(w.Stored))
	}
	if err := w.Resources().Delete(t.Context(), who, i.ID); err != nil {
		t.Fatal(err)
	}
	leases, err := w.Queue.Claim(t.Context(), run.CancelWorkKind, "n1", 10, time.Minute)
	if err != nil || len(leases) != 1 || w.Stored[leases[0].Key] == nil {
		t.Errorf("runs to be cancelled: %v, %v", leases, err)
	}
	if !slices.Equal(w.staff.deleted, []string{i.StrategistAgentID}) {
		t.Errorf("agents deleted: %v", w.staff.deleted)
	}
	w.Clock.Advance(time.Hour)
	for w.Drive(initiative.WorkKind, "n1", w.Handle) {
		continue
	}
	if _, err := w.states.Get(t.Context(), w.Tenant, i.ID); !fault.Is(err, fault.NotFound) || w.objectives(i.ID) != "" {
		t.Errorf("%v %s", err, w.objectives(i.ID))
	}
}

// Initiatives whose workers are killed at any moment: no run is started twice, no event
// is lost, and no objective is there twice. AGENTD_TEST_ROUNDS is the number of seeds.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := 3
	if n, err := strconv.Atoi(os.Getenv("AGENTD_TEST_ROUNDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := open(t, uint64(seed), 0.15)
			i := w.create(nil)
			w.CostUSD = 0.25
			w.plans(func(run.Input) string {
				return `{"objectives":[{"ref":"a","title":"a"},{"parent":"a","title":"b"},{"parent":"a","title":"c","success_criteria":["x"]}]}`
			})
			w.until(i.ID, 3)
			now, rec := w.read(i.ID)
			if got := w.objectives(i.ID); got != strings.TrimSuffix(strings.Repeat("a completed, b completed, c completed, ", rec.State.Ticks), ", ") {
				t.Errorf("%d ticks: %s", rec.State.Ticks, got)
			}
			for id, n := range w.Created {
				if n != 1 {
					t.Errorf("the run %s was created %d times", id, n)
				}
			}
			if want := 0.25 * float64(len(w.Stored)); now.Budget.SpentUSD != want || len(w.Stored) != 4*rec.State.Ticks {
				t.Errorf("%g dollars are spent for %d runs", now.Budget.SpentUSD, len(w.Stored))
			}
			_, counts := w.Events(i.ID, rec.EventSeq)
			if counts["initiative.tick_start"] != rec.State.Ticks || counts["initiative.tick_end"] != rec.State.Ticks || counts["task_started"] != len(w.Stored) {
				t.Errorf("events %v", counts)
			}
		})
	}
}

// Whatever a strategist answers, it is read or refused.
func FuzzParseAnswer(f *testing.F) {
	f.Add(`{"objectives":[{"title":"a"}]}`)
	f.Add(`so: {"kpis":[{"goal_id":"g","name":"n","current":1}]} and so on`)
	f.Add(`}{`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := initiative.ParseAnswer(text)
		if (a == nil) == (err == nil) {
			t.Errorf("%v, %v", a, err)
		}
		if err != nil && !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
	})
}
