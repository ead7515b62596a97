package sensor

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/page"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/resource"
)

// Runs starts runs; run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// Deps is what a Service is made of.
type Deps struct {
	Store   Store
	Writer  txn.Writer
	Clock   clock.Clock
	Cursors *page.Cursors
	Box     *secret.Box
	Audit   audit.Recorder // nil: nobody is told
	// Public gives the address under which others reach the service.
	Public func() string
	// Suspended says whether a company's sensors start nothing.
	Suspended func(ctx context.Context, tenant string) (bool, error)
}

// Service is the slice. Make it with New, and Bind it before the first call.
type Service struct {
	Deps

	runs   Runs
	agents *resource.Store[agent.Agent]
}

// New returns a service whose tool can be registered. Connect completes it.
func New(d Deps) *Service { return &Service{Deps: d} }

// Connect sets the runs and agents, which are built after the service because
// they need its tool. It is called once, before the first request.
func (s *Service) Connect(runs Runs, agents *resource.Store[agent.Agent]) {
	s.runs, s.agents = runs, agents
}

// wish is what a sensor is made of.
type wish struct {
	id           string
	agentID      string
	run          string // that asks for it; "": a person does
	instructions string
	maxTriggers  int64
	expiresAt    time.Time
	unsigned     bool
}

// create stores a sensor, and gives it with its secret. Where there is one with
// its id already it gives nothing. Errors: fault.NotFound for the agent,
// fault.Invalid with limit_reached.
func (s *Service) create(ctx context.Context, who authz.Caller, w wish) (*View, error) {
	of := &Sensor{
		TenantID: who.TenantID, ID: w.id, AgentID: w.agentID, MadeByRun: w.run, Instructions: w.instructions,
		MaxTriggers: w.maxTriggers, ExpiresAt: w.expiresAt, CreatedAt: s.Clock.Now(),
	}
	key := ""
	if !w.unsigned {
		key = secret.NewSigningSecret()
		of.Sealed = s.Box.Seal([]byte(key), of.sealContext())
	}
	shown := s.view(of)
	shown.Secret = key
	made := false
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if _, err = s.agents.GetTx(tx, who.TenantID, w.agentID); err != nil {
			return err
		}
		if err = s.Store.DeleteEndedTx(tx, who.TenantID, of.CreatedAt.Add(-keptAfterEnd)); err != nil {
			return err
		}
		if err = s.room(tx, of); err != nil {
			return err
		}
		if made, err = s.Store.CreateTx(tx, of); err != nil || !made {
			return err
		}
		if err = s.note(tx, who, "created", of.ID, of); err != nil {
			return err
		}
		return txn.Answer(tx, shown)
	})
	if err != nil || !made {
		return nil, err
	}
	return shown, nil
}

// room refuses a sensor too many.
func (s *Service) room(tx txn.Tx, of *Sensor) error {
	all, ofAgent, err := s.Store.CountActiveTx(tx, of.TenantID, of.AgentID, of.CreatedAt)
	switch {
	case err != nil:
		return err
	case all >= maxActive:
		return fault.New(fault.Invalid, "limit_reached", "The company has %d sensors that take calls, and there may be no more; delete one first.", maxActive)
	case ofAgent >= maxOfAgent:
		return fault.New(fault.Invalid, "limit_reached", "The agent has %d sensors that take calls, and there may be no more; delete one first.", maxOfAgent)
	}
	return nil
}

// secretOf opens what calls of a sensor are signed with; "": they are not.
func (s *Service) secretOf(of *Sensor) (string, error) {
	if !of.signed() {
		return "", nil
	}
	key, err := s.Box.Open(of.Sealed, of.sealContext())
	if err != nil {
		return "", fmt.Errorf("sensor %s: its secret cannot be opened: %w", of.ID, err)
	}
	return string(key), nil
}

// note records what was done to a sensor.
func (s *Service) note(tx txn.Tx, who authz.Caller, what, id string, of *Sensor) error {
	e := audit.Entry{Action: "sensor." + what, TargetType: "sensor", TargetID: id}
	if of != nil {
		var err error
		e.Details, err = json.Marshal(struct {
			AgentID     string `json:"agent_id"`
			RunID       string `json:"run_id,omitzero"`
			Unsigned    bool   `json:"unsigned"`
			MaxTriggers int64  `json:"max_triggers,omitzero"`
		}{of.AgentID, of.MadeByRun, !of.signed(), of.MaxTriggers})
		if err != nil {
			return err
		}
	}
	return audit.Tell(s.Audit, tx, who, e)
}

// AgentDeleted ends the sensors of an agent that is gone. It may be called any
// number of times.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.EndTx(tx, tenant, agentID, s.Clock.Now()) })
}
