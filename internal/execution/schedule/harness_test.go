package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/schedule"
	"agentd/internal/execution/schedule/schedulesql"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

const lease = 15 * time.Second

// rig is the service on a real database, with a fake clock and an engine that
// stores runs and does nothing with them.
type rig struct {
	*schedule.Service
	t       *testing.T
	db      *sqldb.DB
	clock   *clock.Fake
	agents  *agent.Agents
	runs    *run.Service
	engine  *starter
	queue   *worksql.Queue
	changes *resource.Subscribers
	who     authz.Caller
	alarms  []schedule.Alarm
	suspend bool
}

// starter replaces the engine.
type starter struct {
	db     *sqldb.DB
	runs   *runsql.Store
	admits bool         // asks the run's admission, as the contract says
	before func() error // the node dies, or another caller acts, before the run is stored
	after  func() error // and after
}

func (s *starter) Start(ctx context.Context, r *run.Record, _ *run.AgentSpec) error {
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	err := s.db.Write(ctx, func(tx txn.Tx) error {
		if s.admits && r.Admit != nil {
			if _, err := r.Admit(tx, r); err != nil {
				return err
			}
		}
		return s.runs.Create(r)(tx)
	})
	if err == nil && s.after != nil {
		err = s.after()
	}
	return err
}

// each runs a subtest on every database, with an engine that asks admissions
// and with one that does not.
func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		t.Run("admitted", func(t *testing.T) { test(t, newRig(t, db, true)) })
		t.Run("adopted", func(t *testing.T) { test(t, newRig(t, db, false)) })
	})
}

func newRig(t *testing.T, db *sqldb.DB, admits bool) *rig {
	t.Helper()
	r := &rig{t: t, db: db, clock: clock.NewFake(), who: authz.Caller{TenantID: ident.New(), UserID: ident.New()}}
	r.queue = worksql.New(db, r.clock, nil)
	r.changes = resource.NewSubscribers(r.queue, db, r.clock)
	cursors := page.NewCursors(make([]byte, 32))
	r.agents = agent.New(resource.Deps{
		Backend: resourcesql.New(db), Writer: db, Outbox: r.changes, Cursors: cursors, Clock: r.clock,
	}, agent.Options{CheckSchedule: schedule.Check})
	store := runsql.New(db)
	r.engine = &starter{db: db, runs: store, admits: admits}
	r.runs = &run.Service{Runs: store, Writer: db, Queue: r.queue, Agents: run.AgentSource{Agents: r.agents}, Starter: r.engine, Clock: r.clock}
	r.Service = schedule.New(schedule.Deps{
		Store: schedulesql.New(db), Agents: r.agents.Store(), Runs: r.runs, RunStore: store, Queue: r.queue, Writer: db,
		Clock: r.clock, Cursors: cursors, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Suspended: func(context.Context, string) (bool, error) { return r.suspend, nil },
		Alert: func(_ txn.Tx, a schedule.Alarm) error {
			r.alarms = append(r.alarms, a)
			return nil
		},
	})
	r.changes.Subscribe("schedules-follow-agents", "agent", nil, func(ctx context.Context, c resource.Change) error {
		return r.Sync(ctx, c.TenantID, c.ID)
	})
	return r
}

func (r *rig) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// agent creates an agent, with a schedule unless the field is "", and returns its id.
func (r *rig) agent(field string) string {
	r.t.Helper()
	g := r.agents.Store().Blank()
	g.Name, g.Schedule = "Ada", []byte(field)
	r.fatal(r.agents.Store().Create(r.t.Context(), r.who, g))
	r.deliver()
	return g.ID
}

// change writes the agent's field as a PATCH of the agent does.
func (r *rig) change(id, field string) {
	r.t.Helper()
	_, err := r.agents.Store().Update(r.t.Context(), r.who, id, func(_ txn.Tx, g *agent.Agent) error {
		g.Schedule = []byte(field)
		return nil
	})
	r.fatal(err)
	r.deliver()
}

func (r *rig) move(id, action string) {
	r.t.Helper()
	_, err := r.agents.Store().Move(r.t.Context(), r.who, id, action, nil)
	r.fatal(err)
	r.deliver()
}

