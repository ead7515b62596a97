package authz

import (
	"slices"
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

// The expected catalogue is written out a second time, so that no scope is added or lost unnoticed.
func TestCatalogueIsWhole(t *testing.T) {
	t.Parallel()
	want := []Scope{"admin", "billing:read", "events:read", "marketplace:invoke", "read:analytics", "runs:create", "runs:read", "search:read", "tenants:write"}
	for _, area := range []Scope{"agents", "api_keys", "evaluations", "files", "guardrails", "marketplace", "memory", "notifications", "sessions", "users", "webhooks"} {
		want = append(want, area+":read", area+":write")
	}
	got := slices.Sorted(slices.Values(Catalogue))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("catalogue:\n%v\nwant\n%v", got, want)
	}
	for _, s := range Defaults {
		if !slices.Contains(Catalogue, s) || s == "billing:read" {
			t.Errorf("%s is granted by default", s)
		}
	}
}
