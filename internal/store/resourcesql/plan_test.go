package resourcesql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// TestListsWalkIndexes has the databases explain every list: an index in the
// order of the answer, nothing sorted, nothing scanned.
func TestListsWalkIndexes(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		oldest := ident.New()
		fillDocuments(t, db)
		newest := ident.New()
		for name, c := range map[string]struct {
			query resource.Query
			index string
		}{
			"all":    {resource.Query{}, "sqlite_autoindex PRIMARY KEY documents_pkey"},
			"ix1":    {resource.Query{Filter: [resource.Slots]string{"rare"}}, "documents_ix1"},
			"ix2":    {resource.Query{Filter: [resource.Slots]string{1: "rare"}}, "documents_ix2"},
			"ix3":    {resource.Query{Filter: [resource.Slots]string{2: "rare"}}, "documents_ix3"},
			"ix4":    {resource.Query{Filter: [resource.Slots]string{3: "rare"}}, "documents_ix4"},
			"two":    {resource.Query{Filter: [resource.Slots]string{"rare", "rare"}}, "documents_ix1 documents_ix2"},
			"unique": {resource.Query{Unique: "17"}, "documents_uniq"},
			"words":  {resource.Query{Words: []string{"nig", "bot"}}, "begin=? document_words_pkey"},
		} {
			for _, order := range []struct {
				after string
				asc   bool
			}{{"", false}, {newest, false}, {"", true}, {oldest, true}} {
				q := c.query
				q.Kind, q.Tenant, q.Limit, q.After, q.Asc = "k", "t", 10, order.after, order.asc
				plan := explain(t, db, q)
				walks := slices.ContainsFunc(strings.Fields(c.index), func(index string) bool { return strings.Contains(plan, index) })
				for _, bad := range []string{"Seq Scan", "SCAN ", "TEMP B-TREE"} {
					walks = walks && !strings.Contains(plan, bad)
				}
				if !walks || strings.Contains(plan, "Sort") && name != "unique" { // of at most one row
					t.Errorf("%s, %+v: %s", name, order, plan)
				}
			}
		}
	})
}

// fillDocuments makes documents of which few have each index's rare value.
func fillDocuments(t *testing.T, db *sqldb.DB) {
	t.Helper()
	docs := New(db)
	err := db.Write(t.Context(), func(tx txn.Tx) error {
		for i := range 3000 {
			v := "common"
			if i%1000 == 0 {
				v = "rare"
			}
			doc := resource.Doc{
				Kind: "k", Tenant: "t", ID: ident.New(), Version: 1, Body: []byte(`{}`),
				Index: [resource.Slots]string{v, v, v, v}, Unique: fmt.Sprint(i), Words: []string{"night", "bot", fmt.Sprint(i)},
			}
			if err := docs.PutTx(tx, doc, 0); err != nil {
				return err
			}
		}
		if db.Postgres() { // as its autovacuum does; SQLite must do without
			_, err := sqldb.From(tx).Exec("ANALYZE documents, document_words")
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func explain(t *testing.T, db *sqldb.DB, q resource.Query) string {
	t.Helper()
	query, args := listDocuments(q, db.Postgres())
	verb := "EXPLAIN QUERY PLAN "
	if db.Postgres() {
		verb = "EXPLAIN "
	}
	rows, err := db.Query(t.Context(), verb+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		row := make([]any, len(columns))
		step := new(string) // the last column
		for i := range row {
			row[i] = new(any)
		}
		row[len(row)-1] = step
		if err := rows.Scan(row...); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(*step + "; ")
	}
	return plan.String()
}
