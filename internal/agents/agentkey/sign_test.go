package agentkey_test

import (
	"crypto/ed25519"
	"testing"

	"agentd/internal/agents/agentkey"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestSignatures(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		who, agent, other := authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Owner}, ident.New(), ident.New()
		keys := agentkey.New(deps, agentkey.Options{AgentTx: func(_ txn.Tx, tenant, id string) error {
			if tenant == who.TenantID && (id == agent || id == other) {
				return nil
			}
			return fault.NewNotFound("agent")
		}})
		said := []byte("The child run may begin.")
		public, signature, err := keys.Sign(ctx, who.TenantID, agent, said)
		if err != nil || !ed25519.Verify(public, said, signature) {
			t.Fatalf("the signature does not fit the key: %v", err)
		}
		if _, _, err := keys.Sign(ctx, who.TenantID, other, said); err != nil { // the other has keys too
			t.Fatal(err)
		}
		if err := keys.Verify(ctx, who.TenantID, agent, said, signature); err != nil {
			t.Errorf("its own signature: %v", err)
		}
		for name, c := range map[string]struct {
			tenant, agent   string
			said, signature []byte
			want            fault.Kind
		}{
			"another payload":   {who.TenantID, agent, []byte("All may begin."), signature, fault.Forbidden},
			"a cut signature":   {who.TenantID, agent, said, signature[:63], fault.Forbidden},
			"no signature":      {who.TenantID, agent, said, nil, fault.Forbidden},
			"another agent":     {who.TenantID, other, said, signature, fault.Forbidden},
			"another company":   {ident.New(), agent, said, signature, fault.NotFound},
			"an unknown agent":  {who.TenantID, ident.New(), said, signature, fault.NotFound},
			"no id of an agent": {who.TenantID, "x", said, signature, fault.NotFound},
		} {
			if err := keys.Verify(ctx, c.tenant, c.agent, c.said, c.signature); !fault.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		if _, _, err := keys.Sign(ctx, ident.New(), agent, said); !fault.Is(err, fault.NotFound) {
			t.Errorf("signed for another company: %v", err)
		}
		if _, err := call(ctx, keys, who, "rotateAgentIdentity", agent); err != nil {
			t.Fatal(err)
		}
		if err := keys.Verify(ctx, who.TenantID, agent, said, signature); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a signature of the pair before: %v", err)
		}
		if _, err := call(ctx, keys, who, "deleteAgentIdentity", agent); err != nil {
			t.Fatal(err)
		}
		if _, _, err := keys.Sign(ctx, who.TenantID, agent, said); !fault.Is(err, fault.NotFound) {
			t.Errorf("signed without an identity: %v", err)
		}
		if err := keys.Verify(ctx, who.TenantID, agent, said, signature); !fault.Is(err, fault.NotFound) {
			t.Errorf("verified without an identity: %v", err)
		}
	})
}
