package reviewsql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/internal/base/clock"
	"agentd/internal/base/txn"
	"agentd/internal/execution/review"
	"agentd/internal/execution/review/reviewsql"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, db *sqldb.DB, op func(tx txn.Tx) error) {
	t.Helper()
	if err := db.Write(t.Context(), op); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointsAndFeedback(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, at := reviewsql.New(db), time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
		c := review.Checkpoint{
			TenantID: "a", RunID: "r", CheckpointID: "c1", Step: 2, StepSeq: 2, Status: run.Running,
			Metrics: run.Metrics{InputTokens: 7}, CreatedBy: "u", CreatedAt: at,
		}
		write(t, db, func(tx txn.Tx) error { return s.CreateCheckpointTx(tx, &c) })
		got, err := s.ListCheckpoints(t.Context(), "a", "r", 10)
		if diff := cmp.Diff([]review.Checkpoint{c}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if other, _ := s.ListCheckpoints(t.Context(), "b", "r", 10); len(other) != 0 {
			t.Errorf("another tenant sees %v", other)
		}
		f := review.Feedback{TenantID: "a", RunID: "r", MessageID: "m", UserID: "u", Reaction: "down", Reason: "x", UpdatedAt: at}
		again, second := f, f
		again.Reaction, again.Reason, second.UserID = "up", "", "v"
		for _, one := range []review.Feedback{f, again, second} {
			write(t, db, func(tx txn.Tx) error { return s.PutFeedbackTx(tx, &one) })
		}
		for _, asked := range []struct {
			message, user string
			want          []review.Feedback
		}{
			{"", "", []review.Feedback{again, second}},
			{"m", "u", []review.Feedback{again}},
			{"", "v", []review.Feedback{second}},
			{"n", "", []review.Feedback{}},
		} {
			got, err := s.ListFeedback(t.Context(), "a", "r", asked.message, asked.user, 10)
			if diff := cmp.Diff(asked.want, got); diff != "" || err != nil {
				t.Errorf("%v: %v %v", asked, diff, err)
			}
		}
		write(t, db, func(tx txn.Tx) error { return s.DeleteFeedbackTx(tx, "a", "r", "m", "u") })
		if left, err := s.ListFeedback(t.Context(), "a", "r", "", "", 10); len(left) != 1 || err != nil {
			t.Errorf("%v %v", left, err)
		}
	})
}

func TestCountAhead(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		s, q := reviewsql.New(db), worksql.New(db, clock.System{}, func(string) {})
		past := time.Now().Add(-time.Hour)
		write(t, db, func(tx txn.Tx) error {
			return q.EnqueueTx(tx,
				work.Item{Kind: "run", Key: "1", TenantID: "a", Due: past}, work.Item{Kind: "run", Key: "2", TenantID: "b", Due: past},
				work.Item{Kind: "other", Key: "3", TenantID: "a", Due: past}, work.Item{Kind: "run", Key: "4", TenantID: "a", Due: past.Add(time.Minute)})
		})
		for key, want := range map[string]int{"1": 0, "4": 1} {
			if n, waits, err := s.CountAhead(t.Context(), "run", key, 10); n != want || !waits || err != nil {
				t.Errorf("%s: %d %v %v", key, n, waits, err)
			}
		}
		if n, waits, err := s.CountAhead(t.Context(), "run", "none", 10); n != 0 || waits || err != nil {
			t.Errorf("no item: %d %v %v", n, waits, err)
		}
	})
}
