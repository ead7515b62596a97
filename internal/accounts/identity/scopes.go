package identity

import (
	"fmt"
	"slices"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
)

const (
	mostScopes  = 100
	mostNameLen = 200 // characters, of a name or an email address
)

// knownScopes gives the scopes without repetitions, and every one that the
// catalogue does not have.
func knownScopes(asked []authz.Scope) (scopes []authz.Scope, wrong []fault.Field) {
	if len(asked) > mostScopes {
		return nil, []fault.Field{{Field: "scopes", Message: fmt.Sprintf("holds %d scopes; at most %d are allowed", len(asked), mostScopes)}}
	}
	scopes = []authz.Scope{}
	for i, s := range asked {
		switch {
		case s != authz.Wildcard && !slices.Contains(authz.Catalogue, s):
			wrong = append(wrong, fault.Field{Field: fmt.Sprintf("scopes[%d]", i), Message: "is not a scope"})
		case !slices.Contains(scopes, s):
			scopes = append(scopes, s)
		}
	}
	return scopes, wrong
}

// grantable gives the scopes of a key that who makes: what was asked, if who
// may grant all of that; where nothing was asked (nil), the defaults narrowed
// to what who holds (interface.md section 5, points 6 and 7).
func grantable(who authz.Caller, asked []authz.Scope) ([]authz.Scope, error) {
	if asked == nil {
		return slices.DeleteFunc(slices.Clone(authz.Defaults), func(s authz.Scope) bool { return !who.Has(s) }), nil
	}
	for _, s := range asked {
		if s == authz.Wildcard && who.Role != authz.Owner {
			return nil, fault.New(fault.Invalid, "SCOPE_NOT_HELD", "Only an owner of the company may grant the scope *; name the scopes that the key needs.")
		}
		if !who.Has(s) {
			return nil, fault.New(fault.Invalid, "SCOPE_NOT_HELD", "A key cannot grant what it does not hold, and yours does not hold %s.", s)
		}
	}
	return asked, nil
}
