package schedule

import (
	"context"
	"log/slog"
	"time"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the work items; the key is the agent's id.
const WorkKind = "schedule"

// Runs starts runs; run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// AlertFunc notifies people of a failure, in the caller's transaction.
type AlertFunc func(tx txn.Tx, a Alarm) error

// Alarm is a failure of a schedule whose on_failure is alert, or the failure
// that paused it.
type Alarm struct {
	TenantID, AgentID string
	RunID             string    // "": no run could be started
	At                time.Time // of the fire, or when its run was created
	Sentence          string    // what failed
	Paused            bool
}

// Deps has the dependencies of a Service.
type Deps struct {
	Store    Store
	Agents   *resource.Store[agent.Agent]
	Runs     Runs
	RunStore run.Store
	Queue    work.Queue
	Writer   txn.Writer
	Clock    clock.Clock
	Cursors  *page.Cursors
	Logger   *slog.Logger
	// Suspended reports whether a tenant's schedules do not fire. Nil: all do.
	Suspended func(ctx context.Context, tenant string) (bool, error)
	Alert     AlertFunc // nil: failures alert nobody
	// OnFire is called for each fire that starts a run, with how late it is. Nil:
	// nobody counts them.
	OnFire func(late time.Duration)
}

// Service is the slice. It is safe for concurrent use.
type Service struct {
	Deps
	differs func(old, now *Config) bool // differs; tests replace it
}

// New returns a service.
func New(d Deps) *Service { return &Service{Deps: d, differs: differs} }

// setup is a schedule as its agent has it now.
type setup struct {
	agentID string
	config  *Config // nil: there is none, or it cannot be read
	cron    *Cron
	text    string // as stored; "": there is none
	problem string // why it cannot be read
	fires   bool   // it is enabled, and the agent is active
}

// setupOf reads the schedule of an agent; nil is a deleted agent.
func setupOf(g *agent.Agent) (*setup, error) {
	s := &setup{}
	if g == nil || len(g.Schedule) == 0 {
		return s, nil
	}
	s.agentID = g.ID
	var err error
	if s.config, s.cron, err = read(schema.Nullable(g.Schedule)); err != nil {
		s.config, s.text, s.problem = nil, string(g.Schedule), fault.From(err).Detail
		return s, nil
	}
	s.text, err = s.config.stored()
	s.fires = s.config.Enabled && g.Status == agent.Active
	return s, err
}

// exists reports whether the agent has a schedule at all.
func (s *setup) exists() bool { return s.text != "" }

// restarts reports whether a setup is another schedule than the one that a
// state is of. What is stored may differ without that: in a field that does not
// restart, or because an earlier build stored it.
func (s *Service) restarts(set *setup, st *State) bool {
	if st.Config == set.text {
		return false
	}
	old, err := decodeStored(st.Config)
	if err != nil {
		return true
	}
	now, err := decodeStored(set.text)
	return err != nil || s.differs(old, now)
}

// inSync reports whether a state is of this setup and has a next fire exactly
// when it should.
func (s *Service) inSync(set *setup, st *State) bool {
	if st == nil || s.restarts(set, st) {
		return false
	}
	return (set.fires && st.Status != Paused) == !st.NextRunAt.IsZero()
}

// Sync brings an agent's schedule in line with the agent. It is the handler of
// the agents' change events, and may be called any number of times.
func (s *Service) Sync(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, tenant, agentID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		st, err := s.syncState(tx, tenant, agentID, g, false)
		if err != nil {
			return err
		}
		return s.enqueue(tx, tenant, agentID, st)
	})
}

