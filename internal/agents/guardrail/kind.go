package guardrail

import (
	"fmt"
	"strings"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/kernel/resource"
)

func (a *Guardrails) kind() resource.Kind[Guardrail] {
	return resource.Kind[Guardrail]{
		Name: "guardrail", Path: "/api/v1/guardrails", Tag: "Guardrails",
		Readers:  resource.Access{Scopes: []authz.Scope{"guardrails:read"}},
		Writers:  resource.Access{Scopes: []authz.Scope{"guardrails:write"}, Role: authz.Admin},
		Put:      resource.PutMerges,
		Validate: a.validate,
		Label:    func(g *Guardrail) string { return g.Name },
		Before:   a.before,
		After:    a.after,
	}
}

// validate judges the guardrail that settling would make of g, and leaves g
// alone.
func (a *Guardrails) validate(g *Guardrail) []fault.Field {
	settled := *g
	if wrong := settled.normalize(nil); wrong != nil && g.Version == 0 {
		return wrong
	}
	return a.check(&settled)
}

// check gives everything that is wrong with a settled guardrail.
func (a *Guardrails) check(g *Guardrail) []fault.Field {
	var wrong []fault.Field
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	if strings.TrimSpace(g.Name) == "" {
		add("name", "it is blank")
	}
	if g.Stage == "" {
		add("stage", "required but missing")
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
		add("webhook_url", "only a guardrail of kind webhook has one")
	}
	if g.Kind != Webhook && g.Secret != "" {
		add("secret", "only a guardrail of kind webhook has one")
	}
	if g.TimeoutMS < 0 || g.TimeoutMS > 60_000 {
		add("timeout_ms", "expected 1 to 60000") // it may have come in the config
	}
	if g.Kind != "" {
		if _, bad := a.compile(g, g.Config); bad != nil {
			wrong = append(wrong, bad...)
		}
	}
	return wrong
}

// before settles what is stored. What the body says against itself shows only
// beside what was there.
func (a *Guardrails) before(e *resource.Edit[Guardrail]) error {
	if wrong := e.New.normalize(e.Old); wrong != nil {
		return fault.BadFields(wrong...)
	}
	if wrong := a.check(e.New); wrong != nil {
		return fault.BadFields(wrong...)
	}
	if e.Old != nil {
		return nil
	}
	all, err := a.store.ListTx(e.Tx, e.Who.TenantID, resource.Find{Limit: MaxGuardrails})
	if err != nil {
		return err
	}
	if len(all) >= MaxGuardrails {
		return fault.New(fault.Invalid, "limit_reached", "There are %d guardrails already, which is the most; delete one that is not needed.", MaxGuardrails)
	}
	return nil
}

// after has what is known of the guardrail forgotten once the write is durable.
func (a *Guardrails) after(e *resource.Edit[Guardrail]) error {
	g := e.New
	if g == nil {
		g = e.Old
	}
	tenant, id := g.TenantID, g.ID
	e.Tx.AfterCommit(func() { a.recent.Forget(tenant, id) })
	return nil
}

// prefixFields puts the fields of something inside under its name.
func prefixFields(name string, fields []fault.Field) []fault.Field {
	for i, f := range fields {
		switch {
		case f.Field == "body":
			fields[i].Field = name
		default:
			fields[i].Field = fmt.Sprintf("%s.%s", name, f.Field)
		}
	}
	return fields
}
