package agentkey_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"agentd/internal/agents/agentkey"
	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// call calls an operation on an agent.
func call(ctx context.Context, k *agentkey.Keys, who authz.Caller, id, agent string) (any, error) {
	routes := k.Routes()
	r := routes[slices.IndexFunc(routes, func(r route.Route) bool { return r.ID == id })]
	in := reflect.New(r.In)
	in.Elem().FieldByName("AgentID").SetString(agent)
	return r.Call(ctx, who, in.Interface())
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		deps, _ := resourcetest.Deps(resourcesql.New(db), db)
		who, agent := authz.Caller{TenantID: ident.New(), UserID: "ada", Role: authz.Owner}, ident.New()
		keys := agentkey.New(deps, agentkey.Options{AgentTx: func(_ txn.Tx, tenant, id string) error {
			if tenant == who.TenantID && id == agent {
				return nil
			}
			return fault.NewNotFound("agent")
		}})
		public := func() string {
			t.Helper()
			got, err := call(t.Context(), keys, who, "getAgentIdentity", agent)
			if err != nil {
				t.Fatal(err)
			}
			key := got.(*agentkey.Identity).PublicKey
			if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != ed25519.PublicKeySize || got.(*agentkey.Identity).CreatedAt.IsZero() {
				t.Errorf("%+v %v", got, err)
			}
			return key
		}
		var first [4]string // asked for at once, by callers who make it together
		var all sync.WaitGroup
		for i := range first {
			all.Go(func() { first[i] = public() })
		}
		all.Wait()
		if first[0] != public() || len(slices.Compact(first[:])) != 1 {
			t.Errorf("several keys: %v", first)
		}
		stored, err := resourcesql.New(db).Get(t.Context(), "agent_identity", who.TenantID, agent)
		if err != nil || !strings.Contains(string(stored.Body), first[0]) || strings.Contains(string(stored.Body), `"private_key":""`) {
			t.Errorf("stored as %s, %v", stored.Body, err)
		}
		pair, err := resource.NewStore(agentkey.Pairs, deps).Get(t.Context(), who.TenantID, agent)
		if err != nil {
			t.Fatal(err)
		}
		seed, err := base64.StdEncoding.DecodeString(pair.Private)
		if err != nil || base64.StdEncoding.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)) != first[0] {
			t.Errorf("the private half does not fit: %v", err)
		}
		if strings.Contains(string(stored.Body), pair.Private) {
			t.Error("the private half is stored in clear")
		}
		got, err := call(t.Context(), keys, who, "rotateAgentIdentity", agent)
		if err != nil || got.(*agentkey.Rotated).PublicKey == first[0] || got.(*agentkey.Rotated).PublicKey != public() {
			t.Errorf("rotated: %+v %v", got, err)
		}
		stranger := who
		stranger.TenantID = ident.New()
		for _, id := range []string{"getAgentIdentity", "rotateAgentIdentity", "deleteAgentIdentity"} {
			for agent, caller := range map[string]authz.Caller{agent: stranger, ident.New(): who, "x": who} {
				if _, err := call(t.Context(), keys, caller, id, agent); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s of another's agent: %v", id, err)
				}
			}
		}
		for range 2 {
			if _, err := call(t.Context(), keys, who, "deleteAgentIdentity", agent); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"getAgentIdentity", "rotateAgentIdentity"} {
			if _, err := call(t.Context(), keys, who, id, agent); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s after it was deleted: %v", id, err)
			}
		}
		if err := keys.AgentDeleted(t.Context(), who.TenantID, agent); err != nil {
			t.Fatal(err)
		}
		if _, err := resourcesql.New(db).Get(t.Context(), "agent_identity", who.TenantID, agent); err == nil {
			t.Error("the pair of a deleted agent stayed")
		}
	})
}
