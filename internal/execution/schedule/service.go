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
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/work"
)

// WorkKind is the kind of the items of work; the key is the agent's id.
const WorkKind = "schedule"

// Runs starts runs; run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// Alerting tells people of a failure, in the caller's transaction.
type Alerting func(tx txn.Tx, a Alarm) error

// Alarm is a failure of a schedule whose on_failure is alert, or the failure
// that paused it.
type Alarm struct {
	TenantID, AgentID string
	RunID             string    // "": no run could be made
	At                time.Time // of the fire, or when its run was made
	Sentence          string    // what failed
	Paused            bool
}

// Deps is what a Service is made of.
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
	// Suspended says whether a company's schedules do not fire. Nil: none is.
	Suspended func(ctx context.Context, tenant string) (bool, error)
	Alert     Alerting // nil: nobody is told
}

// Service is the slice. It is safe for concurrent use.
type Service struct{ Deps }

// New makes a service.
func New(d Deps) *Service { return &Service{d} }

// setup is a schedule as its agent has it now.
type setup struct {
	agentID string
	config  *Config // nil: there is none, or it cannot be read
	cron    *Cron
	text    string // canonical; "": there is none
	problem string // why it cannot be read
	fires   bool   // it is enabled, and the agent is active
}

// of reads what an agent says; nil is an agent that is gone.
func of(g *agent.Agent) (*setup, error) {
	s := &setup{}
	if g == nil || len(g.Schedule) == 0 {
		return s, nil
	}
	s.agentID = g.ID
	var err error
	if s.config, s.cron, err = read(g.Schedule); err != nil {
		s.config, s.text, s.problem = nil, string(g.Schedule), fault.From(err).Detail
		return s, nil
	}
	s.text, err = s.config.canonical()
	s.fires = s.config.Enabled && g.Status == agent.Active
	return s, err
}

// exists says whether the agent has a schedule at all.
func (s *setup) exists() bool { return s.text != "" }

// follows says whether a state is of this setup and plans what it should.
func (s *setup) follows(st *State) bool {
	plans := s.fires && st != nil && st.Status != Paused
	return st != nil && st.Config == s.text && plans == !st.NextRunAt.IsZero()
}

// Follow brings an agent's schedule in line with the agent. It is the handler
// of the agents' change events, and may be called any number of times.
func (s *Service) Follow(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, tenant, agentID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		st, err := s.apply(tx, tenant, agentID, g, false)
		if err != nil {
			return err
		}
		return s.plan(tx, tenant, agentID, st)
	})
}

// apply makes the state what the agent says, and gives it: nil where there is
// no schedule. The agent is locked. anew forgets that it was paused or failed,
// also where the configuration is what it was.
func (s *Service) apply(tx txn.Tx, tenant, agentID string, g *agent.Agent, anew bool) (*State, error) {
	set, err := of(g)
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
	case !anew && set.follows(st):
		return st, nil
	case st == nil:
		st = &State{TenantID: tenant, AgentID: agentID}
	}
	if st.Config != set.text {
		anew = true
	}
	st.follow(set, anew, s.Clock.Now())
	return st, s.put(tx, st)
}

func (st *State) follow(set *setup, anew bool, now time.Time) {
	if anew {
		st.Config, st.Status, st.Problem, st.Failures, st.NextRunAt = set.text, Active, "", 0, time.Time{}
	}
	if set.config == nil {
		st.Status, st.Problem = Failed, set.problem
	}
	switch {
	case !set.fires || st.Status == Paused:
		st.NextRunAt = time.Time{}
	case st.NextRunAt.IsZero():
		// Behind the last fire too, for another node's clock may be ahead.
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

// plan makes the item of work what the state says, whoever holds it.
func (s *Service) plan(tx txn.Tx, tenant, agentID string, st *State) error {
	if st == nil || st.NextRunAt.IsZero() {
		return s.Queue.DeleteTx(tx, WorkKind, agentID)
	}
	return s.Queue.EnqueueTx(tx, work.Item{Kind: WorkKind, Key: agentID, TenantID: tenant, Due: st.NextRunAt})
}

// Get gives an agent's schedule; nil where it has none. Errors: fault.NotFound
// for the agent.
func (s *Service) Get(ctx context.Context, tenant, agentID string) (*Schedule, error) {
	g, err := s.Agents.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	set, err := of(g)
	if err != nil || !set.exists() {
		return nil, err
	}
	st, err := s.Store.Get(ctx, tenant, agentID)
	if err != nil {
		return nil, err
	}
	return s.shown(set, st), nil
}

// shown gives a schedule with its state, or with the state that it is about to
// have, where the agent was changed a moment ago.
func (s *Service) shown(set *setup, st *State) *Schedule {
	if !set.follows(st) {
		if st == nil {
			st = &State{}
		}
		st.follow(set, st.Config != set.text, s.Clock.Now())
	}
	c := set.config
	if c == nil {
		c = &Config{}
	}
	return show(set.agentID, c, st)
}

// Set makes c an agent's schedule, whatever it had. Errors: fault.NotFound for
// the agent, fault.Invalid.
func (s *Service) Set(ctx context.Context, who authz.Caller, agentID string, c *Config) (*Schedule, error) {
	if _, wrong := c.check(); len(wrong) > 0 {
		return nil, fault.BadFields(wrong...)
	}
	text, err := c.canonical()
	if err != nil {
		return nil, err
	}
	var shown *Schedule
	err = s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.UpdateTx(tx, who, agentID, func(g *agent.Agent) error {
			g.Schedule = schema.Nullable(text)
			return nil
		})
		if err != nil {
			return err
		}
		st, err := s.apply(tx, who.TenantID, agentID, g, true)
		if err != nil {
			return err
		}
		shown = show(agentID, c, st)
		return s.plan(tx, who.TenantID, agentID, st)
	})
	return shown, err
}

// Remove takes an agent's schedule away, if it has one. Errors: fault.NotFound
// for the agent.
func (s *Service) Remove(ctx context.Context, who authz.Caller, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		g, err := s.Agents.GetTx(tx, who.TenantID, agentID)
		if err != nil {
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
		st, err := s.apply(tx, who.TenantID, agentID, g, false)
		if err != nil {
			return err
		}
		return s.plan(tx, who.TenantID, agentID, st)
	})
}
