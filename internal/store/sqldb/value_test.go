package sqldb_test

import (
	"database/sql"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestValuesSurvive has the portable types go in and come out alike.
func TestValuesSurvive(t *testing.T) {
	t.Parallel()
	type row struct {
		N     int64
		F     float64
		B     bool
		S     string
		Bytes []byte
		Null  sql.NullString
	}
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		bytesType := "BLOB" // migrations write BYTEA for both
		if db.Postgres() {
			bytesType = "BYTEA"
		}
		exec(t, db, "CREATE TABLE v (id BIGINT PRIMARY KEY, n BIGINT, f DOUBLE PRECISION, b BOOLEAN, s TEXT, bytes "+bytesType+", nul TEXT)")
		for i, want := range []row{
			{},
			{math.MaxInt64, math.MaxFloat64, true, "Zoë ☃ \U0001f600 '?' \"$1\"", []byte{0, 1, 0xff}, sql.NullString{String: "x", Valid: true}},
			{math.MinInt64, -0.5, false, strings.Repeat("long ", 100_000), []byte(strings.Repeat("\x00", 100_000)), sql.NullString{}},
		} {
			exec(t, db, "INSERT INTO v (id, n, f, b, s, bytes, nul) VALUES (?, ?, ?, ?, ?, ?, ?)",
				i, want.N, want.F, want.B, want.S, want.Bytes, want.Null)
			const query = "SELECT n, f, b, s, bytes, nul FROM v WHERE id = ? AND b = ?"
			scan := func(r *sql.Row) {
				t.Helper()
				var got row
				if err := r.Scan(&got.N, &got.F, &got.B, &got.S, &got.Bytes, &got.Null); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("row %d: -want +got:\n%.2000s", i, diff)
				}
			}
			scan(db.QueryRow(t.Context(), query, i, want.B))
			if err := db.Write(t.Context(), func(tx txn.Tx) error {
				scan(sqldb.From(tx).QueryRow(query, i, want.B))
				_, err := sqldb.From(tx).Exec("UPDATE v SET n = 0 WHERE s = ? AND nul IS NULL", want.S)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestTimesAreRefused(t *testing.T) {
	t.Parallel()
	withTable(t, func(t *testing.T, db *sqldb.DB) {
		var n int
		if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM t WHERE v = ?", time.Now()).Scan(&n); err == nil {
			t.Error("a query takes a time")
		}
		if err := db.Write(t.Context(), func(tx txn.Tx) error {
			_, err := sqldb.From(tx).Exec("INSERT INTO t (k, v) VALUES ('a', ?)", time.Now())
			return err
		}); err == nil {
			t.Error("a statement takes a time")
		}
	})
}

// TestTextSortsByBytes looks at a column of a migration.
func TestTextSortsByBytes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		for _, k := range []string{"b", "B", "a", "ä", "A", "_", "aB", "ab"} {
			exec(t, db, "INSERT INTO work (kind, work_key, tenant_id, due_at, epoch, attempt, owner) VALUES ('k', ?, '', 0, 0, 0, '')", k)
		}
		rows, err := db.Query(t.Context(), "SELECT work_key FROM work WHERE work_key > ? ORDER BY work_key", "A")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		got := ""
		for rows.Next() {
			var k string
			if err := rows.Scan(&k); err != nil {
				t.Fatal(err)
			}
			got += k + " "
		}
		if want := "B _ a aB ab b ä "; got != want || rows.Err() != nil {
			t.Errorf("%s, want %s, %v", got, want, rows.Err())
		}
	})
}

func TestMicros(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{{}, time.Date(2026, 9, 10, 12, 0, 0, 123456000, time.UTC), time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := sqldb.Time(sqldb.Micros(at)); got != at {
			t.Errorf("%v became %v", at, got)
		}
	}
}
