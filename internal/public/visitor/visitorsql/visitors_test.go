package visitorsql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/public/visitor"
	"agentd/internal/public/visitor/visitorsql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestVisitors(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, now := visitorsql.New(db), time.Date(2026, 9, 10, 12, 0, 0, 0, time.UTC)
		tenant, other, agent := ident.New(), ident.New(), ident.New()
		write := func(do func(tx txn.Tx) error) {
			t.Helper()
			if err := db.Write(t.Context(), do); err != nil {
				t.Fatal(err)
			}
		}
		r := &visitor.Record{
			TenantID: tenant, SessionID: ident.New(), AgentID: agent, Hash: []byte("hash"), SeenAt: now, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		}
		write(func(tx txn.Tx) error { return s.CreateTx(tx, r) })
		got, err := s.GetByToken(t.Context(), []byte("hash"))
		if diff := cmp.Diff(r, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if got, err := s.GetByToken(t.Context(), []byte("another")); got != nil || err != nil {
			t.Error(got, err)
		}

		var had []int64
		for range 3 {
			write(func(tx txn.Tx) error {
				n, err := s.ClaimMessageTx(tx, tenant, r.SessionID, 2, now.Add(time.Minute))
				had = append(had, n)
				return err
			})
		}
		write(func(tx txn.Tx) error {
			n, err := s.ClaimMessageTx(tx, other, r.SessionID, 9, now)
			had = append(had, n)
			return err
		})
		if diff := cmp.Diff([]int64{1, 2, 0, 0}, had); diff != "" {
			t.Errorf("messages: %s", diff)
		}

		var active []int64
		for _, q := range []struct {
			tenant, agent string
			after         time.Time
		}{{tenant, agent, now}, {tenant, agent, now.Add(2 * time.Minute)}, {other, agent, now}, {tenant, ident.New(), now}} {
			write(func(tx txn.Tx) error {
				n, err := s.CountActiveTx(tx, q.tenant, q.agent, q.after)
				active = append(active, n)
				return err
			})
		}
		if diff := cmp.Diff([]int64{1, 0, 0, 0}, active); diff != "" {
			t.Errorf("active sessions: %s", diff)
		}

		var days []bool
		for _, q := range []struct {
			day  string
			most int64
		}{{"2026-09-10", 2}, {"2026-09-10", 2}, {"2026-09-10", 2}, {"2026-09-10", 0}, {"2026-09-11", 1}, {"2026-09-11", 1}} {
			write(func(tx txn.Tx) error {
				ok, err := s.ClaimDayTx(tx, tenant, agent, q.day, q.most)
				days = append(days, ok)
				return err
			})
		}
		if diff := cmp.Diff([]bool{true, true, false, true, true, false}, days); diff != "" {
			t.Errorf("messages of a day: %s", diff)
		}

		file := ident.New()
		write(func(tx txn.Tx) error { return s.CreateFileTx(tx, tenant, r.SessionID, file, now) })
		n, err := s.CountFiles(t.Context(), tenant, r.SessionID)
		if n != 1 || err != nil {
			t.Error(n, err)
		}
		for _, q := range []struct {
			tenant, session, file string
			want                  bool
		}{{tenant, r.SessionID, file, true}, {other, r.SessionID, file, false}, {tenant, ident.New(), file, false}, {tenant, r.SessionID, ident.New(), false}} {
			if has, err := s.HasFile(t.Context(), q.tenant, q.session, q.file); has != q.want || err != nil {
				t.Errorf("%v: %t %v", q, has, err)
			}
		}
		if got, err := s.GetFileTenant(t.Context(), file); got != tenant || err != nil {
			t.Error(got, err)
		}
		if got, err := s.GetFileTenant(t.Context(), ident.New()); got != "" || err != nil {
			t.Error(got, err)
		}

		write(func(tx txn.Tx) error { return s.DeleteOldTx(tx, other, agent, now.Add(time.Hour)) })
		write(func(tx txn.Tx) error { return s.DeleteOldTx(tx, tenant, agent, now) })
		if got, _ := s.GetByToken(t.Context(), []byte("hash")); got == nil {
			t.Error("a session was deleted that is not old, or another company's")
		}
		write(func(tx txn.Tx) error { return s.DeleteOldTx(tx, tenant, agent, now.Add(time.Second)) })
		if got, _ := s.GetByToken(t.Context(), []byte("hash")); got != nil {
			t.Error("an old session is kept")
		}
	})
}
