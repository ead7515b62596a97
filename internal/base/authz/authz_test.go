package authz

import (
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/fault"
)

func TestRolesRise(t *testing.T) {
	t.Parallel()
	rising := []Role{Viewer, Developer, Admin, Owner}
	for i, r := range rising {
		for j, least := range rising {
			if got := r.AtLeast(least); got != (i >= j) {
				t.Errorf("%s at least %s: %t", r, least, got)
			}
		}
		if !r.Valid() {
			t.Errorf("%s is not valid", r)
		}
	}
	for _, r := range []Role{"", "root", "Owner"} {
		if r.Valid() || r.AtLeast(Viewer) {
			t.Errorf("%q is a role", r)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		role   Role
		scopes []Scope
		least  Role
		anyOf  []Scope
		code   string // of the refusal; empty: allowed
	}{
		{"no_scopes_needed", Viewer, nil, "", nil, ""},
		{"has_the_scope", Viewer, []Scope{"runs:read"}, Viewer, []Scope{"runs:read"}, ""},
		{"has_the_other_scope", Viewer, []Scope{"events:read"}, Viewer, []Scope{"runs:read", "events:read"}, ""},
		{"lacks_the_scope", Owner, []Scope{"runs:create"}, Viewer, []Scope{"runs:read"}, "MISSING_SCOPE"},
		{"wildcard_covers", Viewer, []Scope{"*"}, Viewer, []Scope{"runs:read"}, ""},
		{"admin_covers", Viewer, []Scope{"admin"}, Viewer, []Scope{"runs:read"}, ""},
		{"admin_scope_is_no_role", Viewer, []Scope{"admin"}, Admin, nil, "FORBIDDEN"},
		{"role_is_too_low", Viewer, []Scope{"*"}, Developer, []Scope{"runs:create"}, "FORBIDDEN"},
		{"no_role_at_all", "", []Scope{"*"}, Viewer, nil, "FORBIDDEN"},
		{"scope_goes_before_role", Viewer, nil, Admin, []Scope{"runs:read"}, "MISSING_SCOPE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Caller{Role: tt.role, Scopes: tt.scopes}.Check(tt.least, tt.anyOf...)
			switch f := fault.From(err); {
			case tt.code == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.code != "" && (err == nil || f.Code != tt.code || f.Kind != fault.Forbidden):
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

// Scopes are called area:action; those that are not are older than the rule.
func TestScopesAreNamedAlike(t *testing.T) {
	t.Parallel()
	older := []Scope{SuperScope, "read:analytics"}
	for i, row := range scopes {
		area, action, _ := strings.Cut(string(row.scope), ":")
		if !slices.Contains(older, row.scope) && (area == "" || !slices.Contains([]string{"read", "write", "create", "invoke"}, action)) {
			t.Errorf("%s is not called area:read or area:write", row.scope)
		}
		if !row.role.Valid() || action == "read" && row.role != Viewer || action == "write" && row.role == Viewer {
			t.Errorf("%s is for the role %q", row.scope, row.role)
		}
		if i > 0 && row.scope <= scopes[i-1].scope {
			t.Errorf("%s is not in alphabetical order, or is there twice", row.scope)
		}
	}
	for _, s := range Defaults {
		if !slices.Contains(Catalogue, s) || s == "billing:read" {
			t.Errorf("%s is granted by default", s)
		}
	}
}
