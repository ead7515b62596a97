package session_test

import (
	"context"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/session"
	"agentd/internal/execution/session/sessionsql"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// The state of a session changes as a whole or not at all, and by one step once.
func TestSetState(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		store := sessionsql.NewClients(db)
		tenant, id := ident.New(), ident.New()
		put := func(state string) {
			t.Helper()
			err := db.Write(t.Context(), func(tx txn.Tx) error { return store.PutStateTx(tx, tenant, id, jsontext.Value(state), "") })
			if err != nil {
				t.Fatal(err)
			}
		}
		set := session.StateTool(store, db)
		call := func(of, step, patch string) tool.Result {
			t.Helper()
			r, err := set.Run(context.Background(), tool.Call{TenantID: of, SessionID: id, StepID: step, Arguments: `{"patch":` + patch + `}`})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := call(tenant, "s", `[]`); !r.Failed || !strings.Contains(r.Output, "the page of the user sent none") {
			t.Errorf("without a state: %+v", r)
		}
		put(`{"n":1,"all":[]}`)
		const add = `[{"op":"add","path":"/all/-","value":1}]`
		for _, of := range []string{"s1", "s1"} { // the second is the first, repeated after a crash
			if r := call(tenant, of, add); r.Output != `The state is now {"n":1,"all":[1]}` && r.Output != `The state is now {"all":[1],"n":1}` {
				t.Errorf("%+v", r)
			}
		}
		if r := call(ident.New(), "s2", add); !r.Failed {
			t.Errorf("of another company: %+v", r)
		}
		for name, patch := range map[string]string{
			"missing":   `[{"op":"add","path":"/all/-","value":2},{"op":"replace","path":"/none","value":1}]`,
			"test":      `[{"op":"test","path":"/n","value":2},{"op":"remove","path":"/n"}]`,
			"no_patch":  `{"n":2}`,
			"no_op":     `[{"op":"jump","path":"/n"}]`,
			"too_large": `[{"op":"add","path":"/big","value":"` + strings.Repeat("x", session.MaxState) + `"}]`,
			"too_deep":  `[{"op":"add","path":"/deep","value":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]`,
		} {
			if r := call(tenant, "s3", patch); !r.Failed {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got, err := store.GetState(t.Context(), tenant, id); err != nil || !strings.Contains(string(got), `"all":[1]`) || strings.Contains(string(got), "big") {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// What a model or a page makes of a state and a patch ends in a state that fits, or in a
// sentence.
func FuzzPatch(f *testing.F) {
	f.Add(`{"a":[1,2]}`, `{"patch":[{"op":"move","from":"/a/0","path":"/b"}]}`)
	f.Add(`[]`, `{"patch":[{"op":"copy","from":"","path":"/-"},{"op":"copy","from":"","path":"/-"}]}`)
	f.Add(`1`, `{"patch":[{"op":"replace","path":"","value":null}]}`)
	f.Fuzz(func(t *testing.T, state, arguments string) {
		checked, err := session.CheckState("state", jsontext.Value(state))
		if err != nil {
			return
		}
		next, problem := session.ApplyPatch(checked, arguments)
		if problem != "" {
			return
		}
		if again, err := session.CheckState("state", next); err != nil || string(again) != string(next) {
			t.Errorf("%q becomes %q: %v", state, next, err)
		}
	})
}

func TestExternalIDs(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		"a": true, "Ünïcode 聊天": true, strings.Repeat("ä", 128): true, strings.Repeat("x", 129): false, "": false, "  ": false, "a\nb": false, "a\x00": false,
	} {
		if got := session.CheckExternalID(id); (got == "") != ok {
			t.Errorf("%q: %q", id, got)
		}
	}
}