// deliver delivers the agents' changes.
func (r *rig) deliver() {
	r.t.Helper()
	for {
		leases, err := r.queue.Claim(r.t.Context(), resource.WorkKind, "node", 100, lease)
		r.fatal(err)
		if len(leases) == 0 {
			return
		}
		for _, l := range leases {
			r.fatal(r.changes.Deliver(r.t.Context(), l))
		}
	}
}

// tick has a node handle what is due. What a handler returns is as if the
// node had died: the item stays until its lease ends.
func (r *rig) tick(node string) error {
	r.t.Helper()
	leases, err := r.queue.Claim(r.t.Context(), schedule.WorkKind, node, 100, lease)
	r.fatal(err)
	var failed error
	for _, l := range leases {
		if err := r.Handle(r.t.Context(), l); !errors.Is(err, work.ErrLost) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// pass advances the clock and has due work handled.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	r.clock.Advance(d)
	r.fatal(r.tick("node"))
}

// until is pass to a moment of the day on which the clock stands.
func (r *rig) until(text string) {
	r.t.Helper()
	r.pass(r.moment(text).Sub(r.clock.Now()))
}

// moment reads "15:04", or "01-02 15:04", in UTC.
func (r *rig) moment(text string) time.Time {
	r.t.Helper()
	day := "2026-09-10 "
	if len(text) > len("15:04") {
		day = "2026-"
	}
	m, err := time.Parse("2006-01-02 15:04:05", day+text+":00")
	r.fatal(err)
	return m
}

func (r *rig) schedule(id string) *schedule.Schedule {
	r.t.Helper()
	s, err := r.Get(r.t.Context(), r.who.TenantID, id)
	r.fatal(err)
	return s
}

// next fails unless the next fire is at a moment; "" is never.
func (r *rig) next(id, want string) {
	r.t.Helper()
	got := r.schedule(id).NextRunAt
	switch {
	case want == "" && got == nil:
	case want == "" || got == nil || !got.Equal(r.moment(want)):
		r.t.Fatalf("the next fire is at %v, want %q", got, want)
	}
}

// made lists the agent's runs, oldest first.
func (r *rig) made(id string) []run.Run {
	r.t.Helper()
	all, err := r.engine.runs.List(r.t.Context(), r.who.TenantID, run.Filter{AgentID: id}, page.Window{Ascending: true, Limit: 10_000})
	r.fatal(err)
	return all
}

// fired fails unless the agent's runs are those of these fires.
func (r *rig) fired(id string, want ...string) []run.Run {
	r.t.Helper()
	all := r.made(id)
	if len(all) != len(want) {
		r.t.Fatalf("%d runs, want %d: %v", len(all), len(want), all)
	}
	for i, text := range want {
		if got := r.fire(all[i]); !got.Equal(r.moment(text)) {
			r.t.Fatalf("run %d is for %v, want %s", i, got, text)
		}
	}
	return all
}

// fire is when a run says it was to be made.
func (r *rig) fire(of run.Run) time.Time {
	r.t.Helper()
	var m struct {
		Source string    `json:"source"`
		Fire   time.Time `json:"schedule_fire"`
	}
	r.fatal(json.Unmarshal(of.Metadata, &m))
	if m.Source != "schedule" {
		r.t.Fatalf("metadata: %s", of.Metadata)
	}
	return m.Fire
}

// end ends a run, and calls the watcher if notify is set.
func (r *rig) end(id string, status run.Status, notify bool) {
	r.t.Helper()
	r.fatal(r.db.Write(r.t.Context(), func(tx txn.Tx) error {
		rec, err := r.engine.runs.LockTx(tx, r.who.TenantID, id)
		if err != nil {
			return err
		}
		rec.Status = status
		if err := r.engine.runs.Update(rec.TenantID, id, run.Update{Status: status, EventSeq: rec.EventSeq})(tx); err != nil || !notify {
			return err
		}
		return r.OnRunState(tx, rec)
	}))
}

func (r *rig) endAll(id string, status run.Status) {
	r.t.Helper()
	for _, one := range r.made(id) {
		if !one.Status.Final() {
			r.end(one.RunID, status, true)
		}
	}
}

// items counts the items of work of schedules.
func (r *rig) items() (n int) {
	r.t.Helper()
	r.fatal(r.db.QueryRow(r.t.Context(), `SELECT COUNT(*) FROM work WHERE kind = 'schedule'`).Scan(&n))
	return n
}
