package integration

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/kernel/resource"
)

// The statuses of an integration.
const (
	statusActive   = "active"   // the last connection or call worked
	statusInactive = "inactive" // switched off, or not authorized yet
	statusError    = "error"    // the last connection or call failed
)

// maxIntegrations is how many integrations a tenant may have; a list returns them all.
const maxIntegrations = 200

// Integration is an integration as it is stored. Clients receive a view.
type Integration struct {
	resource.Meta `json:"-"`

	ConnectorID string         `json:"connector_id"`
	Name        string         `json:"name"`
	Config      jsontext.Value `json:"config"`                // an object, without the secrets
	Secrets     string         `json:"secrets" secret:"true"` // a JSON object of texts
	Metadata    schema.Object  `json:"metadata"`
	Assigned    []string       `json:"assigned_agent_ids"`
	Enabled     bool           `json:"enabled"`
	NeedsAuth   bool           `json:"needs_auth"` // a person must authorize it
	Failure     string         `json:"failure"`    // of the last connection or call; "" if it worked
	FailedAt    *time.Time     `json:"failed_at,omitzero"`
	LastSync    *time.Time     `json:"last_sync_at,omitzero"`
	Tools       int            `json:"tool_count"`
	Operations  int            `json:"operation_count"`  // of the OpenAPI document
	Account     string         `json:"account,omitzero"` // origin of the token that a person authorized
}

func (v *Integration) status() string {
	switch {
	case !v.Enabled || v.NeedsAuth:
		return statusInactive
	case v.Failure != "":
		return statusError
	}
	return statusActive
}

// values returns the config with the secrets.
func (v *Integration) values() map[string]any {
	all := map[string]any{}
	if len(v.Config) > 0 && json.Unmarshal(v.Config, &all) != nil {
		return map[string]any{} // agentd wrote it; an unreadable value counts as absent
	}
	for name, text := range v.secrets() {
		all[name] = text
	}
	return all
}

func (v *Integration) secrets() map[string]string {
	var all map[string]string
	if v.Secrets == "" || json.Unmarshal([]byte(v.Secrets), &all) != nil {
		return map[string]string{}
	}
	return all
}

// Health is how the last connection or call of an integration went.
type Health struct {
	_ struct{} `json:"-" name:"IntegrationHealth"`

	State    string     `json:"state" required:"true" enum:"ok,failing,unknown" doc:"unknown: nothing was called yet."`
	Message  string     `json:"message,omitzero" doc:"Why it fails, and what to do."`
	FailedAt *time.Time `json:"failed_at,omitzero" doc:"Since when it fails."`
}

func (v *Integration) health() Health {
	switch {
	case v.Failure != "":
		return Health{State: "failing", Message: v.Failure, FailedAt: v.FailedAt}
	case v.LastSync != nil:
		return Health{State: "ok"}
	}
	return Health{State: "unknown"}
}

// Common is what both views of an integration have. It is exported so that the published
// schemas have its fields.
type Common struct {
	ID           string        `json:"id" required:"true" format:"uuid"`
	TenantID     string        `json:"tenant_id" required:"true"`
	ConnectorID  string        `json:"connector_id" required:"true" doc:"The connector, as in the catalogue."`
	Name         string        `json:"name" required:"true"`
	Config       schema.Object `json:"config" required:"true" doc:"Settings of the connector. Secrets are [stored]."`
	Enabled      bool          `json:"enabled" required:"true"`
	Status       string        `json:"status" required:"true" enum:"active,inactive,error" doc:"inactive: switched off, or a person must authorize it first. error: the last connection or call failed."`
	Health       Health        `json:"health" required:"true"`
	LastSync     *time.Time    `json:"last_sync_at" required:"true" nullable:"true" doc:"Time of the last connection that worked."`
	ConnectError string        `json:"connect_error,omitzero" doc:"Why the last connection failed. The integration is saved nevertheless."`
	Metadata     schema.Object `json:"metadata" required:"true"`
	Assigned     []string      `json:"assigned_agent_ids" required:"true" doc:"The agents that get its tools."`
	Tools        int           `json:"tool_count" required:"true" doc:"How many tools it offers to agents."`
	Operations   int           `json:"operation_count,omitzero" doc:"How many operations its OpenAPI document has."`
	CreatedAt    time.Time     `json:"created_at" required:"true"`
	UpdatedAt    time.Time     `json:"updated_at" required:"true"`
}

