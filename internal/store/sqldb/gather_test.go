package sqldb_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
)

// tally is a number of rows that become one.
type tally struct{ sum int }

// WriteTx implements sqldb.Gathered.
func (g *tally) WriteTx(tx *sqldb.Tx) error { return insert(tx, "sum", g.sum) }

// add adds to the sum of the group, or writes a row of its own.
func add(tx txn.Tx, key string, n int) error {
	g, shared := sqldb.From(tx).Gather("t", func() sqldb.Gathered { return &tally{} }).(*tally)
	if !shared {
		return insert(tx, key, n)
	}
	g.sum += n
	return nil
}

// What closures of a group gather is written once for all of them, and before a
// statement that names its table; what one gathered that failed is not written.
func TestGroupWritesTogether(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	one := func(tx txn.Tx) error { return add(tx, "one", 1) }
	two := func(tx txn.Tx) error { return add(tx, "two", 2) }
	for name, test := range map[string]struct {
		closures []func(tx txn.Tx) error
		want     map[string]int
		repeated int
		errs     []error
	}{
		"alone":    {[]func(tx txn.Tx) error{one}, map[string]int{"one": 1}, 0, []error{nil}},
		"together": {[]func(tx txn.Tx) error{one, two, two}, map[string]int{"sum": 5}, 0, []error{nil, nil, nil}},
		"before a statement that names the table": {[]func(tx txn.Tx) error{one, two, func(tx txn.Tx) error {
			var n int
			if err := sqldb.From(tx).QueryRow("SELECT SUM(v) FROM t").Scan(&n); err != nil {
				return err
			}
			return insert(tx, "seen", n)
		}}, map[string]int{"sum": 3, "seen": 3}, 0, []error{nil, nil, nil}},
		"one failed": {[]func(tx txn.Tx) error{one, func(tx txn.Tx) error { return errors.Join(add(tx, "bad", 4), mine) }, two},
			map[string]int{"one": 1, "two": 2}, 3, []error{nil, mine, nil}},
		"what is written fails": {[]func(tx txn.Tx) error{func(tx txn.Tx) error { return insert(tx, "sum", 9) }, one},
			map[string]int{"sum": 9, "one": 1}, 2, []error{nil, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g groups
			db := openSQLite(t, sqldb.Config{Metrics: g.metrics()})
			errs := together(t, db, test.closures...)
			for i, err := range errs {
				if !errors.Is(err, test.errs[i]) {
					t.Errorf("closure %d: %v", i, err)
				}
			}
			got := map[string]int{}
			rows, err := db.Query(t.Context(), "SELECT k, v FROM t")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var k string
				var v int
				if err := rows.Scan(&k, &v); err != nil {
					t.Fatal(err)
				}
				got[k] = v
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if g.repeated != test.repeated {
				t.Errorf("%d closures repeated, want %d", g.repeated, test.repeated)
			}
		})
	}
}
