package bridge

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/agent"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
)

// Connection is a machine as callers see it.
type Connection struct {
	_ struct{} `json:"-" name:"BridgeConnection"`

	AgentID          string          `json:"agent_id" format:"uuid" required:"true" doc:"Its agent."`
	TenantID         string          `json:"tenant_id" required:"true"`
	MachineID        string          `json:"machine_id" required:"true"`
	MachineName      string          `json:"machine_name,omitzero"`
	Capabilities     []string        `json:"capabilities" required:"true"`
	WorkingDirectory string          `json:"working_directory" required:"true"`
	Version          string          `json:"version" required:"true" doc:"Version of the program on the machine."`
	OS               string          `json:"os,omitzero"`
	App              string          `json:"app,omitzero"`
	Hostname         string          `json:"hostname,omitzero"`
	ParentAgentID    string          `json:"parent_agent_id,omitzero" format:"uuid"`
	AttributionOnly  bool            `json:"attribution_only,omitzero"`
	Status           string          `json:"status" enum:"online,stale,offline" required:"true" doc:"By the age of its last sign of life: online for 90 seconds, stale for 5 minutes, then offline."`
	LastHeartbeat    time.Time       `json:"last_heartbeat" required:"true" doc:"Its last sign of life."`
	RegisteredAt     time.Time       `json:"registered_at" required:"true"`
	InstalledSpecs   []InstalledSpec `json:"installed_specs,omitzero"`
	Stats            schema.Object   `json:"stats,omitzero"`
	StatsAt          *time.Time      `json:"stats_at,omitzero" doc:"When it reported its stats."`
}

func (m *Machine) connection(now time.Time) Connection {
	f := &m.Facts
	c := Connection{
		AgentID: m.AgentID, TenantID: m.TenantID, MachineID: m.MachineID, MachineName: f.MachineName, Capabilities: f.Capabilities,
		WorkingDirectory: f.WorkingDirectory, Version: f.Version, OS: f.OS, App: f.App, Hostname: f.Hostname, ParentAgentID: f.ParentAgentID,
		AttributionOnly: f.AttributionOnly, Status: m.Status(now), LastHeartbeat: m.SeenAt, RegisteredAt: m.RegisteredAt,
		InstalledSpecs: f.Specs, Stats: f.Stats,
	}
	if c.Capabilities == nil {
		c.Capabilities = []string{}
	}
	if !f.StatsAt.IsZero() {
		c.StatsAt = &f.StatsAt
	}
	return c
}

func isOnMachine(g *agent.Agent) bool { return g.ExecutionMode == agent.OnMachine }

// connections returns the machines of a tenant whose agents exist, by their last sign of
// life, the latest first.
func (s *Service) connections(ctx context.Context, tenant string) ([]Connection, error) {
	all, err := s.Store.ListMachines(ctx, tenant)
	if err != nil {
		return nil, err
	}
	now, found := s.Clock.Now(), []Connection{}
	for i := range all {
		if all[i].DeletedAt.IsZero() {
			found = append(found, all[i].connection(now))
		}
	}
	slices.SortStableFunc(found, func(a, b Connection) int { return b.LastHeartbeat.Compare(a.LastHeartbeat) })
	return found, nil
}

func (s operations) listRoute(ctx context.Context, who authz.Caller, _ *struct{}) ([]Connection, error) {
	return s.connections(ctx, who.TenantID)
}

type statusOut struct {
	_ struct{} `json:"-" name:"BridgeStatus"`

	Connections   []Connection `json:"connections" required:"true" doc:"The 50 that were seen last."`
	Protocol      int          `json:"protocol_version" required:"true" doc:"Version of the protocol that the platform speaks."`
	Signing       bool         `json:"delegation_signing" required:"true" doc:"Whether decisions about tool calls are signed."`
	Capabilities  []string     `json:"capabilities" required:"true" doc:"What the machines that are online can do."`
	Status        string       `json:"status" enum:"online,stale,offline" required:"true" doc:"That of the machine that was seen last."`
	AgentID       string       `json:"agent_id,omitzero" format:"uuid" doc:"Its agent."`
	LastHeartbeat *time.Time   `json:"last_heartbeat,omitzero" doc:"Its last sign of life."`
}

func (s operations) statusRoute(ctx context.Context, who authz.Caller, _ *struct{}) (statusOut, error) {
	all, err := s.connections(ctx, who.TenantID)
	out := statusOut{Protocol: ProtocolVersion, Signing: true, Capabilities: []string{}, Status: Offline}
	for i := range all {
		if all[i].Status == Online {
			out.Capabilities = append(out.Capabilities, all[i].Capabilities...)
		}
	}
	slices.Sort(out.Capabilities)
	out.Capabilities = slices.Compact(out.Capabilities)
	if len(all) > 0 {
		out.Status, out.AgentID, out.LastHeartbeat = all[0].Status, all[0].AgentID, &all[0].LastHeartbeat
	}
	out.Connections = all[:min(len(all), shownAtOnce)]
	return out, err
}

type (
	deletedMachine struct {
		_ struct{} `json:"-" name:"DeletedMachine"`

		MachineID   string    `json:"machine_id" required:"true"`
		MachineName string    `json:"machine_name,omitzero"`
		AgentID     string    `json:"agent_id" format:"uuid" required:"true" doc:"The agent that was deleted."`
		DeletedAt   time.Time `json:"deleted_at" required:"true"`
	}
	deletedOut struct {
		_ struct{} `json:"-" name:"DeletedMachines"`

		Items []deletedMachine `json:"items" required:"true"`
	}
)

