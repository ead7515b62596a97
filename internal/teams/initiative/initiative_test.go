package initiative_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/teams/initiative"
	"agentd/internal/teams/initiative/initiativesql"
	"agentd/internal/teams/objective/objectivetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// staff knows some agents, and makes strategists.
type staff struct {
	mu      sync.Mutex
	known   []string
	made    map[string]string // names
	deleted []string
	spawned []string
}

func (s *staff) CreateTx(_ txn.Tx, _ authz.Caller, name, _ string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := ident.New()
	s.made[id] = name
	return id, nil
}

func (s *staff) CheckTx(_ txn.Tx, _, id string) error {
	if slices.Contains(s.known, id) {
		return nil
	}
	return fault.NewNotFound("agent")
}

func (s *staff) DeleteNamedTx(_ txn.Tx, _ authz.Caller, id, suffix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasSuffix(s.made[id], suffix) {
		s.deleted = append(s.deleted, id)
	}
	return nil
}

func (s *staff) Children(context.Context, string, string) ([]string, error) { return s.spawned, nil }

func hourly(expression, zone string) (func(time.Time) time.Time, error) {
	if expression == "never" || zone == "Mars" {
		return nil, errors.New("there is no such time")
	}
	return func(after time.Time) time.Time { return after.Truncate(time.Hour).Add(time.Hour) }, nil
}

// world is a world with initiatives.
type world struct {
	*objectivetest.World
	*initiative.Service
	states  *initiativesql.Store
	staff   *staff
	webhook []string
	notices []string
	held    bool // the company is suspended
}

func newWorld(t *testing.T, db *sqldb.DB, deps resource.Deps, seed uint64, crashes float64) *world {
	t.Helper()
	w := &world{World: objectivetest.New(t, db, seed, crashes), states: initiativesql.New(db), staff: &staff{made: map[string]string{}}}
	deps.Events = w
	exists := func(_ txn.Tx, _, id string) error {
		if id == "w" || id == "t" {
			return nil
		}
		return fault.NewNotFound("thing")
	}
	w.Service = initiative.New(deps, initiative.Deps{
		Crew: w.Crew, States: w.states, Agents: w.staff, Team: exists, Workspace: exists, Cron: hourly, Cursors: deps.Cursors,
		Suspended: func(context.Context, string) (bool, error) { return w.held, nil },
		NotifyTx: func(_ txn.Tx, _ string, n initiative.Notice) error {
			w.notices = append(w.notices, n.Title+": "+n.Message)
			return nil
		},
	})
	return w
}

func TestInitiatives(t *testing.T) {
	t.Parallel()
	a, b := ident.New(), ident.New()
	const budget = `"budget":{"total_usd":10,"daily_limit_usd":2,"alert_threshold_pct":80}`
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		resourcetest.Kind(t, resourcesql.New(db), db, func(deps resource.Deps) *resource.Store[initiative.Initiative] {
			w := newWorld(t, db, deps, 1, 0)
			w.staff.known = []string{a, b}
			return w.Resources()
		}, resourcetest.Samples{
			Minimal: `{"name":"Letter %d","mission":"A letter","strategist_agent_id":"` + a + `",` + budget + `}`,
			Defaults: map[string]string{
				"status": `"active"`, "description": `""`, "strategic_goals": `[]`, "agent_ids": `[]`, "team_ids": `[]`, "created_agent_ids": `[]`,
				"workspace_id": `null`, "last_tick_at": `null`, "last_successful_tick_at": `null`, "status_reason": `""`,
				"config": `{"schedule":"0 * * * *","timezone":"UTC","max_concurrency":4,"max_strikes":3,"max_new_objectives":10,"judge_agent_id":""}`,
				"budget": `{"total_usd":10,"spent_usd":0,"daily_limit_usd":2,"alert_threshold_pct":80}`,
			},
			Full: `{"name":"Letter %d","description":"d","mission":"A letter","strategist_agent_id":"` + a + `","agent_ids":["` + b + `"],"team_ids":["t"],
				"strategic_goals":[{"goal_id":"` + ident.New() + `","title":"g","description":"d","kpis":[{"name":"k","target":2,"current":1}],
				"deadline":"2027-01-01T00:00:00Z"}],
				"budget":{"total_usd":10,"spent_usd":0,"daily_limit_usd":2,"alert_threshold_pct":80},"workspace_id":"w",
				"config":{"schedule":"0 9 * * 1","timezone":"Europe/Berlin","max_concurrency":2,"max_strikes":1,"max_new_objectives":5,"judge_agent_id":"` + b + `"}}`,
			Refused: []resourcetest.Refused{
				{Body: `{}`, Fields: []string{"name", "mission", "budget"}},
				{Body: `{"name":" ","mission":" ",` + budget + `}`, Fields: []string{"name", "mission"}},
				{Body: `{"name":"x","mission":"y","budget":{}}`, Fields: []string{"budget.total_usd", "budget.daily_limit_usd", "budget.alert_threshold_pct"}},
				{Body: `{"name":"x","mission":"y","budget":{"total_usd":-1,"daily_limit_usd":1,"alert_threshold_pct":101}}`,
					Fields: []string{"budget.total_usd", "budget.alert_threshold_pct"}},
				{Body: `{"name":"x","mission":"y",` + budget + `,"config":{"schedule":"never"}}`, Fields: []string{"config.schedule"}},
				{Body: `{"name":"x","mission":"y",` + budget + `,"strategic_goals":[{"title":"g","kpis":[{"name":"k"},{"name":"k"}]}]}`,
					Fields: []string{"strategic_goals[0].kpis"}},
				{Body: `{"name":"x","mission":"y",` + budget + `,"agent_ids":["` + ident.New() + `"]}`, Fields: []string{"agent_ids[0]"}},
				{Body: `{"name":"x","mission":"y",` + budget + `,"team_ids":["stranger"]}`, Fields: []string{"team_ids[0]"}},
			},
		})
	})
}

// create creates an initiative through its store.
func (w *world) create(change func(*initiative.Initiative)) *initiative.Initiative {
	w.T.Helper()
	i := w.Resources().Blank()
	i.Name, i.Mission = "Letter", "A letter that people read"
	i.Budget = initiative.Budget{TotalUSD: 100, DailyUSD: 50, AlertAtPct: 80}
	if change != nil {
		change(i)
	}
	if err := w.Resources().Create(w.T.Context(), authz.Caller{TenantID: w.Tenant, UserID: "ada"}, i); err != nil {
		w.T.Fatal(err)
	}
	return i
}

func (w *world) read(id string) (*initiative.Initiative, *initiative.Record) {
	w.T.Helper()
	i, err := w.Resources().Get(w.T.Context(), w.Tenant, id)
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := w.states.Get(w.T.Context(), w.Tenant, id)
	if err != nil {
		w.T.Fatal(err)
	}
	return i, r
}

// objectives returns the states of the objectives of an initiative by their titles.
func (w *world) objectives(id string) string {
	w.T.Helper()
	all, err := w.Crew.Store.List(w.T.Context(), w.Tenant, id)
	if err != nil {
		w.T.Fatal(err)
	}
	var lines []string
	for _, o := range all {
		lines = append(lines, fmt.Sprintf("%s %s", o.Plan.Title, o.State.Status))
	}
	return strings.Join(lines, ", ")
}