// syncState brings the stored state in line with the agent, which is locked,
// and returns it: nil where there is no schedule. restart forgets that the
// schedule was paused or failed, even if the configuration is the same.
func (s *Service) syncState(tx txn.Tx, tenant, agentID string, g *agent.Agent, restart bool) (*State, error) {
	set, err := setupOf(g)
	if err != nil {
		return nil, err
	}
	st, err := s.Store.LockTx(tx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	switch {
	case !set.exists() && st == nil:
		return nil, nil
	case !set.exists():
		return nil, s.Store.DeleteTx(tx, tenant, agentID)
	case st == nil:
		st = &State{TenantID: tenant, AgentID: agentID}
	case !restart && st.Config == set.text && s.inSync(set, st):
		return st, nil
	}
	st.update(set, restart || s.restarts(set, st), s.Clock.Now())
	return st, s.put(tx, st)
}

// update makes the state one of a setup.
func (st *State) update(set *setup, restart bool, now time.Time) {
	st.Config = set.text
	if restart {
		st.Status, st.Problem, st.Failures, st.NextRunAt = Active, "", 0, time.Time{}
	}
	if set.config == nil {
		st.Status, st.Problem = Failed, set.problem
	}
	switch {
	case !set.fires || st.Status == Paused:
		st.NextRunAt = time.Time{}
	case st.NextRunAt.IsZero():
		// Later than the last fire too: another node's clock may be ahead.
		if st.LastFiredAt.After(now) {
			now = st.LastFiredAt
		}
		st.NextRunAt = set.cron.Next(now)
	}
}

func (s *Service) put(tx txn.Tx, st *State) error {
	st.Revision++
	return s.Store.PutTx(tx, st)
}

// enqueue makes the work item due at the state's next fire, or removes it
// where there is none. Another node may hold it.
func (s *Service) enqueue(tx txn.Tx, tenant, agentID string, st *State) error {
	if st == nil || st.NextRunAt.IsZero() {
		return s.Queue.DeleteTx(tx, WorkKind, agentID)
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: agentID, TenantID: tenant, Due: st.NextRunAt})
}

// Get returns an agent's schedule; nil where it has none. Errors: fault.NotFound
// for the agent.
func (s *Service) Get(ctx context.Context, tenant, agentID string) (*Schedule, error) {
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	set, err := setupOf(g)
	if err != nil || !set.exists() {
		return nil, err
	}
	st, err := s.Store.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	return s.shown(set, st), nil
}

// shown returns a schedule with its state or, where the agent was changed a
// moment ago, with the state that it is about to have.
func (s *Service) shown(set *setup, st *State) *Schedule {
	if !s.inSync(set, st) {
		if st == nil {
			st = &State{}
		}
		st.update(set, s.restarts(set, st), s.Clock.Now())
	}
	c := set.config
	if c == nil {
		c = &Config{}
	}
	return show(set.agentID, c, st)
}

// Set replaces an agent's schedule and restarts it. Errors: fault.NotFound for
// the agent, fault.Invalid.
func (s *Service) Set(ctx context.Context, who authz.Caller, agentID string, c *Config) (*Schedule, error) {
	if _, invalid := c.check(); len(invalid) > 0 {
		return nil, fault.BadFields(invalid...)
	}
	text, err := c.stored()
	if err != nil {
		return nil, err
	}
	var shown *Schedule
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
			if err := match(tx, g); err != nil {
				return err
			}
			g.Schedule = []byte(text)
			return nil
		})
		if err != nil {
			return err
		}
		st, err := s.syncState(tx, who.TenantID, agentID, g, true)
		if err != nil {
			return err
		}
		shown = show(agentID, c, st)
		return s.enqueue(tx, who.TenantID, agentID, st)
	})
	return shown, err
}

// match checks the request's If-Match against the schedule that an agent has.
func match(tx txn.Tx, g *agent.Agent) error {
	set, err := setupOf(g)
	if err != nil {
		return err
	}
	var current *Schedule
	if set.exists() {
		current = &Schedule{}
	}
	if set.config != nil {
		current.Config = *set.config
	}
	return route.Match(tx.Context(), current)
}

// Remove deletes an agent's schedule, if it has one. Errors: fault.NotFound for
// the agent.
func (s *Service) Remove(ctx context.Context, who authz.Caller, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, who.TenantID, agentID)
		if err != nil {
			return err
		}
		if err := match(tx, g); err != nil {
			return err
		}
		if len(g.Schedule) > 0 {
			g, err = s.Agents.UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
				g.Schedule = nil
				return nil
			})
			if err != nil {
				return err
			}
		}
		st, err := s.syncState(tx, who.TenantID, agentID, g, false)
		if err != nil {
			return err
		}
		return s.enqueue(tx, who.TenantID, agentID, st)
	})
}
