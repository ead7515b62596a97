package notification

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/authz"
	"agentd/internal/fault"
	"agentd/internal/route"
)

const (
	frameName = "notification"
	readPage  = 100
	// resync is how long a notification can be late whose hint was lost.
	resync = 5 * time.Second
)

type streamIn struct {
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

// readyData is the data of the first frame. Its id is where the stream begins,
// so that a reader that got nothing else yet can resume as well.
type readyData struct {
	Timestamp   time.Time `json:"timestamp"`
	UnreadCount int       `json:"unread_count"`
}

// follow gives a frame "ready" and then one for each notification that the
// caller sees, from now on, or strictly after the one that Last-Event-ID names.
// An id that nobody gave out replays what is kept, after a frame "gap".
func (s *Service) follow(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	last, err := s.Store.Last(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	unread, err := s.Store.Unread(ctx, who.TenantID, who.UserID)
	if err != nil {
		return nil, err
	}
	after, known := last, true
	if in.LastEventID != "" {
		after, err = strconv.ParseInt(in.LastEventID, 10, 64)
		if known = err == nil && after >= 0 && after <= last; !known {
			after = 0
		}
	}
	return func(yield func(route.Frame, error) bool) {
		sub := s.Hub.Subscribe(stream(who.TenantID))
		defer sub.Close()
		ready, err := frame(after, "ready", readyData{s.Clock.Now(), unread})
		if !yield(ready, err) || err != nil {
			return
		}
		if !known && !yield(route.Frame{Name: "gap", Data: []byte(`{"dropped":0}`)}, nil) {
			return
		}
		timer := time.NewTimer(resync)
		defer timer.Stop()
		for {
			var more bool
			if after, more = s.send(ctx, who, after, yield); !more {
				return
			}
			timer.Reset(resync)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			case <-sub.Ready():
				_, _, _ = sub.Take() // what was published is read
			}
		}
	}, nil
}

// send gives what there is behind a number, and the number it came to; more is
// false where the stream has ended.
func (s *Service) send(ctx context.Context, who authz.Caller, after int64, yield func(route.Frame, error) bool) (reached int64, more bool) {
	for {
		found, err := s.Store.Since(ctx, who.TenantID, who.UserID, after, readPage)
		if err != nil {
			if ctx.Err() == nil {
				failed, _ := frame(-1, "error", struct {
					Code   string `json:"code"`
					Detail string `json:"detail"`
				}{fault.From(err).Code, "The stream cannot go on; reconnect with the last id."})
				yield(failed, nil)
			}
			return after, false
		}
		for i := range found {
			f, err := frame(found[i].Seq, frameName, &found[i])
			if !yield(f, err) || err != nil {
				return after, false
			}
			after = found[i].Seq
		}
		if len(found) < readPage {
			return after, true
		}
	}
}

// frame renders a frame; a negative number is none.
func frame(seq int64, name string, data any) (route.Frame, error) {
	b, err := json.Marshal(data)
	f := route.Frame{Name: name, Data: b}
	if seq >= 0 {
		f.ID = strconv.FormatInt(seq, 10)
	}
	return f, err
}
