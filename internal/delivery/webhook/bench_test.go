package webhook_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/clock"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/delivery/webhook"
	"agentd/internal/delivery/webhook/webhooksql"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

// BenchmarkEmit is one event in a transaction of its own, with so many
// subscriptions that want it, from 16 goroutines.
func BenchmarkEmit(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		for _, receivers := range []int{0, 1, 10, 50} {
			b.Run(fmt.Sprintf("%s/receivers-%d", engine, receivers), func(b *testing.B) {
				db := sqldbtest.Open(b, engine)
				store := webhooksql.New(db)
				s := webhook.New(webhook.Deps{Store: store, Writer: db, Queue: worksql.New(db, clock.System{}, nil), Clock: clock.System{}})
				tenant := ident.New()
				write := func(do func(tx txn.Tx) error) {
					if err := db.Write(b.Context(), do); err != nil {
						b.Error(err)
					}
				}
				for range receivers {
					write(func(tx txn.Tx) error {
						_, err := store.CreateTx(tx, webhook.Subscription{
							TenantID: tenant, ID: ident.New(), URL: "https://receiver.example/", Events: []string{"run.completed"},
							Status: webhook.Active, Sealed: []byte{}, CreatedAt: time.Now(),
						})
						return err
					})
				}
				var next atomic.Int64
				var wg sync.WaitGroup
				b.ResetTimer()
				for range 16 {
					wg.Go(func() {
						for next.Add(1) <= int64(b.N) {
							write(func(tx txn.Tx) error {
								return s.Emit(tx, webhook.Event{TenantID: tenant, Type: "run.completed", At: time.Now(), Data: func() (jsontext.Value, error) {
									return jsontext.Value(`{"run_id":"one","status":"completed"}`), nil
								}})
							})
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
