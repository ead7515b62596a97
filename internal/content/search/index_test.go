package search_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/content/search"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
)

// items counts what is left of the work of search.
func (r *rig) items() (n int) {
	r.t.Helper()
	r.fatal(r.db.QueryRow(r.t.Context(), `SELECT COUNT(*) FROM work WHERE kind = ?`, search.WorkKind).Scan(&n))
	return n
}

// docs counts documents.
func (r *rig) docs() (n int) {
	r.t.Helper()
	r.fatal(r.db.QueryRow(r.t.Context(), `SELECT COUNT(*) FROM search_docs`).Scan(&n))
	return n
}

// A run whose end becomes visible long after others that ended later is found
// by the second look, after which nothing is left to do.
func TestSecondLook(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		before := r.clock.Now()
		first := r.run(tenant, "", "first", "")
		r.work()
		r.ids(r.who, "first", "", first)
		r.clock.Advance(30 * time.Second)
		r.run(tenant, "", "another", "")
		r.work()
		late := r.runAt(tenant, "", "late", "", before)
		r.clock.Advance(time.Second)
		r.work()
		r.ids(r.who, "late", "")
		if r.items() != 1 {
			t.Fatalf("%d items of work remain for the second look", r.items())
		}
		for range 3 {
			r.clock.Advance(75 * time.Second)
			r.due(r.Service)
		}
		r.ids(r.who, "late", "", late)
		if r.items() != 0 {
			t.Errorf("%d items of work remain", r.items())
		}
		n := r.docs()
		r.work()
		if r.docs() != n {
			t.Errorf("there are %d documents, and then %d", n, r.docs())
		}
	})
}

// What is older than the search is found by it, and what ends meanwhile is
// found first.
func TestOlderThings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tenant := r.who.TenantID
		var old []string
		for range 600 {
			old = append([]string{r.run(tenant, "", "olden days", "")}, old...)
			r.clock.Advance(time.Minute)
		}
		g, s := r.agent(tenant, "olden agent", ""), r.session(tenant, `{"title":"olden session"}`)
		r.write(func(tx txn.Tx) error { // what they left is lost
			_, err := sqldb.From(tx).Exec(`DELETE FROM work`)
			return err
		})
		r.clock.Advance(time.Hour)
		fresh := r.run(tenant, "", "fresh days", "")
		r.work()
		if n := r.docs(); n != 603 {
			t.Errorf("there are %d documents", n)
		}
		r.ids(r.who, "olden", search.Run, old[:50]...)
		r.ids(r.who, "olden", search.Agent, g)
		r.ids(r.who, "olden", search.Session, s.SessionID)
		r.ids(r.who, "fresh", "", fresh)
	})
}

// Whatever a node died over, another goes on with, and nothing is found twice.
func TestNodesThatDie(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for range 100 {
			r.run(r.who.TenantID, "", "word", "")
		}
		r.nudge()
		held, err := r.queue.Claim(t.Context(), search.WorkKind, "dead", 1, lease)
		r.fatal(err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Handle(ctx, held[0]); err == nil {
			t.Error("a stopped node is done")
		}
		r.clock.Advance(lease + time.Second)
		r.due(r.node())
		if n := r.docs(); n != 100 {
			t.Errorf("there are %d documents", n)
		}
		// The first one wakes up, and is fenced off.
		r.run(r.who.TenantID, "", "word", "")
		if err := r.Handle(t.Context(), held[0]); err == nil {
			t.Error("who lost the lease went on")
		}
		if n := r.docs(); n != 100 {
			t.Errorf("there are %d documents", n)
		}
		r.work()
		if n := r.docs(); n != 101 {
			t.Errorf("there are %d documents", n)
		}
	})
}

// However the end of a run and that of the work fall together, the run is found
// without another one having to end.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 60 {
				r.run(r.who.TenantID, "", "word", "")
				r.nudge()
			}
		})
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			for _, node := range []*search.Service{r.Service, r.node()} {
				r.due(node)
			}
		}
		if n := r.docs(); n != 60 {
			t.Errorf("there are %d documents of 60", n)
		}
	})
}

// spy is a Store that calls looks before rest looks for what is left, and counts what
// is read in transactions.
type spy struct {
	search.Store

	looks func()
	inTx  int
}