func (s operations) deletedRoute(ctx context.Context, who authz.Caller, _ *struct{}) (deletedOut, error) {
	out := deletedOut{Items: []deletedMachine{}}
	all, err := s.Store.ListMachines(ctx, who.TenantID)
	for i := range all {
		if m := &all[i]; !m.DeletedAt.IsZero() {
			out.Items = append(out.Items, deletedMachine{
				MachineID: m.MachineID, MachineName: m.Facts.MachineName, AgentID: m.AgentID, DeletedAt: m.DeletedAt,
			})
		}
	}
	return out, err
}

func (s operations) forgetRoute(ctx context.Context, who authz.Caller, in *machineIn) (*struct{}, error) {
	return nil, s.Writer.Write(txn.WithAnswer(ctx, func() any { return nil }), func(tx txn.Tx) error {
		m, err := s.Store.LockMachineTx(tx, who.TenantID, in.MachineID)
		if err != nil {
			return err
		}
		if m.DeletedAt.IsZero() {
			return fault.NewNotFound("deleted machine")
		}
		if err := s.Store.DeleteMachineTx(tx, who.TenantID, in.MachineID); err != nil {
			return err
		}
		return s.record(tx, who, "machine.forgotten", m)
	})
}

type specsOut struct {
	_ struct{} `json:"-" name:"BridgeAgentSpecs"`

	AgentID  string           `json:"agent_id" format:"uuid" required:"true"`
	Revision string           `json:"revision" required:"true" doc:"SHA-256 of specs, in hex."`
	Specs    []jsontext.Value `json:"specs" required:"true" doc:"As the agent has them."`
}

func (s operations) specsRoute(ctx context.Context, who authz.Caller, in *specsIn) (out specsOut, err error) {
	if in.AgentID == "" {
		return out, fault.New(fault.Malformed, "INVALID_QUERY", "Say which agent is meant: with agent_id.")
	}
	g, err := s.Agents.Get(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return out, err
	}
	if !isOnMachine(&g) {
		return out, fault.NewNotFound("machine's agent")
	}
	out = specsOut{AgentID: g.ID, Specs: []jsontext.Value{}}
	for _, one := range g.Specs {
		out.Specs = append(out.Specs, jsontext.Value(one))
	}
	body, err := json.Marshal(out.Specs)
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(body)
	out.Revision = hex.EncodeToString(sum[:])
	return out, nil
}

var statNames = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)

// checkCapability returns what is wrong with a report of capabilities.
func checkCapability(in *capabilityIn) (wrong []fault.Field) {
	for i := range in.Body.InstalledSpecs {
		if len(in.Body.InstalledSpecs[i].Tools) > maxSpecTools {
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("installed_specs[%d].tools", i), Message: "it has more than 200 entries"})
		}
	}
	if len(in.Body.Stats) == 0 {
		return wrong
	}
	var stats map[string]jsontext.Value
	if json.Unmarshal(in.Body.Stats, &stats) != nil || len(stats) > maxStats {
		return append(wrong, fault.Field{Field: "stats", Message: "expected an object of at most 32 numbers"})
	}
	for name, value := range stats {
		if !statNames.MatchString(name) || value.Kind() != '0' {
			wrong = append(wrong, fault.Field{Field: "stats", Message: "its names have 1 to 64 of a to z, 0 to 9 and _, its values are numbers"})
			break
		}
	}
	return wrong
}

func (s operations) capabilityRoute(ctx context.Context, who authz.Caller, in *capabilityIn) (capabilityOut, error) {
	out := capabilityOut{Status: "ok", Success: true}
	if wrong := checkCapability(in); wrong != nil {
		return out, fault.BadFields(wrong...)
	}
	if err := byKey(who); err != nil {
		return out, err
	}
	all, err := s.Store.ListMachinesOfAgent(ctx, who.TenantID, in.AgentID)
	if err != nil {
		return out, err
	}
	now := s.Clock.Now()
	return out, s.Writer.Write(txn.WithAnswer(ctx, func() any { return out }), func(tx txn.Tx) error {
		for i := range all {
			m, err := s.Store.LockMachineTx(tx, who.TenantID, all[i].MachineID)
			if fault.Is(err, fault.NotFound) || err == nil && (m.UserID != who.UserID || !m.DeletedAt.IsZero()) {
				continue
			}
			if err != nil {
				return err
			}
			in.into(&m.Facts, now)
			if err := s.Store.UpdateMachineTx(tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// into stores a report of capabilities; what it leaves out stays.
func (in *capabilityIn) into(f *Facts, now time.Time) {
	b := &in.Body
	f.Capabilities = b.Capabilities
	f.WorkingDirectory, f.Hostname = cmp.Or(b.WorkingDirectory, f.WorkingDirectory), cmp.Or(b.Hostname, f.Hostname)
	if b.InstalledSpecs != nil {
		f.Specs = slices.Clone(b.InstalledSpecs)
		for i := range f.Specs {
			spec := &f.Specs[i]
			if len(spec.Error) > maxSpecError {
				spec.Error = strings.ToValidUTF8(spec.Error[:maxSpecError], "")
			}
			if spec.ReportedAt == nil {
				spec.ReportedAt = &now
			}
		}
	}
	if len(b.Stats) > 0 {
		f.Stats, f.StatsAt = b.Stats, now
	}
}

// State is how a machine is, for analytics.
type State struct{ AgentID, Status string }

// States returns how the machines of a tenant are.
func States(ctx context.Context, store Store, tenant string, now time.Time) ([]State, error) {
	all, err := store.ListMachines(ctx, tenant)
	states := make([]State, 0, len(all))
	for i := range all {
		if m := &all[i]; m.DeletedAt.IsZero() {
			states = append(states, State{m.AgentID, m.Status(now)})
		}
	}
	return states, err
}
