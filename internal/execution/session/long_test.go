package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/contextwindow"
	"agentd/internal/kernel/model"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// counting counts the statements of a store, and the rows that they return.
type counting struct {
	session.Store

	statements, rows int
}

func (c *counting) count(rows int) {
	c.statements++
	c.rows += rows
}

func (c *counting) Get(ctx context.Context, tenant, id string) (*session.Record, error) {
	c.count(1)
	return c.Store.Get(ctx, tenant, id)
}

func (c *counting) GetTurn(ctx context.Context, tenant, id string) (session.Turn, error) {
	c.count(1)
	return c.Store.GetTurn(ctx, tenant, id)
}

func (c *counting) GetUnfinished(ctx context.Context, tenant, id, branch string) (session.Turn, error) {
	c.count(1)
	return c.Store.GetUnfinished(ctx, tenant, id, branch)
}

func (c *counting) GetSummarizedTurn(ctx context.Context, tenant, id, branch string, through int64) (session.Turn, error) {
	c.count(1)
	return c.Store.GetSummarizedTurn(ctx, tenant, id, branch, through)
}

func (c *counting) ListBranches(ctx context.Context, tenant, id string) ([]session.Branch, error) {
	all, err := c.Store.ListBranches(ctx, tenant, id)
	c.count(len(all))
	return all, err
}

func (c *counting) ListTurns(ctx context.Context, tenant, id string) ([]session.Turn, error) {
	all, err := c.Store.ListTurns(ctx, tenant, id)
	c.count(len(all))
	return all, err
}

func (c *counting) ListTurnsBack(ctx context.Context, tenant, id, branch string, before int64, limit int) ([]session.Turn, error) {
	all, err := c.Store.ListTurnsBack(ctx, tenant, id, branch, before, limit)
	c.count(len(all))
	return all, err
}

func (c *counting) ListJournals(ctx context.Context, tenant string, ids []string) ([]run.Journal, error) {
	all, err := c.Store.ListJournals(ctx, tenant, ids)
	c.count(len(all))
	for i := range all {
		c.rows += len(all[i].Steps)
	}
	c.statements++ // runs, and their steps
	return all, err
}

// long is a session of many turns.
type long struct {
	*harness

	store *counting
	rec   *session.Record
	ids   []string
}

