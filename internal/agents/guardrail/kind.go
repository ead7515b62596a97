package guardrail

import (
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/egress"
	"agentd/internal/kernel/resource"
)

func (a *Guardrails) kind() resource.Kind[Guardrail] {
	return resource.Kind[Guardrail]{
		Name: "guardrail", Path: "/api/v1/guardrails", Tag: "Guardrails",
		Readers:   resource.Access{Scopes: []authz.Scope{"guardrails:read"}},
		Writers:   resource.Access{Scopes: []authz.Scope{"guardrails:write"}, Role: authz.Admin},
		Put:       resource.PutMerges,
		Validate:  a.validate,
		Label:     func(g *Guardrail) string { return g.Name },
		Addresses: addresses,
		Before:    a.before,
		After:     a.after,
	}
}

// validate returns the invalid fields of g in its normalized form; g is unchanged.
func (a *Guardrails) validate(g *Guardrail) []fault.Field {
	normalized := *g
	if errs := normalized.normalize(nil); errs != nil && g.Version == 0 {
		return errs
	}
	return a.check(&normalized)
}

// check returns the invalid fields of a normalized guardrail.
func (a *Guardrails) check(g *Guardrail) []fault.Field {
	var errs []fault.Field
	add := func(field, message string) { errs = append(errs, fault.Field{Field: field, Message: message}) }
	if strings.TrimSpace(g.Name) == "" {
		add("name", "must not be blank")
	}
	if g.Stage == "" {
		add("phase", "required, as phase or as stage, its other name")
	}
	switch {
	case g.Kind == "":
		add("kind", "required but missing")
	case g.Kind == Webhook && g.WebhookURL == "":
		add("webhook_url", "required but missing")
	case g.Kind == Webhook:
		if err := a.options.CheckURL(g.WebhookURL); err != nil {
			add("webhook_url", fault.From(err).Detail)
		}
	}
	if g.Kind != Webhook && g.WebhookURL != "" {
		add("webhook_url", "only allowed for the kind webhook")
	}
	if g.Kind != Webhook && g.Secret != "" {
		add("secret", "only allowed for the kind webhook")
	}
	if g.TimeoutMS < 0 || g.TimeoutMS > 60_000 {
		add("timeout_ms", "expected 1 to 60000") // it may come from the config
	}
	if g.Kind != "" {
		if _, invalid := a.compile(g, g.Config); invalid != nil {
			errs = append(errs, invalid...)
		}
	}
	return errs
}

// addresses returns the URL that a guardrail calls, wherever a body has it.
func addresses(g *Guardrail) []egress.Address {
	normalized := *g
	if errs := normalized.normalize(nil); errs != nil && g.Version == 0 || normalized.WebhookURL == "" {
		return nil
	}
	return []egress.Address{{Field: "webhook_url", URL: normalized.WebhookURL}}
}

// before normalizes what is stored. Contradictions within a body can be detected
// only in comparison with the stored guardrail.
func (a *Guardrails) before(e *resource.Edit[Guardrail]) error {
	if errs := e.New.normalize(e.Old); errs != nil {
		return fault.BadFields(errs...)
	}
	if errs := a.check(e.New); errs != nil {
		return fault.BadFields(errs...)
	}
	if e.Old != nil {
		return nil
	}
	all, err := a.store.ListTx(e.Tx, e.Who.TenantID, resource.Find{Limit: MaxGuardrails})
	if err != nil {
		return err
	}
	if len(all) >= MaxGuardrails {
		return fault.New(fault.Invalid, "limit_reached", "A company can have at most %d guardrails; delete one first.", MaxGuardrails)
	}
	return nil
}

// after drops the cached guardrail when the write has committed.
func (a *Guardrails) after(e *resource.Edit[Guardrail]) error {
	g := e.New
	if g == nil {
		g = e.Old
	}
	tenant, id := g.TenantID, g.ID
	e.Tx.AfterCommit(func() { a.recent.Forget(tenant, id) })
	return nil
}

// prefixFields prefixes the paths of nested fields.
func prefixFields(name string, fields []fault.Field) []fault.Field {
	for i, f := range fields {
		fields[i] = f.Under(name)
	}
	return fields
}
