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

	"agentd/internal/base/authz"
	"agentd/internal/base/clock"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// streamer serves the event streams of sessions.
type streamer struct {
	store Store
	runs  Runs
	log   event.Log
	hub   *event.Hub
	clock clock.Clock
}

// stream returns the frames of a session's event stream: first session.connected,
// then the past events of all runs of the session after the one that lastEventID
// names, then events as they happen. run_added precedes the first event of a run,
// done follows its last one. The stream ends with session_closed, once the
// session accepts no more messages and no run of it is under way.
//
// The order is the same for every reader at any time; see merge.
func (s *streamer) stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	rec, err := s.store.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return func(yield func(route.Frame, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		m := &merge{streamer: s, ctx: ctx, tenant: tenant, id: id, arrivals: make(chan arrival), yield: yield}
		defer m.readers.Wait()
		defer stop()
		hints := s.hub.Subscribe(id) // before anything is read, so that nothing is missed
		defer hints.Close()
		now := s.clock.Now()
		err := m.sendSession("session.connected", sessionData{
			SessionID: id, Status: rec.status(now), ActiveBranch: rec.ActiveBranch, Timestamp: now,
		})
		if err == nil {
			err = m.run(lastEventID, hints)
		}
		if err != nil && !errors.Is(err, errStreamOver) && ctx.Err() == nil {
			m.sendError(err)
		}
	}, nil
}

// sessionData is the data of the frames about the session itself.
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

// errStreamOver ends a stream whose session has ended or whose client left.
var errStreamOver = errors.New("session: the stream is over")

// send sends a frame to the client.
func (m *merge) send(frame route.Frame) error {
	if !m.yield(frame, nil) {
		return errStreamOver
	}
	return nil
}

// sendSession sends a frame about the session. It has no id: a client that
// resumes is sent such frames again where they matter.
func (m *merge) sendSession(name string, d sessionData) error {
	d.Event = name
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return m.send(route.Frame{Name: name, Data: data})
}

// sendError sends the error that ends the stream.
func (m *merge) sendError(err error) {
	detail := "The stream cannot continue; reconnect with the last id."
	if errors.Is(err, event.ErrSlow) {
		detail = "The client reads too slowly; reconnect with the last id."
	}
	_ = m.sendSession("error", sessionData{ // the stream is over either way
		SessionID: m.id, Code: fault.From(err).Code, Detail: detail, Timestamp: m.clock.Now(),
	})
}

// sendDone sends the outcome of a run.
func (m *merge) sendDone(runID string, seq int64) error {
	r, err := m.runs.Get(m.ctx, m.tenant, runID)
	if err != nil {
		return err
	}
	frame, err := run.DoneFrame(r, runID+":"+strconv.FormatInt(seq, 10))
	if err != nil {
		return err
	}
	return m.send(frame)
}

// run sends frames until the client leaves or the session is over.
func (m *merge) run(lastEventID string, hints *event.Subscription) error {
	if err := event.OnOwnStack(m.ctx, m.refresh); err != nil {
		return err
	}
	if lastEventID != "" {
		if err := m.resume(lastEventID); err != nil {
			return err
		}
	}
	pollAfter := refreshInterval
	timer := time.NewTimer(pollAfter)
	defer timer.Stop()
	for {
		wait, err := m.sendReady()
		if err != nil {
			return err
		}
		idle := wait >= refreshInterval
		if idle {
			wait = pollAfter
		}
		timer.Reset(wait)
		select {
		case <-m.ctx.Done():
			return errStreamOver
		case a := <-m.arrivals:
			if a.err != nil {
				return a.err
			}
			a.src.add(a.event)
			pollAfter = refreshInterval
			if time.Since(m.refreshedAt) < refreshInterval {
				continue
			}
		case <-hints.Ready():
			_, _, _ = hints.Drain() // refresh reads everything, whatever the hint was
			pollAfter = refreshInterval
		case <-timer.C:
			if !idle {
				continue
			}
			pollAfter = m.hub.NextPoll(pollAfter, refreshInterval)
		}
		if err := event.OnOwnStack(m.ctx, m.refresh); err != nil {
			return err
		}
	}
}

