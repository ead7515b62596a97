// Package objectivetest has the world in which missions and initiatives are tested: a
// real database, whose commits and answers are lost at random, and agents that answer
// when the simulation lets them.
package objectivetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/schema"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/execution/run/runsql"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/worksql"
	"agentd/internal/teams/objective"
	"agentd/internal/teams/objective/objectivesql"
)

// World is a world of one company.
type World struct {
	*sqldb.DB
	T       *testing.T
	Rand    *rand.Rand
	Crashes float64 // share of calls after which the worker is gone
	Clock   *clock.Fake
	Queue   *worksql.Queue
	Purse   *runsql.Store
	Crew    *objective.Crew
	Tenant  string

	// Answer returns what an agent answers, and the error code of a run that fails.
	Answer func(agent string, in run.Input) (text, code string)
	// CostUSD is what each run costs.
	CostUSD float64

	Stored  map[string]*run.Run
	Created map[string]int         // by run
	Asked   map[string]run.Request // by run
}

// ErrCrash is the error of what a killed worker did.
var ErrCrash = errors.New("the process was killed")

// New returns a world on a database.
func New(t *testing.T, db *sqldb.DB, seed uint64, crashes float64) *World {
	t.Helper()
	w := &World{
		DB: db, T: t, Rand: rand.New(rand.NewPCG(seed, 1)), Crashes: crashes, Clock: clock.NewFake(), Tenant: ident.New(),
		Purse: runsql.New(db), Stored: map[string]*run.Run{}, Created: map[string]int{}, Asked: map[string]run.Request{},
	}
	w.Queue = worksql.New(db, w.Clock, func(string) {})
	w.Crew = &objective.Crew{
		Store: objectivesql.New(db), Runs: w, Purse: w.Purse, Writer: w, Queue: w.Queue, Log: runsql.NewEvents(db), Hub: event.NewHub(),
		Clock: w.Clock, Lease: time.Minute, Unfinished: w.unfinished,
	}
	return w
}

func (w *World) crash() bool { return w.Rand.Float64() < w.Crashes }

// Write implements txn.Writer: the process may die before and after each commit.
func (w *World) Write(ctx context.Context, do func(txn.Tx) error) error {
	if w.crash() {
		return ErrCrash
	}
	if err := w.DB.Write(ctx, do); err != nil {
		return err
	}
	if w.crash() {
		return ErrCrash
	}
	return nil
}

// Create implements group.Runs.
func (w *World) Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if w.crash() {
		return nil, ErrCrash
	}
	if w.Stored[req.RunID] != nil {
		return nil, fault.New(fault.Conflict, "ALREADY_EXISTS", "There is one.")
	}
	r := &run.Run{RunID: req.RunID, TenantID: who.TenantID, AgentID: req.AgentID, Status: run.Running, Input: req.Input, Metadata: req.Metadata}
	if err := w.DB.Write(ctx, func(tx txn.Tx) error { _, err := req.Admit(tx, &run.Record{Run: *r}); return err }); err != nil {
		return nil, err
	}
	w.Stored[req.RunID], w.Asked[req.RunID] = r, req
	w.Created[req.RunID]++
	if w.crash() {
		return nil, ErrCrash
	}
	return r, nil
}

// Get implements group.Runs.
func (w *World) Get(_ context.Context, _, id string) (*run.Run, error) {
	if r := w.Stored[id]; r != nil {
		c := *r
		return &c, nil
	}
	return nil, fault.NewNotFound("run")
}

// Cancel implements group.Runs.
func (w *World) Cancel(_ context.Context, _, id string) (run.CancelAnswer, error) {
	r := w.Stored[id]
	if r == nil {
		return run.CancelAnswer{}, fault.NewNotFound("run")
	}
	if !r.Status.Final() {
		r.Status = run.Cancelled
	}
	return run.CancelAnswer{Cancelled: true, RunID: id}, nil
}

