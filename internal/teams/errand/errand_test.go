package errand_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/base/txn"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/work"
	"agentd/internal/store/sqldb"
	"agentd/internal/store/sqldb/sqldbtest"
	"agentd/internal/store/worksql"
	"agentd/internal/teams/a2a"
	"agentd/internal/teams/errand"
	"agentd/internal/teams/errand/errandsql"
	"agentd/internal/teams/team"
	"agentd/internal/teams/teamrun"
)

var errKilled = errors.New("the process was killed")

// peer is an agent of another system.
type peer struct {
	tasks     map[string]*a2a.Reply // by the id of the message
	started   int
	cancelled int
	polls     int
	works     int // polls until it has done a task
	unlisted  bool
	dies      string // the call after which the caller is killed, once
	refuses   error  // what every call ends with
}

func (p *peer) Send(context.Context, a2a.Outgoing) (*a2a.Reply, error) { return nil, nil }

func (p *peer) Connect(_ context.Context, to a2a.Target) (a2a.Peer, error) {
	if to.URL != "https://agents.example.com" {
		return nil, fault.New(fault.Invalid, "", "No agent is at %s.", to.URL)
	}
	return p, p.after("connect")
}

func (p *peer) after(call string) error {
	if p.dies == call {
		p.dies = ""
		return errKilled
	}
	return nil
}

func (p *peer) Start(_ context.Context, id, text string) (*a2a.Reply, error) {
	if p.refuses != nil {
		return nil, p.refuses
	}
	if !strings.Contains(text, "dig") || !strings.Contains(text, "quietly") {
		return nil, fmt.Errorf("the message is %q", text)
	}
	p.started++
	p.tasks[id] = &a2a.Reply{TaskID: "peer " + id, State: "working"}
	return p.tasks[id], p.after("start")
}

func (p *peer) Find(_ context.Context, id string) (*a2a.Reply, error) {
	if p.unlisted {
		return nil, a2a.ErrUnlisted
	}
	return p.tasks[id], nil
}

func (p *peer) Get(_ context.Context, taskID string) (*a2a.Reply, error) {
	r := p.tasks[strings.TrimPrefix(taskID, "peer ")]
	if r == nil {
		return nil, fault.NewNotFound("task of the peer")
	}
	if p.polls++; p.polls > p.works {
		r.State, r.Text = "completed", "dug"
	}
	return r, p.after("get")
}

func (p *peer) Cancel(context.Context, string) error { p.cancelled++; return nil }

// world is where errands are done.
type world struct {
	*sqldb.DB
	t       *testing.T
	clock   *clock.Fake
	queue   *worksql.Queue
	store   *errandsql.Store
	peer    *peer
	service *errand.Service
	over    bool
}

func open(t *testing.T, db *sqldb.DB) *world {
	w := &world{DB: db, t: t, clock: clock.NewFake(), store: errandsql.New(db), peer: &peer{tasks: map[string]*a2a.Reply{}, works: 2}}
	w.queue = worksql.New(db, w.clock, func(string) {})
	w.service = &errand.Service{
		Store: w.store, Peers: w.peer, Writer: db, Queue: w.queue, Clock: w.clock,
		Over: func(context.Context, string, string) (bool, error) { return w.over, nil },
	}
	return w
}

// begin starts an errand, as a team does that was killed once.
func (w *world) begin(at string) teamrun.ExternalTask {
	w.t.Helper()
	worker, err := json.Marshal(team.External{CardURL: at})
	if err != nil {
		w.t.Fatal(err)
	}
	task := teamrun.ExternalTask{
		TenantID: ident.New(), ID: ident.New(), TeamRunID: ident.New(), Worker: worker, Input: run.Input{Message: "dig", Instructions: "quietly"},
	}
	for range 2 {
		if err := w.service.Start(w.t.Context(), task); err != nil {
			w.t.Fatal(err)
		}
	}
	return task
}

// work does what is due, for some time.
func (w *world) work(steps int) {
	w.t.Helper()
	for range steps {
		leases, err := w.queue.Claim(w.t.Context(), errand.WorkKind, "node", 1, time.Minute)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, l := range leases {
			if err := w.service.Handle(w.t.Context(), l); err != nil && !errors.Is(err, errKilled) {
				w.t.Fatal(err)
			}
		}
		w.clock.Advance(31 * time.Second)
	}
}

