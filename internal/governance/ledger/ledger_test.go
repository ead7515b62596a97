package ledger_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/route"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// rig is a ledger over a real database.
type rig struct {
	*ledger.Ledger
	t  *testing.T
	db *sqldb.DB
}

var who = authz.Caller{TenantID: "acme", Role: authz.Viewer}

func each(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		key := ed25519.NewKeyFromSeed(make([]byte, 32))
		test(t, &rig{t: t, db: db, Ledger: ledger.New(ledger.Deps{
			Store: ledgersql.New(db), Writer: db, Clock: clock.NewFake(), Key: key, Former: []ed25519.PrivateKey{key}, Log: slog.New(slog.DiscardHandler),
		})})
	})
}

func (r *rig) append(tenant string, kinds ...string) {
	r.t.Helper()
	err := r.db.Write(r.t.Context(), func(tx txn.Tx) error {
		for _, kind := range kinds {
			e := ledger.Entry{Kind: kind, SubjectAgentID: "agent of " + kind, RuleID: "r", Details: map[string]any{"b": 1e21, "a": "<é>"}}
			if err := r.AppendTx(tx, tenant, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) exec(query string, args ...any) {
	r.t.Helper()
	err := r.db.Write(r.t.Context(), func(tx txn.Tx) error {
		_, err := sqldb.From(tx).Exec(query, args...)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// call answers an operation whose input is read from the query.
func call[Out any](r *rig, id string, query map[string]string) (out Out, err error) {
	r.t.Helper()
	for _, row := range r.Routes() {
		if row.ID != id {
			continue
		}
		got, err := row.Call(r.t.Context(), who, ledger.NewInput(row, query))
		if err != nil {
			return out, err
		}
		return got.(Out), nil
	}
	r.t.Fatalf("no operation %s", id)
	return out, nil
}

func (r *rig) verdict(query map[string]string) *ledger.Verdict {
	r.t.Helper()
	v, err := call[*ledger.Verdict](r, "verifyGovernanceLedger", query)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func TestEntriesAreChained(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.append("acme", "constitution.amended", "permissions.set", "constitution.replaced")
		r.append("other", "constitution.amended")
		p, err := call[*ledger.Page](r, "getGovernanceLedger", nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Total != 3 || p.TenantTotal != 3 || p.Head.Seq != 3 || p.Head.Hash != p.Entries[0].Hash || p.Entries[2].PrevHash != "" ||
			p.Entries[1].PrevHash != p.Entries[2].Hash || p.Entries[2].Kind != "constitution.amended" || p.Entries[0].ActorAgentID != nil {
			t.Errorf("%+v", p)
		}
		for name, c := range map[string]struct {
			query map[string]string
			want  string
		}{
			"category": {map[string]string{"category": "constitution"}, "3 1"},
			"action":   {map[string]string{"action": "permissions.set"}, "2"},
			"agent":    {map[string]string{"agent_id": "agent of permissions.set"}, "2"},
			"count":    {map[string]string{"count": "2"}, "3 2"},
			"range":    {map[string]string{"from": "1", "to": "2", "count": "1"}, "2 1"},
		} {
			p, err := call[*ledger.Page](r, "getGovernanceLedger", c.query)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range p.Entries {
				got = append(got, fmt.Sprint(e.Seq))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
		for _, bad := range []map[string]string{
			{"from": "x", "to": "2"}, {"from": "0", "to": "2"}, {"from": "1"}, {"from": "2", "to": "1"}, {"from": "1", "to": "1001"},
		} {
			if _, err := call[*ledger.Page](r, "getGovernanceLedger", bad); !fault.Is(err, fault.Malformed) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if v := r.verdict(nil); !v.Valid || v.Checked != 3 || v.FirstInvalid != nil {
			t.Errorf("%+v", v)
		}
		if v := r.verdict(map[string]string{"from": "2", "to": "3"}); !v.Valid || v.Checked != 2 {
			t.Errorf("%+v", v)
		}
	})
}

func TestTamperingIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statements []string
		invalid    int64
		reason     string
		from       string
	}{
		"details":         {[]string{`UPDATE ledger SET details = '{"a":2}' WHERE seq = 3`}, 3, "was changed", ""},
		"kind":            {[]string{`UPDATE ledger SET kind = 'constitution.read' WHERE seq = 1`}, 1, "was changed", ""},
		"time":            {[]string{`UPDATE ledger SET at = at + 1 WHERE seq = 5`}, 5, "was changed", ""},
		"subject":         {[]string{`UPDATE ledger SET subject_agent_id = 'x' WHERE seq = 4`}, 4, "was changed", "3"},
		"removed":         {[]string{`DELETE FROM ledger WHERE seq = 2`}, 2, "entry 2 is missing", ""},
		"removed, bounds": {[]string{`DELETE FROM ledger WHERE seq = 4`}, 4, "entry 4 is missing", "2"},
		"removed first":   {[]string{`DELETE FROM ledger WHERE seq = 1`}, 1, "entry 1 is missing", ""},
		"removed last":    {[]string{`DELETE FROM ledger WHERE seq = 5`}, 5, "entry 5 is missing", ""},
		"all removed":     {[]string{`DELETE FROM ledger`}, 1, "entry 1 is missing", ""},
		"reordered": {[]string{
			`UPDATE ledger SET seq = 9 WHERE seq = 2`, `UPDATE ledger SET seq = 2 WHERE seq = 3`, `UPDATE ledger SET seq = 3 WHERE seq = 9`,
		}, 2, "does not follow", ""},
		"added": {[]string{
			`INSERT INTO ledger SELECT tenant_id, 6, entry_id, at, category, kind, actor_agent_id, actor_user_id, subject_agent_id, rule_id, run_id,
				details, prev_hash, hash FROM ledger WHERE seq = 5`,
		}, 6, "added behind the end", ""},
		"another end": {[]string{`UPDATE ledger_heads SET hash = 'x'`}, 5, "is not the one that the chain ended with", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r *rig) {
				r.append("acme", "a.a", "a.b", "a.c", "a.d", "a.e")
				if v := r.verdict(nil); !v.Valid {
					t.Fatal(v.Error)
				}
				for _, s := range c.statements {
					r.exec(s)
				}
				query := map[string]string{}
				if c.from != "" {
					query["from"] = c.from
				}
				v := r.verdict(query)
				if v.Valid || v.FirstInvalid == nil || *v.FirstInvalid != c.invalid || !strings.Contains(v.Error, c.reason) {
					t.Errorf("%+v, want entry %d: %s", v, c.invalid, c.reason)
				}
			})
		})
	}
}

func TestExportIsVerifiedOffline(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		export := func() []byte {
			lines, err := call[route.Lines](r, "exportGovernanceLedger", nil)
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			for line, err := range lines {
				if err != nil {
					t.Fatal(err)
				}
				text.Write(append(line, '\n'))
			}
			return text.Bytes()
		}
		if _, err := hashchain.Verify(bytes.NewReader(export()), hashchain.Expect{}); err != nil {
			t.Errorf("without an entry: %v", err)
		}
		var kinds []string
		for i := range 600 { // more than one page, more than one batch
			kinds = append(kinds, fmt.Sprintf("a.b%d", i))
		}
		r.append("acme", kinds...)
		r.append("other", "a.b")
		text := export()
		keys, err := call[*ledger.Keys](r, "getGovernanceLedgerKeys", nil)
		if err != nil || len(keys.PublicKeys) != 2 {
			t.Fatal(keys, err)
		}
		head, err := hashchain.Verify(bytes.NewReader(text), hashchain.Expect{Key: keys.PublicKeys[0]})
		if err != nil || head.Seq != 600 {
			t.Errorf("%v, %v", head, err)
		}
		r.exec(`UPDATE ledger SET rule_id = 'q' WHERE seq = 17 AND tenant_id = 'acme'`)
		if _, err := hashchain.Verify(bytes.NewReader(export()), hashchain.Expect{}); err == nil || !strings.Contains(err.Error(), "entry 17 was changed") {
			t.Errorf("a changed entry: %v", err)
		}
	})
}

// Transactions that append to one ledger do not wait for each other, nor for the
// sealer, and no entry is lost.
func TestAppendingDoesNotWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		if r.db.Postgres() {
			err := r.db.Write(t.Context(), func(outer txn.Tx) error {
				if err := r.AppendTx(outer, "acme", ledger.Entry{Kind: "a.outer"}); err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				inner := r.db.Write(ctx, func(tx txn.Tx) error { return r.AppendTx(tx, "acme", ledger.Entry{Kind: "a.inner"}) })
				if inner != nil {
					return inner
				}
				return r.Seal(ctx, "acme")
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 10 {
					r.append("acme", "a.b")
				}
				if err := r.Seal(t.Context(), "acme"); err != nil {
					t.Error(i, err)
				}
			})
		}
		wg.Wait()
		want := int64(80)
		if r.db.Postgres() {
			want += 2
		}
		if v := r.verdict(nil); !v.Valid || v.Checked != want {
			t.Errorf("%+v, want %d", v, want)
		}
	})
}

func TestServeSeals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Serve(ctx)
		}()
		r.append("acme", "a.b")
		r.append("other", "a.b")
		store := ledgersql.New(r.db)
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			one, err := store.GetHead(t.Context(), "acme")
			two, err2 := store.GetHead(t.Context(), "other")
			if err != nil || err2 != nil || time.Now().After(deadline) {
				t.Fatal(one, two, err, err2)
			}
			if one.Seq == 1 && two.Seq == 1 {
				break
			}
		}
		cancel()
		<-done
	})
}

func TestOffRecordsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		r.Off = true
		r.append("acme", "a.b")
		if v := r.verdict(nil); !v.Valid || v.Checked != 0 {
			t.Errorf("%+v", v)
		}
	})
}

func TestRolledBackEntriesAreNotWritten(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		err := r.db.Write(t.Context(), func(tx txn.Tx) error {
			if err := r.AppendTx(tx, "acme", ledger.Entry{Kind: "a.b"}); err != nil {
				return err
			}
			return fault.New(fault.Conflict, "", "No.")
		})
		if v := r.verdict(nil); !fault.Is(err, fault.Conflict) || v.Checked != 0 {
			t.Errorf("%v, %+v", err, v)
		}
	})
}
