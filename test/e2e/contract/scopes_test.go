package contract

import (
	"slices"
	"testing"

	"agentd/internal/app/apptest"
	"agentd/internal/app/apptest/contracttest"
	"agentd/internal/base/authz"
)

// What the table and the recipes name is there.
func TestEveryScopeCanBeGranted(t *testing.T) {
	t.Parallel()
	operations := contracttest.Operations(apptest.Start(t, nil))
	for id := range contracttest.Recipes {
		if !slices.ContainsFunc(operations, func(op *contracttest.Operation) bool { return op.ID == id }) {
			t.Errorf("Recipes in internal/app/apptest/contracttest/recipes.go has %s, which is no operation", id)
		}
	}
	for _, op := range operations {
		for _, scope := range slices.Concat(op.Scopes, op.And) {
			if !slices.Contains(authz.Catalogue, scope) {
				t.Errorf("%s asks for %s, which nobody can grant", op, scope)
			}
		}
	}
}
