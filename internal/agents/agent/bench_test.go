package agent_test

import (
	"testing"

	"agentd/internal/base/route"
	"agentd/internal/kernel/resource"
	"agentd/internal/kernel/resource/resourcetest"
	"agentd/internal/store/resourcesql"
	"agentd/internal/store/sqldb/sqldbtest"
)

// BenchmarkRoutes measures the operations on agents on SQLite, without HTTP.
func BenchmarkRoutes(b *testing.B) {
	db := sqldbtest.Open(b, sqldbtest.SQLite)
	c := newBench(resourcesql.New(db), db)
	create := func() *route.Reply {
		reply, err := c.Do(b.Context(), "POST", path, resourcetest.Args{"": `{"name":"bench","description":"an agent to measure",
			"prompts":{"system":"You are a helpful assistant that answers in at most twenty tokens."},"built_in_tools":["calculator"]}`})
		if err != nil {
			b.Fatal(err)
		}
		return reply
	}
	for range 200 {
		create()
	}
	all, err := c.agents.Store().List(b.Context(), c.Who.TenantID, resource.Find{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	id := all[0].ID
	b.Run("create_parallel", func(b *testing.B) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				create()
			}
		})
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Do(b.Context(), "GET", item, resourcetest.Args{"agentId": id}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list20", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Do(b.Context(), "GET", path, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get_for_a_run", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.agents.Get(b.Context(), c.Who.TenantID, id); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		doc, err := c.agents.Store().Read(b.Context(), c.Who.TenantID, id)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := c.agents.Store().Decode(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}
