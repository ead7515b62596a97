package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/tool"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
)

// The limits that the engine must keep.

// inside is a model client within this process.
type inside func(model.Request) model.Response

func (f inside) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	resp := f(req)
	resp.Model = "sim-model"
	resp.Usage = model.Usage{InputTokens: 1234, OutputTokens: len(resp.Text) / 4}
	resp.FinishReason = model.FinishStop
	if len(resp.ToolCalls) > 0 {
		resp.FinishReason = model.FinishToolCalls
	}
	if sink != nil {
		for piece := range strings.SplitAfterSeq(resp.Text, " ") {
			sink(model.Delta{Text: piece})
		}
	}
	return resp, ctx.Err()
}

func resultsIn(req model.Request) (n int) {
	for _, m := range req.Messages {
		if m.Role == model.Tool {
			n++
		}
	}
	return n
}

// A run that waits for a person costs its rows and nothing else: no goroutine and
// no memory.
func TestTenThousandWaitingRuns(t *testing.T) { // alone: it counts the goroutines of the process
	if testing.Short() {
		t.Skip("makes 10,000 runs")
	}
	const many, makers, mostBytes = 10_000 / slower, 128, 50 << 20
	r := newHarness(t, sqldbtest.Open(t, sqldbtest.SQLite))
	r.tools = []tool.Tool{echoing("pay")}
	r.agents.spec.Tools, r.agents.spec.ApprovalTools = []string{"pay"}, []string{"pay"}
	r.agents.spec.ApprovalTimeout = 1000 * time.Hour
	r.client = inside(func(req model.Request) model.Response {
		if resultsIn(req) > 0 {
			return model.Response{Text: "Paid."}
		}
		return model.Response{Text: "Paying.", ToolCalls: []model.ToolCall{call("p", "pay", `{"amount":500}`)}}
	})
	n := r.start("n", makers, nil)
	first := n.begin(run.Request{})
	n.reaches(first.RunID, run.AwaitingApproval)
	goroutines, heap := settled(t, 0)

	var running sync.WaitGroup
	for range makers {
		running.Go(func() {
			for range many / makers {
				if t.Failed() {
					return
				}
				if _, err := n.Create(t.Context(), r.who, run.Request{AgentID: r.agents.spec.ID, Input: first.Input}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range many % makers {
		n.begin(run.Request{})
	}
	running.Wait()
	waiting := func() (count int) {
		row := r.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM runs WHERE tenant_id = ? AND status = ?`, r.who.TenantID, string(run.AwaitingApproval))
		if err := row.Scan(&count); err != nil {
			t.Fatal(err)
		}
		return count
	}
	for end := time.Now().Add(90 * time.Second); waiting() < many+1 && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
	}
	if count := waiting(); count != many+1 {
		t.Fatalf("%d runs wait, want %d", count, many+1)
	}

	after, grown := settled(t, goroutines)
	t.Logf("%d runs wait: %d goroutines, %d before; %.1f MiB, %.1f before", many, after, goroutines, float64(grown)/(1<<20), float64(heap)/(1<<20))
	if after > goroutines {
		t.Errorf("%d runs that wait hold %d goroutines", many, after-goroutines)
	}
	if grown > heap+mostBytes {
		t.Errorf("%d runs that wait hold %d bytes", many, grown-heap)
	}
	if _, err := n.Approve(t.Context(), r.who, first.RunID, run.ApproveRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := n.end(first.RunID); got.Status != run.Completed || r.output(got).Text != "Paid." {
		t.Errorf("%s: %v", got.Status, ptr.Value(got.Error))
	}
	if left := waiting(); left != many {
		t.Errorf("%d still wait, want %d", left, many)
	}
}

// settled returns the number of goroutines and the heap bytes in use. Goroutines
// of work that just ended may take a moment to end: it waits, within a limit,
// until there are want of them.
func settled(t *testing.T, want int) (goroutines int, heap uint64) {
	t.Helper()
	for range 500 {
		if want == 0 || runtime.NumGoroutine() <= want {
			break
		}
		<-time.After(2 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools held goes with the second
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// A run stores little beyond its messages, calls and results.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	const calls = 100
	words := func(bytes int, sep string) string {
		return strings.Repeat("A sentence of plain words, as they are usually found in one."+sep, bytes/61+1)[:bytes]
	}
	said := words(300, " ")
	arguments := func(n int) string { return fmt.Sprintf(`{"query":"%d %s"}`, 1000+n, words(183, " ")) }
	for _, c := range []struct {
		name     string
		streamed bool
		found    string
		atMost   float64
	}{
		{"results_of_2_KiB", false, words(2<<10, "\n"), 1.53},
		{"results_of_2_KiB_streamed", true, words(2<<10, "\n"), 1.58},
		{"results_of_8_KiB_streamed", true, words(8<<10, "\n"), 1.2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
				r := newHarness(t, db)
				r.window = 1 << 24 // nothing is compacted
				r.tools = []tool.Tool{{
					Name: "look", Parameters: jsontext.Value(`{"type":"object"}`),
					Run: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: c.found}, nil },
				}}
				r.agents.spec.Tools = []string{"look"}
				r.client = inside(func(req model.Request) model.Response {
					resp := model.Response{Text: said}
					n := resultsIn(req)
					next := func() {
						resp.ToolCalls = append(resp.ToolCalls, call(fmt.Sprintf("call_%024d", n), "look", arguments(n)))
						n++
					}
					if n == 0 {
						next() // the first turn has two, so that as many turns make as many calls and an answer
					}
					if n < calls {
						next()
					}
					return resp
				})
				n := r.start("n", 4, nil)
				started := n.begin(run.Request{Options: run.Options{Plain: !c.streamed}})
				got := n.end(started.RunID)
				if steps := len(r.steps(got.RunID)); got.Status != run.Completed || steps != 2*calls {
					t.Fatalf("%s (%v) with %d steps", got.Status, ptr.Value(got.Error), steps)
				}
				payload := calls*(len(said)+len(arguments(0))+len(c.found)) + len(got.Input)
				stored := 0
				var table strings.Builder
				for _, of := range []string{"runs", "run_steps", "run_events"} {
					sizes := columnBytes(t, db, of, got.RunID)
					for _, c := range slices.Sorted(maps.Keys(sizes)) {
						stored += sizes[c]
						fmt.Fprintf(&table, "%-12s %-14s %7d\n", of, c, sizes[c])
					}
				}
				ratio := float64(stored) / float64(payload)
				t.Logf("%d bytes were said, %d are stored: %.3f\n%s", payload, stored, ratio, table.String())
				if ratio > c.atMost {
					t.Errorf("a run stores %.3f times what was said, want at most %.2f", ratio, c.atMost)
				}
			})
		})
	}
}

// columnBytes returns the bytes of a run in each column of a table.
func columnBytes(t *testing.T, db *sqldb.DB, table, id string) map[string]int {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT * FROM `+table+` WHERE run_id = ?`, id)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	values, into := make([]sql.RawBytes, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			sizes[name] += len(values[i])
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return sizes
}
