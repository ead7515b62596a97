package responsechain_test

import (
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/responsechain"
	"agentd/internal/execution/responsechain/responsechainsql"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb/sqldbtest"
)

// What a call pays for a chain of a thousand short turns.
func BenchmarkBefore(b *testing.B) {
	const turns = 1000
	db := sqldbtest.Open(b, sqldbtest.Engines[0])
	runs, s := runsql.New(db), &responsechain.Service{Store: responsechainsql.New(db)}
	tenant, previous, now := ident.New(), "", time.Now()
	output := schema.Nullable(`{"text":"That is a short answer of the kind that models give.","finish_reason":"stop"}`)
	for range turns {
		rec := &run.Record{Run: run.Run{RunID: ident.New(), TenantID: tenant, Status: run.Completed, Input: schema.Object(`{"message":"hello"}`), Metadata: schema.Object(`{}`), CreatedAt: now}}
		step := &run.Step{StepID: ident.New(), RunID: rec.RunID, TenantID: tenant, Seq: 1, Type: run.StepLLM, Status: run.StepCompleted, StartedAt: now, CompletedAt: &now, Output: output}
		link := responsechain.Link{RunID: rec.RunID, Previous: previous, Asked: []byte(`{}`)}
		err := db.Write(b.Context(), func(tx txn.Tx) error {
			if err := runs.Create(rec)(tx); err != nil {
				return err
			}
			if _, err := s.Make(link)(tx, rec); err != nil {
				return err
			}
			return runs.AppendStep(step)(tx)
		})
		if err != nil {
			b.Fatal(err)
		}
		previous = rec.RunID
	}
	next := &run.Record{Run: run.Run{TenantID: tenant}, Parsed: &run.Input{Message: "now"}, Options: run.Options{Follows: previous}}
	var said []model.Message
	for b.Loop() {
		var err error
		if said, err = s.Before(b.Context(), next, run.Reach{}); err != nil || len(said) != 2*turns {
			b.Fatal(len(said), err)
		}
	}
}
