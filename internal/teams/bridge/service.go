package bridge

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/secret"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/audit"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/policy"
	"agentd/internal/kernel/resource"
)

// Signal tells every node that something is there for a machine: its key is the id of an
// agent, or of a task whose approval was decided.
const Signal = "bridge"

// Runs is the port to runs; *run.Service implements it.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Report(ctx context.Context, tenant, id string, do func(*run.Report) error) error
	StreamedText(ctx context.Context, tenant, id string) (run.MachineText, error)
}

// Approvals is the port to decisions about tool calls; run.Store implements it.
type Approvals interface {
	GetApproval(ctx context.Context, tenant, approvalID string) (*run.Approval, error)
}

// Specs is the port to what runs need of agents; run.AgentSource implements it.
type Specs interface {
	Spec(ctx context.Context, tenant, id string, version int64) (*run.AgentSpec, error)
}

// Service serves machines.
type Service struct {
	Store  Store
	Agents *agent.Agents
	Specs  Specs
	Gate   policy.Gate // checks what machines answer
	Writer txn.Writer
	Hub    *event.Hub
	Clock  clock.Clock
	Box    *secret.Box
	Audit  audit.Recorder

	runs      Runs
	approvals Approvals
	bells     bells
}

// Connect sets the runs, which are built after the service because they need it.
func (s *Service) Connect(runs Runs, approvals Approvals) { s.runs, s.approvals = runs, approvals }

// Ring wakes the requests that wait for something for a machine. It is called with the keys
// of Signal.
func (s *Service) Ring(key string) { s.bells.ring(key) }

// Listen returns a channel that receives when something is there for the machines of an
// agent, until stop is called.
func (s *Service) Listen(agentID string) (rang <-chan struct{}, stop func()) {
	return s.bells.listen(agentID)
}

// Join returns the caller's machine, which is there. Errors: NotFound.
func (s *Service) Join(ctx context.Context, who authz.Caller, machineID string) (*Machine, error) {
	m, err := s.machine(ctx, who, machineID, "")
	if err != nil {
		return nil, err
	}
	return m, s.touch(ctx, m)
}

// byKey refuses a caller who is no program with a key of its own.
func byKey(who authz.Caller) error {
	if who.KeyID == "" {
		return fault.New(fault.Forbidden, "", "A machine acts with an API key; a browser session cannot.")
	}
	return nil
}

// machine returns the caller's machine, whose agent must be this one unless it is "".
func (s *Service) machine(ctx context.Context, who authz.Caller, machineID, agentID string) (*Machine, error) {
	if err := byKey(who); err != nil {
		return nil, err
	}
	m, err := s.Store.GetMachine(ctx, who.TenantID, machineID)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, notMachine()
	case err != nil:
		return nil, err
	case m.UserID != who.UserID || agentID != "" && m.AgentID != agentID || !m.DeletedAt.IsZero():
		return nil, notMachine()
	}
	return m, nil
}

// Registration is what a machine registers with.
type Registration struct {
	_ struct{} `json:"-" name:"BridgeRegister"`

	MachineID        string   `json:"machine_id" required:"true" minLength:"1" maxLength:"200" doc:"Id of the machine, of its own choice, that stays the same: a registration with a known one reconnects."`
	Capabilities     []string `json:"capabilities" required:"true" maxItems:"200" maxLength:"200" doc:"What it can do, such as the names of its tools."`
	WorkingDirectory string   `json:"working_directory" required:"true" maxLength:"4096" doc:"The folder that it works in."`
	Version          string   `json:"version" required:"true" maxLength:"100" doc:"Version of the program on the machine."`
	MachineName      string   `json:"machine_name,omitzero" maxLength:"200" doc:"What people call it."`
	AgentName        string   `json:"agent_name,omitzero" maxLength:"200" doc:"Name of its agent, when it is made. Left out: machine_name, or else machine_id."`
	OS               string   `json:"os,omitzero" maxLength:"100" doc:"Its operating system."`
	Protocol         int      `json:"protocol_version,omitzero" minimum:"1" maximum:"1" doc:"Version of the protocol that it speaks; 1, which is also what is assumed."`
	AttributionOnly  bool     `json:"attribution_only,omitzero" doc:"It takes no tasks, and only appears in lists. Kept and shown; has no effect yet."`
	App              string   `json:"app,omitzero" maxLength:"200" doc:"Name of the program on the machine."`
	Description      string   `json:"description,omitzero" maxLength:"2000" doc:"Description of its agent, when it is made: what it does, for those who may delegate to it."`
	ParentAgentID    string   `json:"parent_agent_id,omitzero" format:"uuid" ref:"agent" doc:"The agent of another machine that this one is a part of."`
}

