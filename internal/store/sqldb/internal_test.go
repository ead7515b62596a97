package sqldb

import (
	"database/sql/driver"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"
)

func TestDollars(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"SELECT 1": "SELECT 1",
		"SELECT * FROM t WHERE a = ? AND b IN (?, ?)": "SELECT * FROM t WHERE a = $1 AND b IN ($2, $3)",
		`SELECT '?', "?", 'it''s ?' FROM t LIMIT ?`:   `SELECT '?', "?", 'it''s ?' FROM t LIMIT $1`,
	} {
		for range 2 { // made, and kept
			if got := dollars(query); got != want {
				t.Errorf("%s\nbecame %s\nwant   %s", query, got, want)
			}
		}
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	const text = "CREATE TABLE t (a TEXT NOT NULL, CONTEXT BYTEA)\n  WITHOUT ROWID; -- x\nSELECT a::text;"
	for postgres, want := range map[bool]string{
		false: "CREATE TABLE t (a TEXT NOT NULL, CONTEXT BLOB)\n  WITHOUT ROWID; -- x\nSELECT a::text;",
		true:  "CREATE TABLE t (a TEXT COLLATE \"C\" NOT NULL, CONTEXT BYTEA); -- x\nSELECT a::text;",
	} {
		got, err := fs.ReadFile(dialectFS{fstest.MapFS{"1.sql": {Data: []byte(text)}}, postgres}, "1.sql")
		if err != nil || string(got) != want {
			t.Errorf("postgres %v: %v\n%s", postgres, err, got)
		}
	}
}

func TestCheckValue(t *testing.T) {
	t.Parallel()
	type name string
	type raw []byte
	for _, test := range []struct{ in, want driver.Value }{
		{nil, nil}, {7, int64(7)}, {uint8(7), int64(7)}, {name("x"), "x"}, {1.5, 1.5}, {float32(1.5), 1.5}, {true, true},
		{(*int)(nil), nil}, {time.Second, int64(time.Second)},
	} {
		nv := driver.NamedValue{Ordinal: 1, Value: test.in}
		if err := checkValue(&nv); err != nil || nv.Value != test.want {
			t.Errorf("%T %v became %v, %v", test.in, test.in, nv.Value, err)
		}
	}
	nv := driver.NamedValue{Ordinal: 1, Value: raw("x")}
	if err := checkValue(&nv); err != nil || string(nv.Value.([]byte)) != "x" {
		t.Errorf("%v, %v", nv.Value, err)
	}
	now := time.Now()
	for _, in := range []driver.Value{now, &now, struct{}{}, uint64(1 << 63)} {
		if err := checkValue(&driver.NamedValue{Ordinal: 1, Value: in}); err == nil {
			t.Errorf("%T is accepted", in)
		}
	}
}

func TestStatementsAreBounded(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Config{Dir: t.TempDir(), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i := range maxStmts + 50 {
		var n int
		if err := db.QueryRow(t.Context(), fmt.Sprintf("SELECT ? + %d", i), i).Scan(&n); err != nil || n != 2*i {
			t.Fatal(n, err)
		}
	}
	held, err := db.pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := held.Raw(func(c any) error {
		if n := len(c.(*conn).stmts); n > maxStmts {
			t.Errorf("%d statements are prepared", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