// due reports whether the work of a team was made due.
func (w *world) due(task teamrun.ExternalTask) bool {
	w.t.Helper()
	leases, err := w.queue.Claim(w.t.Context(), teamrun.WorkKind, "node", 10, time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	found := false
	for _, l := range leases {
		found = found || l.Key == task.TeamRunID
		if err := w.Write(w.t.Context(), func(tx txn.Tx) error { return w.queue.FinishTx(tx, l) }); err != nil && !errors.Is(err, work.ErrLost) {
			w.t.Fatal(err)
		}
	}
	return found
}

// An errand is sent once, asked about until it has ended, and wakes its team; a worker
// that takes over finds the task at the peer instead of sending it again.
func TestErrands(t *testing.T) {
	t.Parallel()
	const there = "https://agents.example.com"
	refusal := fault.New(fault.Upstream, "", "The peer said no.").Because(a2a.ErrRefused)
	for name, c := range map[string]struct {
		at      string
		prepare func(w *world, task teamrun.ExternalTask)
		status  run.Status
		text    string
		reason  string
		started int
	}{
		"done":                {there, nil, run.Completed, "dug", "", 1},
		"killed before":       {there, func(w *world, _ teamrun.ExternalTask) { w.peer.dies = "connect" }, run.Completed, "dug", "", 1},
		"killed in between":   {there, func(w *world, _ teamrun.ExternalTask) { w.peer.dies = "start" }, run.Completed, "dug", "", 1},
		"killed while asking": {there, func(w *world, _ teamrun.ExternalTask) { w.peer.dies = "get" }, run.Completed, "dug", "", 1},
		"not listed": {there, func(w *world, _ teamrun.ExternalTask) { w.peer.dies, w.peer.unlisted = "start", true }, run.Failed, "",
			"it is not sent twice", 1},
		"forgotten": {there, func(w *world, task teamrun.ExternalTask) {
			w.work(1)
			delete(w.peer.tasks, task.ID)
		}, run.Failed, "", "no such task of the peer", 1},
		"refused": {there, func(w *world, _ teamrun.ExternalTask) { w.peer.refuses = refusal }, run.Failed, "", "The peer said no.", 0},
		"unreachable": {there, func(w *world, _ teamrun.ExternalTask) {
			w.peer.refuses = fault.New(fault.Upstream, "", "Nobody there.")
		}, run.Failed, "", "Nobody there.", 0},
		"no address": {"https://other.example.com", nil, run.Failed, "", "No agent is at", 0},
		"a question": {there, func(w *world, task teamrun.ExternalTask) {
			w.work(1)
			w.peer.works = 1 << 20
			w.peer.tasks[task.ID].State, w.peer.tasks[task.ID].Text = "input-required", "Which?"
		}, run.Failed, "", "input-required. Which?", 1},
		"cancelled": {there, func(w *world, task teamrun.ExternalTask) {
			w.work(1)
			if err := w.service.Cancel(t.Context(), task.TenantID, task.ID); err != nil {
				t.Error(err)
			}
		}, run.Cancelled, "", "The run of the team ended.", 1},
		"the team is over": {there, func(w *world, _ teamrun.ExternalTask) { w.work(1); w.over = true }, run.Cancelled, "", "The run of the team ended.", 1},
		"too late": {there, func(w *world, _ teamrun.ExternalTask) {
			w.peer.works = 1 << 20
			w.work(2)
			w.clock.Advance(25 * time.Hour)
		}, run.TimedOut, "", "in time", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, sqldbtest.Open(t, sqldbtest.SQLite))
			task := w.begin(c.at)
			if c.prepare != nil {
				c.prepare(w, task)
			}
			w.work(20)
			got, err := w.service.Poll(t.Context(), task.TenantID, task.ID)
			if err != nil || got.Status != c.status || got.Text != c.text || !strings.Contains(strings.ToLower(got.Error), strings.ToLower(c.reason)) {
				t.Errorf("%v: %+v", err, got)
			}
			if w.peer.started != c.started {
				t.Errorf("it was sent %d times", w.peer.started)
			}
			ended := c.status == run.Cancelled || c.status == run.TimedOut
			if (w.peer.cancelled == 1) != ended {
				t.Errorf("it was cancelled %d times at the peer", w.peer.cancelled)
			}
			if !w.due(task) {
				t.Error("the team was not woken")
			}
			w.clock.Advance(2 * time.Hour)
			w.work(1)
			if _, err := w.service.Poll(t.Context(), task.TenantID, task.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("it is kept: %v", err)
			}
			if err := w.service.Cancel(t.Context(), task.TenantID, task.ID); err != nil {
				t.Errorf("an end of what is gone: %v", err)
			}
		})
	}
}

// Errands are kept on both databases, each for its company.
func TestStore(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, func(t *testing.T, db *sqldb.DB) {
		w := open(t, db)
		task := w.begin("https://agents.example.com")
		other := ident.New()
		if _, err := w.store.Get(t.Context(), other, task.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := w.service.Cancel(t.Context(), other, task.ID); err != nil {
			t.Errorf("%v", err)
		}
		e, err := w.store.Get(t.Context(), task.TenantID, task.ID)
		if err != nil || e.Cancel || e.TeamRunID != task.TeamRunID || e.Message != "quietly\n\ndig" || !e.CreatedAt.Equal(w.clock.Now()) {
			t.Errorf("%v: %+v", err, e)
		}
		w.work(1)
		if e, err = w.store.Get(t.Context(), task.TenantID, task.ID); err != nil || !e.Begun || e.PeerTask != "peer "+task.ID {
			t.Errorf("%v: %+v", err, e)
		}
		if err := w.service.Cancel(t.Context(), task.TenantID, task.ID); err != nil {
			t.Fatal(err)
		}
		if e, err = w.store.Get(t.Context(), task.TenantID, task.ID); err != nil || !e.Cancel || e.PeerTask == "" {
			t.Errorf("%v: %+v", err, e)
		}
		w.work(1)
		w.clock.Advance(2 * time.Hour)
		w.work(1)
		if _, err := w.store.Get(t.Context(), task.TenantID, task.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
	})
}
