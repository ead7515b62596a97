package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/internal/accounts/identity"
	"agentd/internal/accounts/identity/identitysql"
	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/page"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/audit"
	"agentd/internal/store/auditsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rig is a log over a real database.
type rig struct {
	*audit.Log
	t     *testing.T
	db    *sqldb.DB
	clock *clock.Fake
	who   authz.Caller
}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		r := &rig{t: t, db: db, clock: clock.NewFake()}
		r.Log = &audit.Log{Store: auditsql.New(db), Writer: db, Cursors: page.NewCursors(make([]byte, 32)), Clock: r.clock}
		r.who = r.caller(r.tenant("first"))
		test(t, r)
	})
}

func (r *rig) caller(tenant string) authz.Caller {
	return authz.Caller{
		TenantID: tenant, UserID: ident.New(), KeyID: ident.New(), Role: authz.Owner, Scopes: []authz.Scope{authz.Wildcard},
		Method: "api_key", Address: "192.0.2.7", RequestID: "request-1",
	}
}

func (r *rig) tenant(slug string) string {
	r.t.Helper()
	id := ident.New()
	r.write(func(tx txn.Tx) error {
		return identitysql.New(r.db).CreateTenantTx(tx, identity.Tenant{TenantID: id, Name: slug, Slug: slug, Status: identity.Active, Settings: []byte(`{}`)})
	})
	return id
}

func (r *rig) write(do func(txn.Tx) error) {
	r.t.Helper()
	if err := r.db.Write(r.t.Context(), do); err != nil {
		r.t.Fatal(err)
	}
}

// did records something, a second after what was recorded before.
func (r *rig) did(who authz.Caller, action, target string) {
	r.t.Helper()
	r.clock.Advance(time.Second)
	r.write(func(tx txn.Tx) error {
		return r.Record(tx, who, audit.Entry{Action: action, TargetType: "thing", TargetID: target, Details: []byte(`{"a":1}`)})
	})
}

// exec changes the database beside the log.
func (r *rig) exec(query string, args ...any) error {
	return r.db.Write(r.t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
}

// call answers an operation, with its input made by set.
func (r *rig) call(id string, who authz.Caller, set func(in any)) (*audit.Page, error) {
	for _, row := range r.Routes() {
		if row.ID == id {
			return called(r.t.Context(), row, who, set)
		}
	}
	r.t.Fatalf("no operation %s", id)
	return nil, nil
}

func called(ctx context.Context, row route.Route, who authz.Caller, set func(in any)) (*audit.Page, error) {
	in := audit.NewInput(row)
	set(in)
	out, err := row.Call(ctx, who, in)
	return out.(*audit.Page), err
}

func (r *rig) list(who authz.Caller, f audit.ListIn) (*audit.Page, error) {
	return r.call("listAuditEntries", who, func(in any) { *in.(*audit.ListIn) = f })
}

func (r *rig) ofTarget(who authz.Caller, f audit.TargetIn) (*audit.Page, error) {
	return r.call("listAuditEntriesOfTarget", who, func(in any) { *in.(*audit.TargetIn) = f })
}

func actions(t *testing.T, p *audit.Page, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, e := range p.Entries {
		all = append(all, e.Action)
	}
	return all
}

func TestRecordIsWhoAndWhat(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		target := ident.New()
		r.did(r.who, "thing.made", target)
		r.did(authz.Caller{TenantID: r.who.TenantID, SessionID: "session", UserID: r.who.UserID, Method: "cookie"}, "thing.changed", target)
		r.did(authz.Caller{TenantID: r.who.TenantID}, "thing.moved", target)
		got, err := r.list(r.who, audit.ListIn{})
		if err != nil {
			t.Fatal(err)
		}
		at := r.clock.Now()
		common := audit.Record{TenantID: r.who.TenantID, ActorIn: r.who.TenantID, Target: "thing", TargetID: target, Details: []byte(`{"a":1}`)}
		want := []audit.Record{common, common, common}
		want[0].Action, want[0].Method, want[0].At = "thing.moved", audit.System, at
		want[1].Action, want[1].Method, want[1].At = "thing.changed", "cookie", at.Add(-time.Second)
		want[1].UserID, want[1].SessionID = r.who.UserID, "session"
		want[2].Action, want[2].Method, want[2].At = "thing.made", "api_key", at.Add(-2*time.Second)
		want[2].UserID, want[2].KeyID, want[2].Address, want[2].RequestID = r.who.UserID, r.who.KeyID, "192.0.2.7", "request-1"
		if diff := cmp.Diff(want, got.Entries, cmpopts.IgnoreFields(audit.Record{}, "EntryID"), cmpopts.IgnoreUnexported(audit.Record{})); diff != "" {
			t.Error(diff)
		}
		if got.Total != 3 || got.HasMore == nil || *got.HasMore || got.Cursor != "" {
			t.Errorf("%+v", got)
		}
	})
}

func TestNobodyDoesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		err := r.db.Write(t.Context(), func(tx txn.Tx) error { return r.Record(tx, authz.Caller{}, audit.Entry{Action: "x"}) })
		if !fault.Is(err, fault.Internal) {
			t.Error(err)
		}
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		start := r.clock.Now()
		other := r.caller(r.who.TenantID)
		r.did(r.who, "a", "one")   // 1 s
		r.did(other, "b", "two")   // 2 s
		r.did(r.who, "b", "three") // 3 s
		r.did(r.caller(r.tenant("second")), "b", "one")
		second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second).Truncate(time.Second) }
		for name, c := range map[string]struct {
			in   audit.ListIn
			want []string
		}{
			"all":    {audit.ListIn{}, []string{"b", "b", "a"}},
			"own":    {audit.ListIn{TenantID: r.who.TenantID, EntryFilter: audit.EntryFilter{Action: "a"}}, []string{"a"}},
			"action": {audit.ListIn{EntryFilter: audit.EntryFilter{Action: "b"}}, []string{"b", "b"}},
			"none":   {audit.ListIn{EntryFilter: audit.EntryFilter{Action: "c"}}, []string{}},
			"key":    {audit.ListIn{EntryFilter: audit.EntryFilter{ActorID: r.who.KeyID}}, []string{"b", "a"}},
			"member": {audit.ListIn{EntryFilter: audit.EntryFilter{ActorID: other.UserID}}, []string{"b"}},
			"nobody": {audit.ListIn{EntryFilter: audit.EntryFilter{ActorID: ident.New()}}, []string{}},
			"from":   {audit.ListIn{EntryFilter: audit.EntryFilter{From: second(2)}}, []string{"b", "b"}},
			"to":     {audit.ListIn{EntryFilter: audit.EntryFilter{To: second(2)}}, []string{"a"}},
			"both":   {audit.ListIn{EntryFilter: audit.EntryFilter{From: second(2), To: second(3), Action: "b", ActorID: other.KeyID}}, []string{"b"}},
		} {
			p, err := r.list(r.who, c.in)
			if diff := cmp.Diff(c.want, actions(t, p, err)); diff != "" || p.Total != len(c.want) {
				t.Errorf("%s: total %d, %s", name, p.Total, diff)
			}
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var want []string
		for range 5 { // two in the same microsecond
			r.did(r.who, "x", "one")
			r.write(func(tx txn.Tx) error { return r.Record(tx, r.who, audit.Entry{Action: "x", TargetID: "one"}) })
		}
		whole, err := r.ofTarget(r.who, audit.TargetIn{TargetFilter: audit.TargetFilter{TargetID: "one"}})
		if err != nil || whole.HasMore != nil || whole.Cursor != "" || len(whole.Entries) != 10 {
			t.Fatalf("%+v, %v", whole, err)
		}
		for _, e := range whole.Entries {
			want = append(want, e.EntryID)
		}
		walk := func(total int, read func(cursor string) (*audit.Page, error)) (got []string) {
			cursor := ""
			for more := true; more; {
				p, err := read(cursor)
				if err != nil {
					t.Fatal(err)
				}
				if p.Total != total || (p.Cursor != "") != *p.HasMore {
					t.Errorf("total %d, cursor %q, has_more %v", p.Total, p.Cursor, *p.HasMore)
				}
				for _, e := range p.Entries {
					got = append(got, e.EntryID)
				}
				cursor, more = p.Cursor, *p.HasMore
			}
			return got
		}
		got := walk(10, func(cursor string) (*audit.Page, error) {
			return r.list(r.who, audit.ListIn{Limit: "3", Cursor: cursor})
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		got = walk(10, func(cursor string) (*audit.Page, error) {
			r.did(r.who, "x", "two") // what comes meanwhile does not move a page
			return r.ofTarget(r.who, audit.TargetIn{TargetFilter: audit.TargetFilter{TargetID: "one", TargetType: "unknown"}, Limit: "3", Cursor: cursor})
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := r.list(r.who, audit.ListIn{Cursor: "made up"}); !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
		typed, err := r.ofTarget(r.who, audit.TargetIn{TargetFilter: audit.TargetFilter{TargetID: "one", TargetType: "thing"}})
		if len(actions(t, typed, err)) != 5 {
			t.Errorf("%d entries of the type", len(typed.Entries))
		}
	})
}

func TestReadingAnothersLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		theirs := r.caller(r.tenant("second"))
		r.did(theirs, "thing.made", "one")
		for _, tenant := range []string{theirs.TenantID, ident.New(), "nonsense"} {
			if _, err := r.list(r.who, audit.ListIn{TenantID: tenant}); !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s: %v", tenant, err)
			}
		}
		operator := r.who
		operator.Operator = true
		for _, tenant := range []string{ident.New(), "nonsense"} {
			if _, err := r.ofTarget(operator, audit.TargetIn{TenantID: tenant, TargetFilter: audit.TargetFilter{TargetID: "one"}}); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", tenant, err)
			}
		}
		p, err := r.ofTarget(operator, audit.TargetIn{TenantID: theirs.TenantID, TargetFilter: audit.TargetFilter{TargetID: "one"}})
		if diff := cmp.Diff([]string{"thing.made"}, actions(t, p, err)); diff != "" {
			t.Error(diff)
		}
		// Both logs say so; theirs does not name the operator's people.
		own, err := r.list(r.who, audit.ListIn{})
		if diff := cmp.Diff([]string{"audit.cross_tenant_read"}, actions(t, own, err)); diff != "" {
			t.Fatal(diff)
		}
		if e := own.Entries[0]; e.TargetID != theirs.TenantID || e.KeyID != r.who.KeyID || !strings.Contains(string(e.Details), `"target_id":"one"`) {
			t.Errorf("%+v", e)
		}
		told, err := r.list(theirs, audit.ListIn{EntryFilter: audit.EntryFilter{Action: "audit.cross_tenant_read"}})
		if len(actions(t, told, err)) != 1 {
			t.Fatalf("%+v", told)
		}
		if e := told.Entries[0]; e.ActorIn != r.who.TenantID || e.UserID != "" || e.KeyID != "" || e.Address != "" || e.RequestID != "" {
			t.Errorf("%+v", e)
		}
	})
}

// Not even a mistake in a statement of ours changes the log.
func TestDatabaseKeepsTheLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.did(r.who, "thing.made", "one")
		for _, statement := range []string{`UPDATE audit_log SET action = 'x'`, `DELETE FROM audit_log`} {
			if err := r.exec(statement); err == nil || !strings.Contains(err.Error(), "entries of the audit log") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		if err := r.exec(`UPDATE tenants SET status = 'deleted' WHERE tenant_id = ?`, r.who.TenantID); err != nil {
			t.Fatal(err)
		}
		if err := r.exec(`DELETE FROM audit_log`); err != nil {
			t.Error(err)
		}
	})
}
