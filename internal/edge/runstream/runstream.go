// Package runstream starts a run for a caller who waits for its answer, follows
// its events and returns how it ended. The edges that answer a request with a
// run (chat completions, responses, MCP) stand on it and add their wire format.
package runstream

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/edge/httpapi"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Runs creates, reads and cancels runs; *run.Service.
type Runs interface {
	Create(ctx context.Context, who authz.Caller, req run.Request) (*run.Run, error)
	Get(ctx context.Context, tenant, id string) (*run.Run, error)
	Cancel(ctx context.Context, tenant, id string) (run.CancelAnswer, error)
}

// Runner starts and follows runs.
type Runner struct {
	Runs   Runs
	Agents run.Agents
	Names  AgentNames
	Teams  Teams // nil: no model is a team
	Log    event.Log
	Hub    *event.Hub
	// Complete makes a slow reader late rather than incomplete: events that its
	// queue had to drop are read from the log. An edge needs it that renders
	// llm.chunk, because an answer with a hole is a wrong answer.
	Complete bool
	// MaxModelWait is how long Wait waits for a run that waits for its model; 0: 10
	// minutes.
	MaxModelWait time.Duration
}

// Stream is one run with its events. It must be closed.
type Stream struct {
	Run *run.Run

	runner *Runner
	tenant string
	team   bool                // the run is one of a team
	after  int64               // seq of the last event that is not followed
	sub    *event.Subscription // opened before the run existed; nil: the log is replayed
}

// Start creates the run of a request, whose RunID must be set: its events are
// subscribed to before the run exists, so that the log need not be read.
// Errors: those of Runs.Create.
func (r *Runner) Start(ctx context.Context, who authz.Caller, req run.Request) (*Stream, error) {
	if team := r.teamOf(req.AgentID); team != "" {
		return r.startTeam(ctx, who, team, req)
	}
	sub := r.Hub.Subscribe(req.RunID)
	created, err := r.Runs.Create(ctx, who, req)
	if err != nil {
		sub.Close()
		return nil, err
	}
	return &Stream{Run: created, runner: r, tenant: who.TenantID, sub: sub}, nil
}

// StartOnce is Start on a route that is Attached: where an earlier request with
// the same Idempotency-Key created a run, it returns that run and replays its
// events. It names the run in the header X-Run-Id.
func (r *Runner) StartOnce(w http.ResponseWriter, req *http.Request, who authz.Caller, start run.Request) (*Stream, error) {
	start.Answer = func(created *run.Run) any { return httpapi.ResultRef(created.RunID) }
	s, err := r.Start(req.Context(), who, start)
	if err != nil {
		if s, err = r.earlier(w, req, who.TenantID, err); err != nil {
			return nil, err
		}
	}
	w.Header().Set("X-Run-Id", s.Run.RunID)
	return s, nil
}

// earlier returns the run of an earlier request with the same Idempotency-Key.
// Errors: failed, where there was none.
func (r *Runner) earlier(w http.ResponseWriter, req *http.Request, tenant string, failed error) (*Stream, error) {
	id, err := httpapi.EarlierResult(w, req, failed)
	if err != nil {
		return nil, err
	}
	return r.replayed(req.Context(), tenant, string(id))
}

// Replay returns the stream of a run that exists, from its first event.
func (r *Runner) Replay(tenant string, existing *run.Run) *Stream {
	return &Stream{Run: existing, runner: r, tenant: tenant}
}

// ReplayAfter is Replay without the events that led to the state of the run as it was read.
func (r *Runner) ReplayAfter(tenant string, existing *run.Run) *Stream {
	after, _ := strconv.ParseInt(existing.LastEventID, 10, 64) // "": it has none
	return &Stream{Run: existing, runner: r, tenant: tenant, after: after}
}

// Close ends the subscription.
func (s *Stream) Close() {
	if s.sub != nil {
		s.sub.Close()
	}
}

// Follow returns the run's events until it ends, ctx ends or the consumer stops.
// It can be called once.
func (s *Stream) Follow(ctx context.Context) iter.Seq2[event.Event, error] {
	if s.team {
		return s.runner.Teams.Follow(ctx, s.tenant, s.Run.RunID)
	}
	follower := event.Follower{Log: s.runner.Log, Hub: s.runner.Hub, Complete: s.runner.Complete}
	if s.sub == nil {
		return follower.Follow(ctx, s.tenant, s.Run.RunID, s.after)
	}
	return follower.FollowNew(ctx, s.tenant, s.sub)
}

var errUnfinished = errors.New("runstream: the run's events ended before the run")

