package resourcesql_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/kernel/resource"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// BenchmarkDocuments measures the document store on SQLite, with 5,000
// documents of the size of an agent in the table.
func BenchmarkDocuments(b *testing.B) {
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	docs := resourcesql.New(db)
	tenant := ident.New()
	made := func() resource.Doc {
		return resource.Doc{
			Kind: "agent", Tenant: tenant, ID: ident.New(), Version: 1, Index: [resource.Slots]string{"w1"},
			Body: jsontext.Value(`{"name":"x","text":"` + strings.Repeat("x", 600) + `"}`),
		}
	}
	var ids []string
	err := db.Write(b.Context(), func(tx txn.Tx) error {
		for range 5000 {
			doc := made()
			ids = append(ids, doc.ID)
			if err := docs.PutTx(tx, doc, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := docs.Get(b.Context(), "agent", tenant, ids[i*7919%len(ids)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, q := range map[string]resource.Query{
		"list20":          {},
		"list20_filtered": {Filter: [resource.Slots]string{"w1"}},
	} {
		q.Kind, q.Tenant, q.Limit = "agent", tenant, 21
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				q.After = ids[len(ids)-1-i*7919%(len(ids)-50)]
				if found, err := docs.List(b.Context(), q); err != nil || len(found) != 21 {
					b.Fatal(len(found), err)
				}
			}
		})
	}
	b.Run("put", func(b *testing.B) {
		// Many in one transaction, as concurrent writers share one: what is
		// measured is the statement, not the disk.
		err := db.Write(b.Context(), func(tx txn.Tx) error {
			for b.Loop() {
				if err := docs.PutTx(tx, made(), 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}