// newLong stores a session of n turns, each a message and an answer, and every 20th
// with a summary of all but the ten turns before it.
func newLong(tb testing.TB, db *sqldb.DB, n int, summaries bool) *long {
	tb.Helper()
	l := &long{harness: newHarness(tb, db)}
	l.store = &counting{Store: l.Deps.Store}
	l.Deps.Store = l.store
	l.Service = l.reconnected()
	l.rec = l.session()
	runs := runsql.New(db)
	for len(l.ids) < n {
		err := db.Write(tb.Context(), func(tx txn.Tx) error {
			for range min(250, n-len(l.ids)) {
				l.ids = append(l.ids, ident.New())
				if err := l.insert(tx, runs, summaries && len(l.ids)%20 == 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return l
}

func (l *long) insert(tx txn.Tx, runs *runsql.Store, summary bool) error {
	n, now := len(l.ids), l.clock.Now()
	id := l.ids[n-1]
	rec := &run.Record{Run: run.Run{
		RunID: id, TenantID: l.who.TenantID, AgentID: l.rec.AgentID, SessionID: &l.rec.SessionID, Status: run.Completed,
		Input: encoded(run.Input{Message: fmt.Sprint("question ", n)}), Metadata: schema.Object(`{}`), CreatedAt: now,
		Output: encoded(run.Output{Text: "answer"}),
	}}
	if err := runs.Create(rec)(tx); err != nil {
		return err
	}
	step := func(seq int64, kind run.StepType, in, out any) error {
		return runs.AppendStep(&run.Step{
			StepID: ident.New(), RunID: id, TenantID: l.who.TenantID, Seq: seq, Type: kind, Status: run.StepCompleted,
			StartedAt: now, CompletedAt: &now, Input: encoded(in), Output: encoded(out),
		})(tx)
	}
	if summary {
		replaced := run.CompactionInput{Compaction: contextwindow.Compaction{Messages: 20}, Through: &model.Origin{RunID: l.ids[n-11], StepSeq: 1}}
		if err := step(2, run.StepCompaction, replaced, run.CompactionOutput{Summary: "in short"}); err != nil {
			return err
		}
	}
	if err := step(1, run.StepLLM, nil, run.LLMOutput{Text: "answer"}); err != nil {
		return err
	}
	entries := int64(2)
	if summary {
		entries++
	}
	return l.store.CreateTurnTx(tx, l.who.TenantID, session.Turn{
		SessionID: l.rec.SessionID, Turn: int64(n), BranchID: session.Root, RunID: id, Finished: true, Entries: entries, Summarized: summary,
	})
}

// before reads what the run of a turn reads of the turns before it.
func (l *long) before(tb testing.TB, turn int, reach run.Reach) []model.Message {
	tb.Helper()
	rec := &run.Record{Run: run.Run{RunID: l.ids[turn-1], TenantID: l.who.TenantID, SessionID: &l.rec.SessionID}}
	messages, err := l.Before(tb.Context(), rec, reach)
	if err != nil {
		tb.Fatal(err)
	}
	return messages
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Turn 5,000 of a conversation reads at most twice what turn 50 reads, whatever the
// strategy, and so do a page and a session with its history.
func TestLongConversationsStayFlat(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		all := map[string]run.Reach{
			"sliding_window": {Messages: 6},
			"truncate":       {Tokens: 200},
			"both":           {Messages: 20, Tokens: 1 << 20},
		}
		t.Run("without summaries", func(t *testing.T) {
			t.Parallel()
			staysFlat(t, newLong(t, db, 5000, false), false, all)
		})
		summarized := map[string]run.Reach{
			"compaction":    {},
			"after_another": {Messages: 6}, // the agent's strategy made summaries once
		}
		t.Run("with summaries", func(t *testing.T) {
			t.Parallel()
			staysFlat(t, newLong(t, db, 5000, true), true, summarized)
		})
	})
}

// staysFlat checks what the 50th and the last of 5,000 turns read, by each reach.
func staysFlat(t *testing.T, l *long, summaries bool, reaches map[string]run.Reach) {
	t.Helper()
	const turns = 5000
	for name, reach := range reaches {
		read := func(turn int) (statements, rows int) {
			l.store.statements, l.store.rows = 0, 0
			if got := l.before(t, turn, reach); len(got) < 6 || got[len(got)-2].Text != fmt.Sprint("question ", turn-1) {
				t.Fatalf("%s: turn %d reads %d messages", name, turn, len(got))
			} else if got[0].Summary != summaries {
				t.Errorf("%s: turn %d reads %q first", name, turn, got[0].Text)
			}
			return l.store.statements, l.store.rows
		}
		s50, r50 := read(50)
		s5000, r5000 := read(turns)
		t.Logf("%s: turn 50: %d statements, %d rows; turn %d: %d, %d", name, s50, r50, turns, s5000, r5000)
		if s5000 > 2*s50 || r5000 > 2*r50 {
			t.Errorf("%s: turn 50 takes %d statements and %d rows, turn %d takes %d and %d", name, s50, r50, turns, s5000, r5000)
		}
	}
	l.checkPages(t)
}

// checkPages checks the pages of a long conversation: what the newest and one in the
// middle read, and that they join.
func (l *long) checkPages(t *testing.T) {
	t.Helper()
	l.store.statements, l.store.rows = 0, 0
	first, err := l.Messages(t.Context(), l.who.TenantID, l.rec.SessionID, "20", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Messages) != 20 || first.Total != 1000 || !first.TotalIsLowerBound || *first.HasMore != true {
		t.Errorf("the newest page: %d of %d, %v", len(first.Messages), first.Total, first.TotalIsLowerBound)
	}
	// The turns that are counted for the total are rows of a few numbers.
	const counted, page = 768, 160
	if l.store.rows > counted+page || l.store.statements > 20 {
		t.Errorf("the newest page takes %d statements and %d rows", l.store.statements, l.store.rows)
	}
	second, err := l.Messages(t.Context(), l.who.TenantID, l.rec.SessionID, "20", first.Cursor)
	if err != nil || len(second.Messages) != 20 || second.Messages[19].RunID == "" || second.Cursor == first.Cursor {
		t.Errorf("the next page: %d, %v", len(second.Messages), err)
	}
	got, err := l.Session(t.Context(), l.who.TenantID, l.rec.SessionID)
	if err != nil || len(got.History) != 100 || !got.HistoryTruncated || len(got.Runs) != len(l.ids) {
		t.Errorf("the session has %d entries (%v) and %d runs, %v", len(got.History), got.HistoryTruncated, len(got.Runs), err)
	}
}

// A turn of a conversation of 5,000 turns costs what one of 50 costs.
func BenchmarkTurn(b *testing.B) {
	for _, turn := range []int{50, 500, 5000} {
		b.Run(fmt.Sprint(turn), func(b *testing.B) {
			l := newLong(b, sqldbtest.Open(b, sqldbtest.Engines[0]), turn, false)
			for b.Loop() {
				l.before(b, turn, run.Reach{Messages: 6})
			}
		})
	}
}

// An export has every message and reads some runs at a time, and a public link
// shows the end of the conversation.
func TestLongConversationsAreExported(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		const turns = 700
		l := newLong(t, db, turns, false)
		var out struct {
			SessionID string `json:"session_id"`
			Messages  []struct {
				Content string `json:"content"`
			} `json:"messages"`
		}
		pieces, err := l.Export(t.Context(), l.who, l.rec.SessionID, "json")
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		for piece, err := range pieces {
			if err != nil {
				t.Fatal(err)
			}
			if body = append(body, piece...); len(body) == len(piece) {
				l.store.statements, l.store.rows = 0, 0 // the first piece is before the messages
			} else if l.store.rows > turns+200 && len(body) < 5000 {
				t.Fatalf("%d rows were read for %d bytes", l.store.rows, len(body))
			}
		}
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatalf("%v: %.300s", err, body)
		}
		last := out.Messages[len(out.Messages)-1]
		if len(out.Messages) != 2*turns || out.Messages[0].Content != "question 1" || last.Content != "answer" || out.SessionID != l.rec.SessionID {
			t.Errorf("%d messages, from %+v to %+v", len(out.Messages), out.Messages[0], last)
		}
		pieces, err = l.Export(t.Context(), l.who, l.rec.SessionID, "md")
		if err != nil {
			t.Fatal(err)
		}
		questions := 0
		for piece, err := range pieces {
			if err != nil {
				t.Fatal(err)
			}
			questions += strings.Count(string(piece), "question ")
		}
		if questions != turns {
			t.Errorf("%d questions in Markdown", questions)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if pieces, err = l.Export(ended, l.who, l.rec.SessionID, "json"); err == nil {
			for _, one := range pieces {
				err = errors.Join(err, one)
			}
		}
		if err == nil {
			t.Error("an export whose client left has no error")
		}

		link, err := l.Share(t.Context(), l.who, l.rec.SessionID)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := l.ReadShared(t.Context(), link)
		if err != nil || !shown.Truncated || len(shown.Messages) != 500 {
			t.Errorf("the link shows %d messages (%v), %v", len(shown.Messages), shown.Truncated, err)
		}
	})
}