// A live chunk has its id before it is stored. resume looks for an id that is
// not stored yet so many times, at this interval.
const (
	resumeAttempts = 5
	resumeInterval = 25 * time.Millisecond
)

// resume continues behind the event that the client received last. If the event
// is unknown, the stream sends a gap and starts from the beginning.
func (m *merge) resume(after string) error {
	if after == run.Latest {
		rec, err := m.store.Get(m.ctx, m.tenant, m.id)
		if err != nil {
			return err
		}
		if after, err = lastEventID(m.ctx, m.store, m.runs, rec); err != nil || after == "" {
			return err
		}
	}
	runID, text, _ := strings.Cut(after, ":")
	seq, err := strconv.ParseInt(text, 10, 64)
	at := slices.IndexFunc(m.sources, func(src *source) bool { return src.turn.RunID == runID })
	for attempt := 0; err == nil && seq > 0 && at >= 0 && attempt < resumeAttempts; attempt++ {
		if attempt > 0 {
			select {
			case <-m.ctx.Done():
				return errStreamOver
			case <-time.After(resumeInterval):
			}
		}
		found, err := m.find(m.sources[at].turn, seq)
		if err != nil {
			return err
		}
		if found != nil {
			return m.resumeAfter(found, seq)
		}
	}
	zero := 0
	return m.sendSession("gap", sessionData{SessionID: m.id, Dropped: &zero, Timestamp: m.clock.Now()})
}

// lastEventID returns the id of the newest event of the run that the active branch of a
// session is at: the one that is under way, or else the last one. It is "" where there is
// none.
func lastEventID(ctx context.Context, store Store, runs Runs, rec *Record) (string, error) {
	turn, err := store.GetUnfinished(ctx, rec.TenantID, rec.SessionID, rec.ActiveBranch)
	if fault.Is(err, fault.NotFound) {
		turn, err = store.GetLastTurn(ctx, rec.TenantID, rec.SessionID)
	}
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r, err := runs.Get(ctx, rec.TenantID, turn.RunID)
	switch {
	case fault.Is(err, fault.NotFound): // it went meanwhile
		return "", nil
	case err != nil || r.LastEventID == "":
		return "", err
	}
	return r.RunID + ":" + r.LastEventID, nil
}

// find returns the event of a run with a seq, or the first after it; nil if the
// log has none yet.
func (m *merge) find(turn TimedTurn, seq int64) (*positioned, error) {
	probe := &source{turn: turn}
	for !probe.read && probe.after < seq {
		if err := m.readLog(probe); err != nil {
			return nil, err
		}
	}
	for i := range probe.queue {
		if probe.queue[i].event.Seq >= seq {
			return &probe.queue[i], nil
		}
	}
	return nil, nil
}

// resumeAfter continues behind an event. If it is a run's last one, the done
// frame is repeated: it has the same id, so the client may not have received it.
func (m *merge) resumeAfter(p *positioned, seq int64) error {
	m.from = position{p.at.micros, p.at.run, seq}
	m.last = m.from
	m.dropEnded()
	if p.event.Seq == seq && run.FinalEvent(p.event.Name) {
		return m.sendDone(p.at.run, seq)
	}
	return nil
}

type eventsIn struct {
	SessionID   string `path:"sessionId"`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

func (s *streamer) routes() []route.Route {
	follow := documented(read("/{sessionId}/events", "streamSessionEvents", "Stream the events of a session"),
		"Server-sent events of all runs, with ids of the form `<runId>:<seq>`. Past events come first; Last-Event-ID resumes right after "+
			"an event, also across runs. The stream ends with `session_closed`.")
	follow.Events = &events
	return []route.Route{route.Stream(follow, s.eventsRoute)}
}

func (s *streamer) eventsRoute(ctx context.Context, who authz.Caller, in *eventsIn) (iter.Seq2[route.Frame, error], error) {
	return s.stream(ctx, who.TenantID, in.SessionID, in.LastEventID)
}
