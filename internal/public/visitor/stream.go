package visitor

import (
	"context"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/ratelimit"
)

// streamCheck is how often a stream looks whether its agent is still public. Streams of
// one agent on one node share the answer.
const streamCheck = 10 * time.Second

type eventsIn struct {
	SessionID   string `path:"sessionId"`
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
	QueryToken  string `query:"token" doc:"Token of the session, for browsers' EventSource, which sends no headers."`
	holding
}

// events opens the event stream of a session.
func (s *Service) events(ctx context.Context, who authz.Caller, in *eventsIn) (iter.Seq2[route.Frame, error], error) {
	token := in.token()
	if in.Token == "" && in.QueryToken != "" {
		token = in.QueryToken
	}
	v, err := s.enter(ctx, in.SessionID, token, in.page)
	if err != nil {
		return nil, err
	}
	err = s.spend("event streams from your network address", ratelimit.Network(who.Address), perMinute(s.settings().StreamsPerMinute))
	if err != nil {
		return nil, err
	}
	if _, err := s.talk(ctx, v.Record); err != nil {
		return nil, err
	}
	return func(yield func(route.Frame, error) bool) {
		if !s.open(v.SessionID) {
			yield(s.ending(v.SessionID, "STREAM_LIMIT", "This session has too many event streams open. Close one."), nil)
			return
		}
		defer s.shut(v.SessionID)
		s.follow(ctx, v, in.LastEventID, yield)
	}, nil
}

// follow sends a session's events until it ends, the visitor leaves or its agent is not
// public any more.
func (s *Service) follow(ctx context.Context, v visit, last string, yield func(route.Frame, error) bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	gone := make(chan struct{})
	var timer *time.Timer
	timer = time.AfterFunc(streamCheck, func() {
		if s.stillPublic(ctx, v) {
			timer.Reset(streamCheck)
			return
		}
		close(gone)
		stop()
	})
	defer func() {
		stop() // so that a check that runs does not set the timer again for long
		timer.Stop()
	}()
	frames, err := s.Sessions.Follow(ctx, v.TenantID, v.SessionID, last)
	if err != nil {
		yield(s.ending(v.SessionID, "SERVICE_UNAVAILABLE", brokenDetail), nil)
		return
	}
	for f, err := range frames {
		if err != nil {
			break
		}
		out, ok := outwardFrame(f)
		if ok && !yield(out, nil) {
			return
		}
	}
	select {
	case <-gone:
		yield(s.ending(v.SessionID, errGone.Code, errGone.Detail), nil)
	default:
	}
}

// stillPublic reports whether a session's agent talks with visitors. A failure to find
// out ends no stream.
func (s *Service) stillPublic(ctx context.Context, v visit) bool {
	if ctx.Err() != nil {
		return true
	}
	public, err := s.visits.Load(ctx, v.TenantID+"/"+v.AgentID, func(ctx context.Context, _ string) (bool, error) {
		_, err := s.hostIn(ctx, v.TenantID, v.AgentID)
		if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Unsupported) {
			return false, nil
		}
		return true, err
	})
	return err != nil || public
}

// open counts a stream of a session, unless it has too many.
func (s *Service) open(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session] >= maxStreams {
		return false
	}
	s.streams[session]++
	return true
}

func (s *Service) shut(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session]--; s.streams[session] == 0 {
		delete(s.streams, session)
	}
}

// ending is the frame of a stream that ends before its session.
func (s *Service) ending(session, code, detail string) route.Frame {
	data, _ := json.Marshal(frame{Event: "error", SessionID: session, Code: code, Detail: detail, Timestamp: s.Clock.Now()})
	return route.Frame{Name: "error", Data: data}
}
