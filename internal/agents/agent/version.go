package agent

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/authz"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/resource"
)

// versions records the configuration of an agent with every change.
var versions = resource.Versions[Agent]{
	Config:    func(g *Agent) any { return &g.Config },
	Number:    func(g *Agent) *string { return &g.VersionNo },
	Changelog: func(g *Agent) *string { return &g.Changelog },
	Keep:      50,
	Keys:      []string{"versions"},
}

// GetVersion reads a recorded configuration. Errors: fault.NotFound, also
// where the version is too old to be kept.
func (a *Agents) GetVersion(ctx context.Context, tenant, id string, number int64) (resource.Version, error) {
	return a.store.GetVersion(ctx, tenant, id, number)
}

// CheckRollback refuses a rollback to a version whose addresses the company may not
// reach any more, or that is not kept: fault.NotFound.
func (a *Agents) CheckRollback(ctx context.Context, tenant, id string, number int64) error {
	return a.store.CheckRollback(ctx, tenant, id, number)
}

// RollbackTx sets the configuration of an agent that is at one version to that of another,
// and returns the number of the version that this makes; 0 if it is at another by now. Errors:
// fault.NotFound.
func (a *Agents) RollbackTx(tx txn.Tx, who authz.Caller, id string, from, to int64) (int64, error) {
	return a.store.RollbackTx(tx, who, id, from, to)
}

// Patch changes a configuration as a merge patch of its agent would; nothing is stored.
// Errors: fault.Malformed; fault.Invalid for one that no agent may have.
func (a *Agents) Patch(config *Config, patch jsontext.Value) error {
	g := &Agent{Config: *config}
	if err := a.store.Patch(g, patch); err != nil {
		return err
	}
	*config = g.Config
	return nil
}

// rememberProviders notes which provider serves a model that is newly named.
func (o Options) rememberProviders(e *resource.Edit[Agent]) {
	if e.New == nil || o.ProviderOf == nil {
		return
	}
	old := &Agent{}
	if e.Old != nil {
		old = e.Old
	}
	e.New.ModelProvider = o.providerOf(&e.New.Model, &old.Model, old.ModelProvider)
	e.New.FallbackProvider = o.providerOf(e.New.Fallback, old.Fallback, old.FallbackProvider)
}

func (o Options) providerOf(m, was *ModelConfig, remembered string) string {
	switch {
	case m == nil || m.EndpointURL != "" || m.APIKeyRef != "" || m.Provider != model.OpenAICompat:
		return ""
	case was != nil && m.ModelRef == was.ModelRef && m.Provider == was.Provider && was.EndpointURL == "" && was.APIKeyRef == "":
		return remembered
	}
	return o.ProviderOf(m.ModelRef)
}

// setStatusTime notes when the status changed. An active agent has no reason
// for its status.
func (a *Agents) setStatusTime(e *resource.Edit[Agent]) error {
	if e.Old == nil || e.Old.Status == e.New.Status {
		return nil
	}
	now := a.deps.Clock.Now()
	e.New.StatusChangedAt = &now
	if e.New.Status == Active {
		e.New.StatusReason, e.New.StatusReasonCode = "", ""
	}
	return nil
}

// after keeps what depends on an agent in step with it.
func (a *Agents) after(e *resource.Edit[Agent]) error {
	if e.Old != nil {
		tenant, id := e.Old.TenantID, e.Old.ID
		e.Tx.AfterCommit(func() { a.recent.Forget(tenant, id) })
	}
	if err := a.publish(e); err != nil {
		return err
	}
	return a.assignWorkspace(e)
}