// Registered is the answer of a registration.
type Registered struct {
	_ struct{} `json:"-" name:"BridgeRegistered"`

	AgentID     string `json:"agent_id" format:"uuid" required:"true" doc:"The machine's agent: its runs are the machine's tasks."`
	MachineID   string `json:"machine_id" required:"true"`
	Status      string `json:"status" enum:"online" required:"true"`
	Registered  bool   `json:"registered" required:"true" doc:"Whether the machine is new; false: it has reconnected."`
	ApprovalKey string `json:"approval_key" required:"true" doc:"Key, in hex, of the signatures of approvals for this machine."`
	Heartbeat   int    `json:"heartbeat_seconds" required:"true" doc:"How often it should send a heartbeat."`
}

// Register makes a machine known, with an agent of its own, or takes it back. Tasks that it
// had are offered again. Errors: Gone where a person deleted its agent; Conflict for a machine
// of another member, and where the company has too many; Invalid for the parent.
func (s *Service) Register(ctx context.Context, who authz.Caller, b *Registration) (*Registered, error) {
	if err := byKey(who); err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	m := &Machine{
		TenantID: who.TenantID, MachineID: b.MachineID, AgentID: ident.New(), UserID: who.UserID, RegisteredAt: now, SeenAt: now,
		Facts: Facts{
			MachineName: b.MachineName, OS: b.OS, App: b.App, Version: b.Version, Protocol: cmp.Or(b.Protocol, ProtocolVersion),
			Capabilities: b.Capabilities, WorkingDirectory: b.WorkingDirectory, ParentAgentID: b.ParentAgentID, AttributionOnly: b.AttributionOnly,
		},
	}
	answer := &Registered{MachineID: b.MachineID, Status: Online, Heartbeat: int(HeartbeatEvery / time.Second)}
	answer.ApprovalKey = s.approvalKey(who.TenantID, b.MachineID)
	err := s.Writer.Write(txn.WithAnswer(ctx, func() any { return answer }), func(tx txn.Tx) error {
		fresh, err := s.Store.ClaimTx(tx, m)
		if err != nil {
			return err
		}
		known, err := s.Store.LockMachineTx(tx, who.TenantID, b.MachineID)
		if err != nil {
			return err
		}
		answer.Registered, answer.AgentID = fresh, known.AgentID
		if fresh {
			return s.create(tx, who, known, b)
		}
		return s.reconnect(tx, who, known, m)
	})
	return answer, err
}

// create makes the agent of a machine that is new.
func (s *Service) create(tx txn.Tx, who authz.Caller, m *Machine, b *Registration) error {
	n, err := s.Store.CountMachinesTx(tx, who.TenantID)
	if err != nil {
		return err
	}
	if n > MaxMachines {
		return fault.New(fault.Conflict, "limit_reached",
			"Your company has %d machines, which is the limit. Delete the agents of those that are gone, and forget the machines.", MaxMachines)
	}
	store := s.Agents.Store()
	g := store.Blank()
	g.ID, g.OfMachine, g.ExecutionMode = m.AgentID, true, agent.OnMachine
	g.Name, g.Description = cmp.Or(strings.TrimSpace(b.AgentName), strings.TrimSpace(b.MachineName), b.MachineID), b.Description
	if b.ParentAgentID != "" {
		if g.Metadata, err = s.lineage(tx, who, b.ParentAgentID); err != nil {
			return err
		}
	}
	return store.CreateTx(tx, who, g)
}

// lineage makes an agent a part of that of another machine.
func (s *Service) lineage(tx txn.Tx, who authz.Caller, parent string) (schema.Object, error) {
	g, err := s.Agents.Store().GetTx(tx, who.TenantID, parent)
	if fault.Is(err, fault.NotFound) || err == nil && (g.ExecutionMode != agent.OnMachine || g.Lineage().ParentID != "") {
		return nil, fault.BadFields(fault.Field{
			Field: "parent_agent_id", Message: "it is none of your company's agents that a machine has registered for itself",
		})
	}
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(agent.Lineage{ParentID: parent, Depth: 1, SpawnedBy: who.UserID})
	return schema.Object(metadata), err
}

