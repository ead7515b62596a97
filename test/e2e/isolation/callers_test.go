package isolation

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
)

// caller is somebody of the intruding company: a role, and a key with all
// scopes, with all but those of an operation, or with one of them alone.
type caller struct {
	name string
	role authz.Role
	key  func(op *contracttest.Operation) string // "": the operation has no scopes
	lack bool                                    // of every scope of the operation
}

// callersOf are one for each role, and two for what keys carry.
func callersOf(c *contracttest.Company) (all []caller) {
	c.T.Helper()
	made := map[string]string{}
	beside := c.Admin()
	key := func(role authz.Role, scopes ...authz.Scope) string {
		name := string(role)
		for _, s := range scopes {
			name += " " + string(s)
		}
		if made[name] == "" {
			made[name] = string(beside.CreateKey(c.TenantID(), role, scopes...).RawKey)
		}
		return made[name]
	}
	for _, role := range allRoles {
		all = append(all, caller{name: string(role), role: role, key: func(*contracttest.Operation) string { return key(role, authz.Wildcard) }})
	}
	return append(all,
		caller{name: "all_other_scopes", role: authz.Owner, lack: true, key: func(op *contracttest.Operation) string {
			if len(op.Scopes) == 0 {
				return ""
			}
			return key(authz.Owner, without(op.Scopes)...)
		}},
		caller{name: "only_its_scope", role: authz.Owner, key: func(op *contracttest.Operation) string {
			if len(op.Scopes) == 0 {
				return ""
			}
			return key(authz.Owner, op.Scopes[len(op.Scopes)-1])
		}})
}

// others calls an operation on another company's resource with every caller of
// the intruding company: callers without permission get only that refusal,
// callers with permission get not found.
func (in intruder) others(callers []caller) {
	if in.op.Public || len(in.op.PathParams) == 0 {
		return // TestGate asks the others without any thing
	}
	for _, who := range callers {
		key := who.key(in.op)
		if key == "" || moreScopes[in.op.ID] != "" && strings.HasPrefix(who.name, "only") {
			continue
		}
		in.Run(who.name, func(t *testing.T) {
			as := in
			as.T, as.theirs, as.mine = t, in.theirs.WithT(t), in.mine.WithT(t)
			k := as.mine.OwnCall(as.op) // made by the owner
			as.mine.Server = as.mine.WithKey(key)
			as.mine.T = t
			for _, p := range as.op.PathParams {
				if contracttest.PlainParameters[p] || len(as.theirs.IDs[p]) == 0 {
					continue
				}
				own := k.Path[p]
				as.refused(k, who, p)
				k.Path[p] = own
			}
		})
	}
}

// refused requests another company's resource as one caller and checks the
// refusal.
func (in intruder) refused(k *contracttest.Call, who caller, p string) {
	in.Helper()
	id := in.theirs.IDs[p][0]
	set := func(id string) { k.Path[p] = id }
	status, code := 403, "MISSING_SCOPE"
	var says string
	switch {
	case who.lack:
		says = string(in.op.Scopes[0])
	case in.op.Role != "" && !who.role.AtLeast(in.op.Role):
		code, says = "FORBIDDEN", "role "+string(in.op.Role)
	default:
		in.absent(k, id, in.statusOf(p, 404), set)
		return
	}
	got := in.alike(k, id, set)
	in.op.CheckRefusal(in.T, got, status, code)
	if !strings.Contains(string(got.Body), says) {
		in.Errorf("%s does not say %q to %s: %s", in.op, says, who.name, got.Body)
	}
	if slices.Contains(in.secrets.in(string(got.Body)), id) {
		in.Errorf("%s names the thing to somebody who may not call: %s", in.op, got.Body)
	}
}