// view is an integration as clients receive it, without secrets.
type view struct {
	_ struct{} `json:"-" name:"Integration"`

	Common
}

// agentView is an integration of one agent.
type agentView struct {
	_ struct{} `json:"-" name:"AgentIntegration"`

	AgentID string `json:"agent_id" required:"true" format:"uuid"`
	Common
}

// Editable implements route.Editable.
func (v view) Editable() any {
	v.Status, v.Health, v.LastSync, v.ConnectError, v.Tools, v.Operations, v.UpdatedAt = "", Health{}, nil, "", 0, 0, time.Time{}
	return v.Common
}

func viewOf(v *Integration) view {
	return view{Common: Common{
		ID: v.ID, TenantID: v.TenantID, ConnectorID: v.ConnectorID, Name: v.Name, Config: v.shownConfig(), Enabled: v.Enabled,
		Status: v.status(), Health: v.health(), LastSync: v.LastSync, ConnectError: v.Failure, Metadata: v.Metadata,
		Assigned: nonNil(v.Assigned), Tools: v.Tools, Operations: v.Operations, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
	}}
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// stored stands for a secret, and for a document that was sent inline.
const stored = "[stored]"

func (v *Integration) shownConfig() schema.Object {
	all := map[string]any{}
	if len(v.Config) > 0 {
		_ = json.Unmarshal(v.Config, &all) // agentd wrote it
	}
	for name := range v.secrets() {
		all[name] = stored
	}
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return nil
	}
	return schema.Object(text)
}

// kind configures the kernel's store of integrations. Its routes are not mounted,
// because no client may see what is stored.
func (s *core) kind() resource.Kind[Integration] {
	return resource.Kind[Integration]{
		Name: "integration", Noun: "Integration", Path: collection, IDField: "id", Param: "integrationId", Tag: "Integrations",
		Readers: resource.Access{Scopes: []authz.Scope{"agents:read"}},
		Writers: resource.Access{Scopes: []authz.Scope{"agents:write"}, Role: authz.Admin},
		Default: func(v *Integration) {
			v.Enabled, v.Assigned, v.Config = true, []string{}, jsontext.Value("{}")
		},
		Label:  func(v *Integration) string { return v.Name },
		Before: s.before,
		After:  s.after,
	}
}

func (s *core) before(e *resource.Edit[Integration]) error {
	if e.Old != nil {
		return nil
	}
	existing, err := s.store.ListTx(e.Tx, e.Who.TenantID, resource.Find{Limit: maxIntegrations})
	if err == nil && len(existing) >= maxIntegrations {
		err = fault.New(fault.Invalid, "limit_reached", "A company can have at most %d integrations; delete one first.", maxIntegrations)
	}
	return err
}

// after makes a change effective on every node, and forgets what a deleted
// integration kept.
func (s *core) after(e *resource.Edit[Integration]) error {
	v := e.Old
	if v == nil {
		v = e.New
	}
	tenant, id := v.TenantID, v.ID
	if e.New == nil {
		if err := s.vault.DeleteTx(e.Tx, tenant, id); err != nil {
			return err
		}
		if err := s.Documents.DeleteTx(e.Tx, tenant, id); err != nil {
			return err
		}
	}
	e.Tx.AfterCommit(func() {
		s.recent.Forget(tenant)
		if s.OnChange != nil {
			s.OnChange(tenant)
		}
	})
	return nil
}
