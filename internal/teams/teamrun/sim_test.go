package teamrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
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
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
	"agentd/internal/teams/team"
	"agentd/internal/teams/teamrun"
	"agentd/internal/teams/teamrun/teamrunsql"
)

// world is what teams run in: a real database, whose commits and answers are lost at
// random, and agents that answer when the simulation says so.
type world struct {
	*sqldb.DB
	t       *testing.T
	rng     *rand.Rand
	crashes float64 // share of calls after which the worker is gone
	clock   *clock.Fake
	queue   *worksql.Queue
	store   *teamrunsql.Store
	service *teamrun.Service
	tenant  string

	runs    map[string]*run.Run
	created map[string]int // by run
	failing map[string]bool
	before  func() // a run is stored; nil: nothing
}

const maxConcurrency = 2

var errCrash = errors.New("the process was killed")

func newWorld(t *testing.T, seed uint64, crashes float64) *world {
	t.Helper()
	db := sqldbtest.Open(t, sqldbtest.SQLite)
	w := &world{
		DB: db, t: t, rng: rand.New(rand.NewPCG(seed, 1)), crashes: crashes, clock: clock.NewFake(), store: teamrunsql.New(db),
		tenant: ident.New(), runs: map[string]*run.Run{}, created: map[string]int{}, failing: map[string]bool{},
	}
	w.queue = worksql.New(db, w.clock, func(string) {})
	w.service = &teamrun.Service{
		Store: w.store, Runs: w, Writer: w, Queue: w.queue, Log: runsql.NewEvents(db), Hub: event.NewHub(), Clock: w.clock,
		Lease: time.Minute, Unfinished: w.unfinished,
	}
	return w
}

func (w *world) crash() bool { return w.rng.Float64() < w.crashes }

// Write implements txn.Writer: the process may die before and after each commit.
func (w *world) Write(ctx context.Context, do func(txn.Tx) error) error {
	if w.crash() {
		return errCrash
	}
	if err := w.DB.Write(ctx, do); err != nil {
		return err
	}
	if w.crash() {
		return errCrash
	}
	return nil
}

// Create implements group.Runs.
func (w *world) Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error) {
	if w.before != nil {
		w.before()
	}
	if w.crash() {
		return nil, errCrash
	}
	if w.runs[req.RunID] != nil {
		return nil, fault.New(fault.Conflict, "ALREADY_EXISTS", "There is one.")
	}
	r := &run.Run{RunID: req.RunID, TenantID: who.TenantID, AgentID: req.AgentID, Status: run.Running, Input: req.Input, Metadata: schema.Object(req.Wakes.Key)}
	if err := w.DB.Write(ctx, func(tx txn.Tx) error { _, err := req.Admit(tx, &run.Record{Run: *r}); return err }); err != nil {
		return nil, err
	}
	under := 0
	for _, one := range w.runs {
		if string(one.Metadata) == req.Wakes.Key && !one.Status.Final() {
			under++
		}
	}
	if under >= maxConcurrency {
		w.t.Errorf("%d runs of a team that may have %d at a time", under+1, maxConcurrency)
	}
	w.runs[req.RunID] = r
	w.created[req.RunID]++
	if w.crash() {
		return nil, errCrash
	}
	return r, nil
}

// Get implements group.Runs.
func (w *world) Get(_ context.Context, _, id string) (*run.Run, error) {
	if r := w.runs[id]; r != nil {
		c := *r
		return &c, nil
	}
	return nil, fault.NewNotFound("run")
}

// Cancel implements group.Runs.
func (w *world) Cancel(_ context.Context, _, id string) (run.CancelAnswer, error) {
	r := w.runs[id]
	if r == nil {
		return run.CancelAnswer{}, fault.NewNotFound("run")
	}
	if !r.Status.Final() {
		r.Status = run.Cancelled
	}
	return run.CancelAnswer{Cancelled: true, RunID: id}, nil
}

func (w *world) unfinished(_ txn.Tx, _ string, ids []string) (n int, err error) {
	for _, id := range ids {
		if r := w.runs[id]; r != nil && !r.Status.Final() {
			n++
		}
	}
	return n, nil
}

