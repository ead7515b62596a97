package worksql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/clock"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		nodes := worksql.NewNodes(db, c)
		here, there := worksql.Place{Host: "a", Path: "/data", Inode: 1}, worksql.Place{Host: "a", Path: "/copy", Inode: 2}
		take := func(boot string, at worksql.Place, fresh, want string) {
			t.Helper()
			name, holder, err := nodes.Take(t.Context(), worksql.Node{Name: "n", BootID: boot, Place: at}, fresh)
			if err != nil || name != want || (holder == nil) != (want == "n") {
				t.Fatalf("%s, %v, %v", name, holder, err)
			}
			if holder != nil && holder.Place != here {
				t.Errorf("it is held by %v", holder)
			}
		}
		beat := func(name, boot string, want bool) {
			t.Helper()
			now, held, err := nodes.Beat(t.Context(), worksql.Node{Name: name, BootID: boot})
			if err != nil || held != want || held && !now.Equal(c.Now()) {
				t.Errorf("%s is held by %s: %t, %v, %v", name, boot, held, now, err)
			}
		}
		take("1", here, "-", "n")
		beat("n", "1", true)
		take("2", here, "-", "n") // a restart takes its name at once
		beat("n", "1", false)
		beat("n", "2", true)
		take("3", there, "m", "m") // a copy does not
		beat("n", "2", true)
		beat("m", "3", true)
		c.Advance(20 * time.Second)
		beat("n", "2", true)
		c.Advance(20 * time.Second)
		take("4", there, "o", "o")
		c.Advance(31 * time.Second) // nobody runs any more
		take("5", there, "-", "n")
		beat("n", "5", true)
		if err := nodes.Leave(t.Context(), worksql.Node{Name: "n", BootID: "2"}); err != nil {
			t.Fatal(err)
		}
		beat("n", "5", true)
		if err := nodes.Leave(t.Context(), worksql.Node{Name: "n", BootID: "5"}); err != nil {
			t.Fatal(err)
		}
		take("6", here, "-", "n")
		rank := func(name string, index, of int) {
			t.Helper()
			i, n, err := nodes.Rank(t.Context(), worksql.Node{Name: name})
			if err != nil || i != index || n != of {
				t.Errorf("%s is %d of %d, want %d of %d: %v", name, i, n, index, of, err)
			}
		}
		for _, name := range []string{"z", "b"} {
			if _, _, err := nodes.Take(t.Context(), worksql.Node{Name: name, BootID: "1", Place: there}, "-"); err != nil {
				t.Fatal(err)
			}
		}
		rank("b", 0, 3)
		rank("n", 1, 3)
		rank("z", 2, 3)
		c.Advance(20 * time.Second)
		beat("z", "1", true)
		c.Advance(11 * time.Second) // the others do not run any more
		rank("z", 0, 1)
	})
}

// TestDatabaseTime reads PostgreSQL's clock by a heartbeat.
func TestDatabaseTime(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t, sqldbtest.Postgres)
	nodes := worksql.NewNodes(db, newSkewed(time.Hour))
	node := worksql.Node{Name: "n", BootID: "1"}
	if _, _, err := nodes.Take(t.Context(), node, "-"); err != nil {
		t.Fatal(err)
	}
	now, held, err := nodes.Beat(t.Context(), node)
	if err != nil || !held || time.Since(now).Abs() > time.Minute {
		t.Error(now, held, err)
	}
}

func TestNodesAreListed(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		c := clock.NewFake()
		nodes := worksql.NewNodes(db, c)
		take := func(name, version, role string) worksql.Node {
			t.Helper()
			n := worksql.Node{Name: name, BootID: name, Place: worksql.Place{Host: "host boot", Path: "/" + name}, Version: version, Role: role}
			if _, _, err := nodes.Take(t.Context(), n, "-"); err != nil {
				t.Fatal(err)
			}
			return n
		}
		take("gone", "1", "all")
		c.Advance(2 * time.Minute)
		busy := take("busy", "2", "worker")
		take("api", "2", "api")
		busy.Runs = 7
		if _, _, err := nodes.Beat(t.Context(), busy); err != nil {
			t.Fatal(err)
		}
		got, err := nodes.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := c.Now().UTC()
		want := []worksql.Listed{
			{Name: "api", Host: "host", Path: "/api", Version: "2", Role: "api", Started: now, Seen: now, Running: true},
			{Name: "busy", Host: "host", Path: "/busy", Version: "2", Role: "worker", Runs: 7, Started: now, Seen: now, Running: true},
			{Name: "gone", Host: "host", Path: "/gone", Version: "1", Role: "all", Started: now.Add(-2 * time.Minute), Seen: now.Add(-2 * time.Minute)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A database of before nodes told their versions is listed too.
func TestNodesOfOlderPrograms(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.MigrateDown(t.Context(), 770); err != nil {
			t.Fatal(err)
		}
		if got, err := worksql.NewNodes(db, clock.NewFake()).List(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}
