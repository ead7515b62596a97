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

// Runs starts runs; run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
}

// Deps are the dependencies of a Service.
type Deps struct {
	Store   Store
	Writer  txn.Writer
	Clock   clock.Clock
	Cursors *page.Cursors
	Box     *secret.Box
	Audit   audit.Recorder // nil: actions are not recorded
	// Public returns the address under which others reach the server.
	Public func() string
	// Suspended reports whether the sensors of a tenant start no runs.
	Suspended func(ctx context.Context, tenant string) (bool, error)
}

// Service manages sensors and receives their calls. Make it with New, and call
// Connect before the first request.
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

// newSensor is a sensor to create.
type newSensor struct {
	id           string
	agentID      string
	runID        string // the run that creates it; "": a person does
	instructions string
	maxTriggers  int64
	expiresAt    time.Time
	unsigned     bool
}

// create stores a sensor and returns it with its secret; nil if one with its id
// exists. Errors: fault.NotFound for the agent, fault.Invalid with limit_reached.
func (s *Service) create(ctx context.Context, who authz.Caller, w newSensor) (*View, error) {
	of := &Sensor{
		TenantID: who.TenantID, ID: w.id, AgentID: w.agentID, CreatedByRun: w.runID, Instructions: w.instructions,
		MaxTriggers: w.maxTriggers, ExpiresAt: w.expiresAt, CreatedAt: s.Clock.Now(),
	}
	key := ""
	if !w.unsigned {
		key = secret.NewSigningSecret()
		of.Sealed = s.Box.Seal([]byte(key), of.sealContext())
	}
	shown := s.view(of)
	shown.Secret = key
	created := false
	err := s.Writer.Write(ctx, func(tx txn.Tx) (err error) {
		if _, err = s.agents.GetTx(tx, who.TenantID, w.agentID); err != nil {
			return err
		}
		if err = s.Store.DeleteEndedTx(tx, who.TenantID, of.CreatedAt.Add(-endedRetention)); err != nil {
			return err
		}
		if err = s.checkLimits(tx, of); err != nil {
			return err
		}
		if created, err = s.Store.CreateTx(tx, of); err != nil || !created {
			return err
		}
		if err = s.recordAudit(tx, who, "created", of.ID, of); err != nil {
			return err
		}
		return txn.Answer(tx, shown)
	})
	if err != nil || !created {
		return nil, err
	}
	return shown, nil
}

// checkLimits returns an error if the tenant or the agent has no room for a sensor.
func (s *Service) checkLimits(tx txn.Tx, of *Sensor) error {
	all, ofAgent, err := s.Store.CountActiveTx(tx, of.TenantID, of.AgentID, of.CreatedAt)
	switch {
	case err != nil:
		return err
	case all >= maxActive:
		return fault.New(fault.Invalid, "limit_reached",
			"The company already has %d active sensors, which is the maximum; delete one first.", maxActive)
	case ofAgent >= maxActivePerAgent:
		return fault.New(fault.Invalid, "limit_reached",
			"The agent already has %d active sensors, which is the maximum; delete one first.", maxActivePerAgent)
	}
	return nil
}

// secretOf returns the secret that signs the calls of a sensor, or "".
func (s *Service) secretOf(of *Sensor) (string, error) {
	if !of.signed() {
		return "", nil
	}
	key, err := s.Box.Open(of.Sealed, of.sealContext())
	if err != nil {
		return "", fmt.Errorf("sensor %s: open the secret: %w", of.ID, err)
	}
	return string(key), nil
}

// recordAudit records an action on a sensor.
func (s *Service) recordAudit(tx txn.Tx, who authz.Caller, action, id string, of *Sensor) error {
	e := audit.Entry{Action: "sensor." + action, TargetType: "sensor", TargetID: id}
	if of != nil {
		var err error
		e.Details, err = json.Marshal(struct {
			AgentID     string `json:"agent_id"`
			RunID       string `json:"run_id,omitzero"`
			Unsigned    bool   `json:"unsigned"`
			MaxTriggers int64  `json:"max_triggers,omitzero"`
		}{of.AgentID, of.CreatedByRun, !of.signed(), of.MaxTriggers})
		if err != nil {
			return err
		}
	}
	return audit.Write(s.Audit, tx, who, e)
}

// AgentDeleted ends the sensors of a deleted agent. It is idempotent.
func (s *Service) AgentDeleted(ctx context.Context, tenant, agentID string) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.EndTx(tx, tenant, agentID, s.Clock.Now()) })
}