// begin stores a run of a team.
func (w *world) begin(spec teamrun.Spec) string {
	w.t.Helper()
	r := teamrun.Record{
		TenantID: w.tenant, TeamRunID: ident.New(), TeamID: "team", Status: teamrun.Pending, Spec: spec, Message: "go",
		Metadata: schema.Object("{}"), CreatedAt: w.clock.Now(),
	}
	err := w.DB.Write(w.t.Context(), func(tx txn.Tx) error {
		if err := w.store.CreateTx(tx, &r); err != nil {
			return err
		}
		return w.queue.EnqueueTx(tx, work.Item{Kind: teamrun.WorkKind, Key: r.TeamRunID, TenantID: w.tenant, Due: w.clock.Now()})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.TeamRunID
}

// drive lets a node work on a team run that is due, and reports whether one was.
func (w *world) drive(node string) bool {
	w.t.Helper()
	leases, err := w.queue.Claim(w.t.Context(), teamrun.WorkKind, node, 1, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range leases {
		if err := w.service.Handle(w.t.Context(), l); err != nil && !errors.Is(err, errCrash) && !errors.Is(err, work.ErrLost) {
			w.t.Fatal(err)
		}
	}
	return len(leases) > 0
}

// answer ends a run that an agent does, and wakes its team. The agent says its name and
// the message, as far as the first line.
func (w *world) answer() bool {
	w.t.Helper()
	var under []string
	for id, r := range w.runs {
		if !r.Status.Final() {
			under = append(under, id)
		}
	}
	if len(under) == 0 {
		return false
	}
	slices.Sort(under)
	r := w.runs[under[w.rng.IntN(len(under))]]
	var in run.Input
	if err := json.Unmarshal(r.Input, &in); err != nil {
		w.t.Fatal(err)
	}
	text, _, _ := strings.Cut(in.Message, "\n")
	text = r.AgentID + "(" + text + ")"
	switch {
	case strings.Contains(in.Instructions, "Judge whether"):
		text = `{"reached":` + strconv.FormatBool(w.later(r)) + `}`
	case strings.Contains(in.Instructions, "Score the answer"):
		text = `{"scores":{"c":1}}`
	case strings.Contains(in.Instructions, "votes for"):
		text = `{"vote":2}`
	}
	output, err := json.Marshal(run.Output{Text: text})
	if err != nil {
		w.t.Fatal(err)
	}
	r.Status, r.Output = run.Completed, output
	if !w.failing[r.RunID] && w.rng.IntN(10) == 0 { // a retry succeeds
		r.Status, r.Output = run.Failed, nil
	}
	w.failing[r.RunID] = true
	if err := w.DB.Write(w.t.Context(), func(tx txn.Tx) error {
		return w.queue.EnqueueTx(tx, work.Item{Kind: teamrun.WorkKind, Key: string(r.Metadata), TenantID: w.tenant, Due: w.clock.Now()})
	}); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// later reports whether the team of a run is in a second round.
func (w *world) later(of *run.Run) bool {
	for _, r := range w.runs {
		if string(r.Metadata) == string(of.Metadata) && strings.Contains(string(r.Input), "[What is missing]") {
			return true
		}
	}
	return false
}

func (w *world) settle(ids []string) {
	w.t.Helper()
	for range 20_000 {
		open := 0
		for _, id := range ids {
			if r, err := w.store.Get(w.t.Context(), w.tenant, id); err != nil {
				w.t.Fatal(err)
			} else if !r.Status.Final() {
				open++
			}
		}
		if open == 0 {
			return
		}
		switch w.rng.IntN(4) {
		case 0:
			w.answer()
		case 1:
			w.clock.Advance(time.Duration(w.rng.IntN(40)) * time.Second) // leases of killed workers end
		default:
			w.drive([]string{"n1", "n2"}[w.rng.IntN(2)])
		}
	}
	w.t.Fatal("the teams do not end")
}

// check checks that nothing was done twice, and that no message and no event was lost.
func (w *world) check(name, id, want string) {
	w.t.Helper()
	ctx := w.t.Context()
	r, err := w.store.Get(ctx, w.tenant, id)
	if err != nil || r.Status != teamrun.Completed || r.Output != want {
		w.t.Errorf("%s: %v: %s %q %s, want %q", name, err, r.Status, r.Output, r.Error, want)
	}
	tasks, err := w.store.ListTasks(ctx, w.tenant, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, t := range tasks {
		one := w.runs[t.RunID]
		if t.Seq != i+1 || one == nil || w.created[t.RunID] != 1 || t.Status != one.Status {
			w.t.Errorf("%s: task %+v has the run %+v, which was created %d times", name, t, one, w.created[t.RunID])
		}
	}
	events, err := w.service.Log.Read(ctx, w.tenant, id, 0, 1000)
	if err != nil || int64(len(events)) != r.EventSeq {
		w.t.Errorf("%s: %d events of %d, %v", name, len(events), r.EventSeq, err)
	}
	counts := map[string]int{}
	for i, e := range events {
		counts[e.Name]++
		if e.Seq != int64(i+1) {
			w.t.Errorf("%s: event %d has the seq %d", name, i+1, e.Seq)
		}
	}
	if counts["team.run_started"] != 1 || counts["team.completed"] != 1 || counts["team.task_started"] != len(tasks) || counts["team.task_ended"] != len(tasks) {
		w.t.Errorf("%s: %d tasks, events %v", name, len(tasks), counts)
	}
}

// simulated returns teams of all topologies and what they answer.
func simulated() map[string]struct {
	spec teamrun.Spec
	want string
} {
	spec := func(topology string, change func(*teamrun.Spec)) teamrun.Spec {
		s := teamrun.Spec{
			Topology: topology, Supervisor: "boss", Delegation: team.InTurn, Merge: team.Concatenate, Shared: true, Initial: "a", Handoffs: 2,
			Members:  []teamrun.Member{{AgentID: "a", ReadOthers: true}, {AgentID: "b", ReadOthers: true}, {AgentID: "c", ReadOthers: true}},
			Policies: team.Policies{MaxRounds: 2, OnWorkerFailure: team.Retry, MaxWorkerRetries: new(5), EarlyTermination: new(true), MaxConcurrency: maxConcurrency},
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	all := "a(go)\n\nb(go)\n\nc(go)"
	return map[string]struct {
		spec teamrun.Spec
		want string
	}{
		"supervisor":  {spec(team.Supervisor, func(s *teamrun.Spec) { s.Delegation, s.Merge = team.SupervisorDecides, team.SupervisorMerges }), "boss(go)"},
		"concatenate": {spec(team.Supervisor, nil), all},
		"round_robin": {spec(team.RoundRobin, nil), all},
		"pipeline":    {spec(team.Pipeline, nil), "c(b(a(go)))"},
		"swarm":       {spec(team.Swarm, nil), "a(go)"},
		"goal":        {spec(team.GoalDriven, nil), all},
		"peers":       {spec(team.Supervisor, func(s *teamrun.Spec) { s.Mode = team.PeerCollab }), all},
		"votes":       {spec(team.Supervisor, func(s *teamrun.Spec) { s.Mode = team.VoteBased }), "b(go)"},
		"chat":        {spec(team.Supervisor, func(s *teamrun.Spec) { s.Chat = true }), all},
		"validated": {spec(team.Pipeline, func(s *teamrun.Spec) {
			s.Policies.Validation = &team.Validation{
				Enabled: new(true), Criteria: []team.Criterion{{Name: "c"}}, MinScore: new(0.7), MaxRounds: new(1), AutoRevise: new(true),
			}
		}), "c(b(a(go)))"},
	}
}

// Teams of every topology, with workers that are killed at any moment and members whose
// runs fail: they end right, no run is started twice, and no message is lost.
// AGENTD_TEST_ROUNDS is the number of seeds.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := 3
	if n, err := strconv.Atoi(os.Getenv("AGENTD_TEST_ROUNDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, uint64(seed), 0.15)
			ids, wants := map[string]string{}, simulated()
			var all []string
			for name, c := range wants {
				ids[name] = w.begin(c.spec)
				all = append(all, ids[name])
			}
			w.settle(all)
			for name, c := range wants {
				w.check(name, ids[name], c.want)
			}
		})
	}
}

// A team that is deleted, or ended by another worker, between the planning of a task and
// its start leaves no run behind.
func TestTasksOfRunsThatAreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	spec := simulated()["concatenate"].spec
	id := w.begin(spec)
	w.before = func() {
		w.before = nil
		if err := w.DB.Write(t.Context(), func(tx txn.Tx) error {
			unfinished, err := w.store.DeleteTeamTx(tx, w.tenant, "team", 100)
			if len(unfinished) != 3 {
				t.Errorf("the tasks that were planned are %v", unfinished)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	w.drive("n1")
	if len(w.runs) != 0 {
		t.Errorf("%d runs were started for a team that is gone", len(w.runs))
	}
	if _, err := w.store.Get(t.Context(), w.tenant, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	w.clock.Advance(time.Hour)
	if w.drive("n1") {
		t.Error("there is work left for a team that is gone")
	}

	id = w.begin(spec)
	w.before = func() {
		w.before = nil
		r, err := w.store.Get(t.Context(), w.tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		r.Status, r.CompletedAt = teamrun.Cancelled, w.clock.Now()
		if err := w.DB.Write(t.Context(), func(tx txn.Tx) error { return w.store.UpdateTx(tx, r) }); err != nil {
			t.Fatal(err)
		}
	}
	w.drive("n1")
	if len(w.runs) != 0 {
		t.Errorf("%d runs were started for a run that had ended", len(w.runs))
	}
}
