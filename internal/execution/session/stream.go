package session

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// Stream gives the frames of a session's event stream (decisions.md D7): first
// session.connected, then what happened in all runs of the session after the
// event that lastEventID names, then what happens. Before a run's first event
// comes run_added, after its last one done. The stream ends with session_closed,
// once the session takes no more messages and nothing runs in it any more.
//
// The order is the same for every reader at any time; see feed.
func (s *Service) Stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	rec, err := s.Store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return func(yield func(route.Frame, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		f := &feed{s: s, ctx: ctx, tenant: tenant, id: id, arrived: make(chan arrival), yield: yield}
		defer f.readers.Wait()
		defer stop()
		hints := s.Hub.Subscribe(id) // before anything is read, so that nothing is missed
		defer hints.Close()
		err := f.tell("session.connected", sessionData{SessionID: id, Status: rec.status(s.Clock.Now()), ActiveBranch: rec.ActiveBranch, Timestamp: s.Clock.Now()})
		if err == nil {
			err = f.follow(lastEventID, hints)
		}
		if err != nil && !errors.Is(err, errOver) && ctx.Err() == nil {
			f.fail(err)
		}
	}, nil
}

// sessionData is the data of the frames that are about the session itself.
type sessionData struct {
	Event        string    `json:"event"`
	SessionID    string    `json:"session_id"`
	Status       Status    `json:"status,omitzero"`
	ActiveBranch string    `json:"active_branch,omitzero"`
	RunID        string    `json:"run_id,omitzero"`
	BranchID     string    `json:"branch_id,omitzero"`
	Turn         int64     `json:"turn,omitzero"`
	Dropped      *int      `json:"dropped,omitzero"`
	Code         string    `json:"code,omitzero"`
	Detail       string    `json:"detail,omitzero"`
	Timestamp    time.Time `json:"timestamp"`
}

// errOver ends a feed whose session has ended, or whose consumer left.
var errOver = errors.New("session: the stream is over")

// send gives a frame to the consumer.
func (f *feed) send(frame route.Frame) error {
	if !f.yield(frame, nil) {
		return errOver
	}
	return nil
}

// tell sends a frame that is about the session. It has no id: a reader that
// resumes gets what matters of it anew.
func (f *feed) tell(name string, d sessionData) error {
	d.Event = name
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return f.send(route.Frame{Name: name, Data: data})
}

func (f *feed) fail(err error) {
	detail := "The stream cannot go on; reconnect with the last id."
	if errors.Is(err, event.ErrSlow) {
		detail = "This reader fell too far behind; reconnect with the last id."
	}
	_ = f.tell("error", sessionData{SessionID: f.id, Code: fault.From(err).Code, Detail: detail, Timestamp: f.s.Clock.Now()}) // it is over either way
}

// follow runs until the consumer leaves or the session is over.
func (f *feed) follow(lastEventID string, hints *event.Subscription) error {
	if err := event.Aside(f.ctx, f.look); err != nil {
		return err
	}
	if lastEventID != "" {
		if err := f.resume(lastEventID); err != nil {
			return err
		}
	}
	patience := lookAgain
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		wait, err := f.give()
		if err != nil {
			return err
		}
		idle := wait >= lookAgain
		if idle {
			wait = patience
		}
		timer.Reset(wait)
		select {
		case <-f.ctx.Done():
			return errOver
		case a := <-f.arrived:
			if a.err != nil {
				return a.err
			}
			a.src.add(a.e)
			patience = lookAgain
			if time.Since(f.looked) < lookAgain {
				continue
			}
		case <-hints.Ready():
			_, _, _ = hints.Take() // whatever it was, everything is read
			patience = lookAgain
		case <-timer.C:
			if !idle {
				continue
			}
			patience = f.s.Hub.Patience(patience, lookAgain)
		}
		if err := event.Aside(f.ctx, f.look); err != nil {
			return err
		}
	}
}

// resume goes to the place behind an event. One that is not known is answered
// by a gap and everything from the beginning.
func (f *feed) resume(lastEventID string) error {
	id, text, _ := strings.Cut(lastEventID, ":")
	seq, err := strconv.ParseInt(text, 10, 64)
	at := slices.IndexFunc(f.sources, func(src *source) bool { return src.turn.RunID == id })
	for try := 0; err == nil && seq > 0 && at >= 0 && try < 5; try++ { // a live chunk has its id before it is stored
		if try > 0 {
			select {
			case <-f.ctx.Done():
				return errOver
			case <-time.After(25 * time.Millisecond):
			}
		}
		probe := &source{turn: f.sources[at].turn}
		for !probe.read && probe.after < seq {
			if err := f.readLog(probe); err != nil {
				return err
			}
		}
		for _, next := range probe.queue {
			if next.e.Seq < seq {
				continue
			}
			f.from = place{next.at.at, id, seq}
			f.last = f.from
			f.forget()
			if next.e.Seq == seq && run.FinalEvent(next.e.Name) {
				return f.done(id, seq) // nobody knows whether it was seen
			}
			return nil
		}
	}
	zero := 0
	return f.tell("gap", sessionData{SessionID: f.id, Dropped: &zero, Timestamp: f.s.Clock.Now()})
}

// done tells what a run came to.
func (f *feed) done(runID string, seq int64) error {
	r, err := f.s.Runs.Get(f.ctx, f.tenant, runID)
	if err != nil {
		return err
	}
	frame, err := run.DoneFrame(r, runID+":"+strconv.FormatInt(seq, 10))
	if err != nil {
		return err
	}
	return f.send(frame)
}
