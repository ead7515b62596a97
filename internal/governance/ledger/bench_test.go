package ledger_test

import (
	"log/slog"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/hashchain"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/governance/ledger"
	"agentd/internal/governance/ledger/ledgersql"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// BenchmarkVerify verifies a chain of 100,000 entries: a tenth of what must be done in
// 10 seconds.
func BenchmarkVerify(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		b.Run(string(engine), func(b *testing.B) { benchVerify(b, sqldbtest.Open(b, engine)) })
	}
}

func benchVerify(b *testing.B, db *sqldb.DB) {
	store := ledgersql.New(db)
	l := ledger.New(ledger.Deps{Store: store, Writer: db, Clock: clock.NewFake(), Log: slog.New(slog.DiscardHandler)})
	var head hashchain.Head
	const total, batch = 100_000, 5000
	for range total / batch {
		err := db.Write(b.Context(), func(tx txn.Tx) error {
			var err error
			if head, err = store.LockHeadTx(tx, "acme"); err != nil {
				return err
			}
			entries := make([]hashchain.Entry, batch)
			for i := range entries {
				entries[i] = hashchain.Entry{
					ID: ident.New(), At: time.Unix(1700000000, 0), Kind: "enforcement.blocked", SubjectAgentID: ident.New(), RuleID: "no-mail", RunID: ident.New(),
					Details: []byte(`{"action":"tool:mail","message":"After reading the web, sending mail needs an approval."}`),
				}
				head = entries[i].Seal(head)
			}
			return store.AppendSealedTx(tx, "acme", entries, head)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if v, err := l.Verify(b.Context(), "acme", 0, 0); err != nil || !v.Valid || v.Checked != total {
			b.Fatal(v, err)
		}
	}
}