// reconnect takes a known machine back.
func (s *Service) reconnect(tx txn.Tx, who authz.Caller, known, now *Machine) error {
	if known.UserID != who.UserID {
		return fault.New(fault.Conflict, "MACHINE_TAKEN",
			"A machine with this id is registered by another member of your company. Choose another machine_id, or use that member's key.")
	}
	_, err := s.Agents.Store().GetTx(tx, who.TenantID, known.AgentID)
	if !known.DeletedAt.IsZero() || fault.Is(err, fault.NotFound) {
		return fault.New(fault.Gone, "agent_deleted", "The machine's agent was deleted, so that the machine stays out. "+
			"To let it in again, forget it with DELETE /api/v1/bridge/deleted-machines/{machine_id}, or register it with another machine_id.")
	}
	if err != nil {
		return err
	}
	facts := now.Facts
	facts.Hostname, facts.Specs, facts.Stats, facts.StatsAt = known.Facts.Hostname, known.Facts.Specs, known.Facts.Stats, known.Facts.StatsAt
	facts.ParentAgentID = known.Facts.ParentAgentID
	known.Facts, known.SeenAt, known.LeftAt = facts, now.SeenAt, time.Time{}
	if err := s.Store.UpdateMachineTx(tx, known); err != nil {
		return err
	}
	if err := s.Store.OfferAllTx(tx, who.TenantID, known.AgentID); err != nil {
		return err
	}
	tx.AfterCommit(func() { s.Hub.Signal(Signal, known.AgentID) })
	return nil
}

// Seen stores a sign of life of the caller's machine. Errors: NotFound where it is not
// registered, or has deregistered.
func (s *Service) Seen(ctx context.Context, who authz.Caller, machineID, agentID string) error {
	m, err := s.machine(ctx, who, machineID, agentID)
	if err != nil {
		return err
	}
	return s.touch(ctx, m)
}

// touchEvery bounds how often a sign of life is stored.
const touchEvery = 10 * time.Second

func (s *Service) touch(ctx context.Context, m *Machine) error {
	now := s.Clock.Now()
	if m.LeftAt.IsZero() && now.Sub(m.SeenAt) < touchEvery {
		return nil
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		there, err := s.Store.UpdateSeenTx(tx, m.TenantID, m.MachineID, now)
		if err == nil && !there {
			err = notMachine()
		}
		return err
	})
}

// Deregister stores that the caller's machines with this id, or of this agent, leave. What
// they work on waits for their return.
func (s *Service) Deregister(ctx context.Context, who authz.Caller, machineID, agentID string) error {
	var ids []string
	if machineID != "" {
		ids = []string{machineID}
	} else {
		found, err := s.Store.ListMachinesOfAgent(ctx, who.TenantID, agentID)
		if err != nil {
			return err
		}
		for i := range found {
			ids = append(ids, found[i].MachineID)
		}
	}
	return s.Writer.Write(ctx, func(tx txn.Tx) error {
		for _, id := range ids {
			m, err := s.Store.LockMachineTx(tx, who.TenantID, id)
			if fault.Is(err, fault.NotFound) || err == nil && (m.UserID != who.UserID || agentID != "" && m.AgentID != agentID) {
				continue
			}
			if err != nil {
				return err
			}
			if !m.LeftAt.IsZero() {
				continue
			}
			m.LeftAt = s.Clock.Now()
			if err := s.Store.UpdateMachineTx(tx, m); err != nil {
				return err
			}
			if err := s.record(tx, who, "machine.deregistered", m); err != nil {
				return err
			}
		}
		return nil
	})
}

// record writes an entry about a machine into the audit log.
func (s *Service) record(tx txn.Tx, who authz.Caller, action string, m *Machine) error {
	details, err := json.Marshal(map[string]string{"agent_id": m.AgentID}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return audit.Write(s.Audit, tx, who, audit.Entry{Action: action, TargetType: "machine", TargetID: m.MachineID, Details: details})
}

// AgentDeleted keeps the machines of a deleted agent out. It may be called again.
func (s *Service) AgentDeleted(ctx context.Context, c resource.Change) error {
	return s.Writer.Write(ctx, func(tx txn.Tx) error { return s.Store.UpdateDeletedTx(tx, c.TenantID, c.ID, s.Clock.Now()) })
}
