package sqldb_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"agentd/internal/base/txn"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

const (
	benchTable  = "CREATE TABLE bench (id BIGINT PRIMARY KEY, model TEXT NOT NULL, status TEXT NOT NULL, input TEXT NOT NULL, created BIGINT NOT NULL)"
	benchInsert = "INSERT INTO bench (id, model, status, input, created) VALUES (?, ?, ?, ?, ?)"
	benchSelect = "SELECT id, model, status, input, created FROM bench WHERE id = ?"
)

var benchInput = strings.Repeat("x", 300)

// BenchmarkWrite is one INSERT in a Write of its own: ns/op is the time for
// each closure when so many goroutines write.
func BenchmarkWrite(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		for _, clients := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/clients-%d", engine, clients), func(b *testing.B) {
				db := sqldbtest.Open(b, engine)
				exec(b, db, benchTable)
				parallel(b, clients, func(id int64) error {
					return db.Write(b.Context(), func(tx txn.Tx) error {
						_, err := sqldb.From(tx).Exec(benchInsert, id, "m", "running", benchInput, id)
						return err
					})
				})
			})
		}
	}
}

// BenchmarkWriteFloor is the same with the least code that groups: what
// database/sql and a channel allow.
func BenchmarkWriteFloor(b *testing.B) {
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("clients-%d", clients), func(b *testing.B) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "floor.db")+
				"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			if _, err := db.Exec(benchTable); err != nil {
				b.Fatal(err)
			}
			insert, err := db.Prepare(benchInsert)
			if err != nil {
				b.Fatal(err)
			}
			type job struct {
				id   int64
				done chan error
			}
			jobs := make(chan job, 1024)
			defer close(jobs)
			go func() {
				for j := range jobs {
					group := []job{j}
				more:
					for len(group) < 256 {
						select {
						case k := <-jobs:
							group = append(group, k)
						default:
							break more
						}
					}
					tx, err := db.Begin()
					for _, k := range group {
						if err == nil {
							_, err = tx.Stmt(insert).Exec(k.id, "m", "running", benchInput, k.id)
						}
					}
					if err == nil {
						err = tx.Commit()
					}
					for _, k := range group {
						k.done <- err
					}
				}
			}()
			parallel(b, clients, func(id int64) error {
				j := job{id, make(chan error, 1)}
				jobs <- j
				return <-j.done
			})
		})
	}
}

// BenchmarkStatement is one statement of a long transaction.
func BenchmarkStatement(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		b.Run(string(engine), func(b *testing.B) {
			db := sqldbtest.Open(b, engine)
			exec(b, db, benchTable)
			b.ReportAllocs()
			if err := db.Write(b.Context(), func(tx txn.Tx) error {
				b.ResetTimer()
				for id := range b.N {
					if _, err := sqldb.From(tx).Exec(benchInsert, id, "m", "running", benchInput, id); err != nil {
						return err
					}
				}
				b.StopTimer()
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkRead is one row by its key.
func BenchmarkRead(b *testing.B) {
	for _, engine := range sqldbtest.Engines {
		for _, clients := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/clients-%d", engine, clients), func(b *testing.B) {
				db := sqldbtest.Open(b, engine)
				exec(b, db, benchTable)
				exec(b, db, benchInsert, 1, "m", "running", benchInput, 1)
				parallel(b, clients, func(int64) error {
					var id, created int64
					var model, status string
					var input []byte
					return db.QueryRow(b.Context(), benchSelect, 1).Scan(&id, &model, &status, &input, &created)
				})
			})
		}
	}
}

// parallel reports the processor's time too, which does not depend on what
// else the machine does.
func parallel(b *testing.B, clients int, op func(id int64) error) {
	b.ReportAllocs()
	start := processorTime()
	defer func() { b.ReportMetric(float64(processorTime()-start)/float64(b.N), "cpu-ns/op") }()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for id := next.Add(1); id <= int64(b.N); id = next.Add(1) {
				if err := op(id); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func processorTime() (ns int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
