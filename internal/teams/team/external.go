package team

import (
	"fmt"
	"regexp"
	"slices"

	"agentd/internal/base/fault"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/egress"
)

// The names of workers that are no agents of the company.
var externalName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// noAuth is the type of authorization of an agent that lets everybody in.
const noAuth = "none"

// external reports whether an id is that of a worker that is no agent of the company.
func (t *Team) external(id string) bool {
	return slices.ContainsFunc(t.Workers, func(w Worker) bool { return w.AgentID == id && w.External != nil })
}

// addresses are those that are called for the workers of other systems.
func addresses(t *Team) (all []egress.Address) {
	for i, w := range t.Workers {
		if w.External == nil {
			continue
		}
		at := fmt.Sprintf("workers[%d].external_a2a.", i)
		all = append(all, egress.Address{Field: at + "agent_card_url", URL: w.External.CardURL})
		if w.External.Endpoint != "" {
			all = append(all, egress.Address{Field: at + "endpoint", URL: w.External.Endpoint})
		}
	}
	return all
}

// validateExternal refuses workers of other systems that cannot be reached or named.
func (t *Team) validateExternal() (wrong []fault.Field) {
	add := func(field, message string) { wrong = append(wrong, fault.Field{Field: field, Message: message}) }
	for i, w := range t.Workers {
		at := fmt.Sprintf("workers[%d].", i)
		switch {
		case w.External == nil:
			continue
		case !externalName.MatchString(w.AgentID):
			add(at+"agent_id", "the name of an external worker has letters, digits, dots, _ and - only")
		case t.SupervisorMode == ToolDriven:
			add(at+"external_a2a", "a supervisor that delegates by tool calls has no external workers; set supervisor_mode to auto_dispatch, "+
				"or give the supervisor the tool a2a_send")
		}
		if a := w.External.Auth; a != nil && (a.Type == noAuth) != (a.TokenRef == "") {
			add(at+"external_a2a.auth.token_ref", "every type but none needs the id of a credential, and none has no credential")
		}
	}
	return wrong
}

// checkCredentials looks up the credentials that a write newly names.
func (o Options) checkCredentials(tx txn.Tx, tenant string, old, t *Team) error {
	for i, w := range t.Workers {
		if w.External == nil || w.External.Auth == nil || w.External.Auth.TokenRef == "" {
			continue
		}
		is := *w.External
		if slices.ContainsFunc(old.Workers, func(was Worker) bool { return was.External != nil && sameTarget(was.External, &is) }) {
			continue
		}
		message, err := o.Credential(tx, tenant, is.Auth.TokenRef, is.Auth.Type, is.CardURL)
		if err != nil {
			return err
		}
		if message != "" {
			return fault.BadFields(fault.Field{Field: fmt.Sprintf("workers[%d].external_a2a.auth.token_ref", i), Message: message})
		}
	}
	return nil
}

// sameTarget reports whether a credential is sent to the same address in the same way.
func sameTarget(a, b *External) bool {
	return a.CardURL == b.CardURL && a.Auth != nil && b.Auth != nil && *a.Auth == *b.Auth
}
