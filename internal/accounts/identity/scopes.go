package identity

import (
	"fmt"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/text"
)

const maxScopes = 100

// knownScopes returns the requested scopes without repetitions, and an invalid
// field for each one that does not exist.
func knownScopes(requested []authz.Scope) (scopes []authz.Scope, invalid []fault.Field) {
	if len(requested) > maxScopes {
		message := fmt.Sprintf("has %d scopes; at most %d are allowed", len(requested), maxScopes)
		return nil, []fault.Field{{Field: "scopes", Message: message}}
	}
	scopes = []authz.Scope{}
	for i, s := range requested {
		switch {
		case s != authz.Wildcard && !slices.Contains(authz.Catalogue, s):
			invalid = append(invalid, fault.Field{Field: fmt.Sprintf("scopes[%d]", i), Message: notAScope(s)})
		case !slices.Contains(scopes, s):
			scopes = append(scopes, s)
		}
	}
	return scopes, invalid
}

func notAScope(s authz.Scope) string {
	names := make([]string, len(authz.Catalogue))
	for i, known := range authz.Catalogue {
		names[i] = string(known)
	}
	if near := text.Nearest(string(s), names); near != "" {
		return "is not a scope; did you mean " + near + "?"
	}
	return "is not a scope"
}

// grantable returns the scopes of a key that who creates: the requested ones, if
// who may grant all of them, and for nil the default ones that who holds.
func grantable(who authz.Caller, requested []authz.Scope) ([]authz.Scope, error) {
	if requested == nil {
		return slices.DeleteFunc(slices.Clone(authz.Defaults), func(s authz.Scope) bool { return !who.Has(s) }), nil
	}
	for _, s := range requested {
		if s == authz.Wildcard && (who.Role != authz.Owner || !who.Covers(authz.Owner)) {
			return nil, fault.New(fault.Invalid, "SCOPE_NOT_HELD",
				"Only an owner of the company who holds the scope * may grant it; name the scopes that the key needs.")
		}
		if !who.Has(s) {
			return nil, fault.New(fault.Invalid, "SCOPE_NOT_HELD", "A key cannot grant a scope that it does not hold, and yours does not hold %s.",
				s)
		}
	}
	return requested, nil
}
