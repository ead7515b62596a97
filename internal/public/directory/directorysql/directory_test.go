package directorysql_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/public/directory"
	"agentd/internal/public/directory/directorysql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s := directorysql.New(db)
		add := func(slug, status string, published int64) string {
			id := ident.New()
			err := db.Write(t.Context(), func(tx txn.Tx) error {
				_, err := sqldb.From(tx).Exec(`INSERT INTO tenants (tenant_id, name, slug, status, plan, settings, operator, created_at, updated_at,
					published_at, published_agents, public_settings) VALUES (?, ?, ?, ?, 'p', '{}', ?, 1, 1, ?, 'a b', ?)`,
					id, slug, slug, status, false, published, `{"category":"food","tags":["vegan"]}`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		first := add("first", "active", 1_000_000)
		add("hidden", "active", 0)
		add("suspended", "suspended", 3_000_000)
		second := add("second", "active", 2_000_000)
		all, err := s.List(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range all {
			ids = append(ids, c.TenantID)
		}
		if diff := cmp.Diff([]string{second, first}, ids); diff != "" {
			t.Error(diff)
		}
		c, err := s.Get(t.Context(), "first")
		if err != nil || c == nil || c.Category != "food" || !cmp.Equal(c.AgentIDs, []string{"a", "b"}) || !cmp.Equal(c.Tags, []string{"vegan"}) {
			t.Errorf("%+v %v", c, err)
		}
		for _, slug := range []string{"hidden", "suspended", "nobody"} {
			if c, err := s.Get(t.Context(), slug); c != nil || err != nil {
				t.Errorf("%s: %+v %v", slug, c, err)
			}
		}

		for _, numbers := range []map[string]int64{{"a": 2, "b": 1}, {"b": 4, "c": 1, "d": 1}} {
			if err := s.IncrementEvents(t.Context(), "2026-09-10", numbers, 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.IncrementEvents(t.Context(), "2026-09-11", map[string]int64{"a": 1}, 3); err != nil {
			t.Fatal(err)
		}
		got, err := s.ListEvents(t.Context(), "2026-09-10", 10)
		want := []directory.Counted{
			{Day: "2026-09-11", Event: "a", Number: 1}, {Day: "2026-09-10", Event: "c", Number: 1},
			{Day: "2026-09-10", Event: "b", Number: 5}, {Day: "2026-09-10", Event: "a", Number: 2},
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b struct{}) bool { return true })); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}