// Wait calls observe, which may be nil, with each event until the run has ended,
// and returns the run. Errors: the context's, where the client went away, and
// Unavailable, where the run waits for its model for too long: the run goes on.
func (s *Stream) Wait(ctx context.Context, observe func(event.Event)) (*run.Run, error) {
	follow, stop := context.WithCancel(ctx)
	defer stop()
	wait := &modelWait{give: stop}
	timer := time.AfterFunc(s.patience(), func() {
		wait.expire()
		if !s.team {
			s.watchLimit(follow, wait)
		}
	})
	defer timer.Stop()
	for e, err := range s.Follow(follow) {
		if err != nil {
			return nil, err
		}
		wait.observe(e)
		if observe != nil {
			observe(e)
		}
		if run.FinalEvent(e.Name) {
			return s.Result(ctx, e)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if follow.Err() != nil {
		return nil, s.modelDown(wait.next)
	}
	return nil, errUnfinished
}

// maxModelWait is how long a request waits for the answer of a run before a wait
// of the run for its model ends the request.
const maxModelWait = 10 * time.Minute

// patience returns how long the request waits; see maxModelWait. A run with a
// time limit of its own ends by it.
func (s *Stream) patience() time.Duration {
	if limit := s.Run.ResourceLimits.MaxDurationMS; limit != nil {
		return time.Duration(*limit) * time.Millisecond
	}
	return cmp.Or(s.runner.MaxModelWait, maxModelWait)
}

// modelWait follows whether a run waits for its model. It is used by the request's
// goroutine and a timer.
type modelWait struct {
	mu      sync.Mutex
	next    time.Time // of the next attempt; zero: the run does not wait
	expired bool      // the request's patience is over
	give    func()    // ends the request
}

func (m *modelWait) observe(e event.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = time.Time{}
	if e.Name == "step.retrying" {
		var d run.StepRetryingData
		_ = json.Unmarshal(e.Data, &d) // an event of another shape has no time
		m.next = e.At.Add(time.Duration(d.AfterMS) * time.Millisecond)
		if m.expired {
			m.give()
		}
	}
}

func (m *modelWait) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expired = true; !m.next.IsZero() {
		m.give()
	}
}

// limitPoll is how often a run is read that may begin to wait for a limit of its
// provider, once the request's patience is over: that wait has no event.
const limitPoll = 10 * time.Second

// watchLimit ends the request when its run waits for a limit. It returns when ctx
// ends.
func (s *Stream) watchLimit(ctx context.Context, wait *modelWait) {
	for {
		r, err := s.runner.Runs.Get(ctx, s.tenant, s.Run.RunID)
		if err == nil && r.WaitingFor == run.WaitsForLimit {
			wait.mu.Lock()
			wait.next = time.Now().Add(limitPoll)
			wait.give()
			wait.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(limitPoll):
		}
	}
}

// CodeModelUnavailable is the code of a request that ends while its run waits for
// its model.
const CodeModelUnavailable = "model_unavailable"

// modelDown is the answer to a request whose run waits for its model.
func (s *Stream) modelDown(next time.Time) error {
	f := fault.New(fault.Unavailable, CodeModelUnavailable,
		"The model is down or overloaded. The run %s goes on when it answers again: read it, or repeat the request with the same "+
			"Idempotency-Key.", s.Run.RunID)
	f.RetryAfter = max(time.Until(next), time.Second)
	return f
}

// Voided returns the error of a stream that sent text of an answer that broke off,
// where the new answer differs. hint is as for Broken.
func Voided(hint string) *fault.Error {
	return fault.New(fault.Unavailable, "stream_voided",
		"The model's answer broke off, and the new one differs from what was sent; the run continues, and %s.", hint)
}

// Result returns the run as its final event left it.
func (s *Stream) Result(ctx context.Context, final event.Event) (*run.Run, error) {
	if r, ok := final.Result.(*run.Run); ok {
		return r, nil
	}
	return s.runner.Runs.Get(ctx, s.tenant, s.Run.RunID)
}

// ClientGone handles a client that disconnected before the end: the run goes on,
// unless its agent has cancel_on_disconnect set. That of a team goes on.
func (s *Stream) ClientGone(ctx context.Context) {
	if s.team {
		return
	}
	ctx = context.WithoutCancel(ctx)
	spec, err := s.runner.Agents.Spec(ctx, s.tenant, s.Run.AgentID, s.Run.AgentVersion)
	if err == nil && spec.CancelOnDisconnect {
		_, _ = s.runner.Runs.Cancel(ctx, s.tenant, s.Run.RunID) // it may have ended meanwhile
	}
}

// Broken returns the error of a stream that ends before its run does. hint
// completes the sentence "the run continues, and …" with how to find the answer.
func Broken(err error, hint string) *fault.Error {
	detail := "The stream was interrupted on the server's side"
	if errors.Is(err, event.ErrSlow) {
		detail = "The stream was closed because the client read too slowly"
	}
	return fault.New(fault.Unavailable, "stream_broken", "%s; the run continues, and %s.", detail, hint)
}