func (w *World) unfinished(_ txn.Tx, _ string, ids []string) (n int, err error) {
	for _, id := range ids {
		if r := w.Stored[id]; r != nil && !r.Status.Final() {
			n++
		}
	}
	return n, nil
}

// Do writes without crashes.
func (w *World) Do(do func(txn.Tx) error) {
	w.T.Helper()
	if err := w.DB.Write(w.T.Context(), do); err != nil {
		w.T.Fatal(err)
	}
}

// Drive lets a node work on what is due of a kind, and reports whether anything was.
func (w *World) Drive(kind, node string, handle work.Handler) bool {
	w.T.Helper()
	leases, err := w.Queue.Claim(w.T.Context(), kind, node, 1, time.Minute)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, l := range leases {
		if err := handle(w.T.Context(), l); err != nil && !errors.Is(err, ErrCrash) && !errors.Is(err, work.ErrLost) {
			w.T.Fatal(err)
		}
	}
	return len(leases) > 0
}

// Open returns the runs that have not ended, in an order that is the same each time.
func (w *World) Open() (ids []string) {
	for id, r := range w.Stored {
		if !r.Status.Final() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// End ends a run as its agent answers, and wakes what waits for it.
func (w *World) End(id string) {
	w.T.Helper()
	r, req := w.Stored[id], w.Asked[id]
	var in run.Input
	if err := json.Unmarshal(r.Input, &in); err != nil {
		w.T.Fatal(err)
	}
	text, code := w.Answer(r.AgentID, in)
	if code != "" {
		why := "It broke."
		r.Status, r.ErrorCode, r.Error = run.Failed, code, &why
	} else {
		output, err := json.Marshal(run.Output{Text: text, Sources: req.Options.Sources})
		if err != nil {
			w.T.Fatal(err)
		}
		r.Status, r.Output = run.Completed, schema.Nullable(output)
	}
	cost := w.CostUSD
	r.Metrics = run.Metrics{InputTokens: 6, OutputTokens: 4, LLMCallsCount: 1, TotalCostUSD: &cost}
	w.Do(func(tx txn.Tx) error {
		if err := w.Purse.Settle(w.Tenant, req.Budgets, 0, run.NanoUSD(cost))(tx); err != nil {
			return err
		}
		return w.Queue.EnqueueTx(tx, work.Item{Kind: req.Wakes.Kind, Key: req.Wakes.Key, TenantID: w.Tenant, Due: w.Clock.Now()})
	})
}

// Settle lets nodes work and agents answer, in an order that follows from the seed, until
// done.
func (w *World) Settle(kind string, handle work.Handler, done func() bool) {
	w.T.Helper()
	for range 20_000 {
		if done() {
			return
		}
		switch w.Rand.IntN(4) {
		case 0:
			if open := w.Open(); len(open) > 0 {
				w.End(open[w.Rand.IntN(len(open))])
			}
		case 1:
			if w.Crashes > 0 {
				w.Clock.Advance(time.Duration(w.Rand.IntN(40)) * time.Second) // leases of killed workers end
			}
		default:
			w.Drive(kind, []string{"n1", "n2"}[w.Rand.IntN(2)], handle)
		}
	}
	w.T.Fatal("it does not end")
}

// Events returns the events of a stream, and checks that there is none twice and none
// missing.
func (w *World) Events(id string, last int64) (all []event.Event, counts map[string]int) {
	w.T.Helper()
	counts = map[string]int{}
	all, err := w.Crew.Log.Read(w.T.Context(), w.Tenant, id, 0, 10_000)
	if err != nil || int64(len(all)) != last {
		w.T.Errorf("%d events of %d, %v", len(all), last, err)
	}
	for i, e := range all {
		counts[e.Name]++
		if e.Seq != int64(i+1) {
			w.T.Errorf("event %d has the seq %d", i+1, e.Seq)
		}
	}
	return all, counts
}