func (s *spy) ListEnded(ctx context.Context, after search.Mark, until time.Time, limit int) ([]search.Place, error) {
	found, err := s.Store.ListEnded(ctx, after, until, limit)
	if limit == 1 && s.looks != nil {
		s.looks()
	}
	return found, err
}

func (s *spy) ListEndedTx(tx txn.Tx, after search.Mark, limit int) ([]search.Place, error) {
	s.inTx += limit
	return s.Store.ListEndedTx(tx, after, limit)
}

// What has ended is looked for outside of transactions, which would hold the one
// writer of SQLite: inside is one row, and only where nothing is left.
func TestWhatLooksDoesNotHoldTheWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		s := &spy{Store: r.Store}
		r.Store = s
		for range 300 {
			r.run(r.who.TenantID, "", "word", "")
		}
		r.work()
		if n := r.docs(); n != 300 || s.inTx != 0 {
			t.Errorf("%d documents, and %d rows were asked for in transactions", n, s.inTx)
		}
		for range 3 {
			r.clock.Advance(75 * time.Second)
			r.due(r.Service)
		}
		if r.items() != 0 || s.inTx != 1 {
			t.Errorf("%d items remain, and %d rows were asked for in transactions", r.items(), s.inTx)
		}
	})
}

// A run that ends while the item is held leaves no item of its own, and is found at
// once all the same: also where the item was about to be deleted.
func TestEndsWhileTheItemIsHeld(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		s := &spy{Store: r.Store}
		r.Store = s
		want := 0
		s.looks = func() {
			s.looks = nil
			r.run(r.who.TenantID, "", "word", "")
			r.nudge()
			want++
		}
		once := s.looks
		r.work()
		s.looks = once // the mark is behind the run now, which is the second case
		r.work()
		r.due(r.Service)
		if n := r.docs(); n != want || want != 2 {
			t.Errorf("there are %d documents of %d", n, want)
		}
	})
}

// seeing is a Texts that reports each read.
type seeing struct {
	search.Texts

	read func()
}

func (s seeing) ListTexts(ctx context.Context, tenant string, ids []string) ([]run.Run, error) {
	s.read()
	return s.Texts.ListTexts(ctx, tenant, ids)
}

func TestLag(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		var lags []time.Duration
		r.Texts = seeing{r.Texts, func() { lags = append(lags, r.Lag()) }}
		for range search.ReadRuns { // they are read at once
			r.run(r.who.TenantID, "", "word", "")
		}
		r.clock.Advance(7 * time.Second)
		r.run(r.who.TenantID, "", "word", "")
		r.work()
		if len(lags) != 2 || lags[0] != 7*time.Second || r.Lag() != 0 {
			t.Errorf("the lag was %v, and is %v", lags, r.Lag())
		}
	})
}

// The end of a run writes nothing for the search.
func TestRunsPayNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		tx := &counting{}
		for _, status := range run.Statuses {
			r.fatal(r.OnRunState(tx, &run.Record{Run: run.Run{RunID: ident.New(), Status: status}}))
		}
		if tx.hints != 6 {
			t.Errorf("%d hints for 6 ends", tx.hints)
		}
	})
}

// counting is a transaction that nobody can write in.
type counting struct {
	txn.Tx

	hints int
}

func (c *counting) AfterCommit(func()) { c.hints++ }

// Serve leaves one item for many ends, and more for later ones.
func TestServe(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Serve(ctx) }()
		wait := func() work.Lease {
			for {
				held, err := r.queue.Claim(t.Context(), search.WorkKind, "node", 10, lease)
				r.fatal(err)
				if len(held) > 0 {
					return held[0]
				}
			}
		}
		r.fatal(r.Handle(t.Context(), wait())) // what a start leaves
		id := r.run(r.who.TenantID, "", "served", "")
		for range 1000 {
			r.write(func(tx txn.Tx) error { return r.OnRunState(tx, &run.Record{Run: run.Run{Status: run.Completed}}) })
		}
		r.fatal(r.Handle(t.Context(), wait()))
		r.ids(r.who, "served", "", id)
		cancel()
		<-ended
	})
}
