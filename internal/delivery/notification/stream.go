package notification

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
)

const (
	frameName = "notification"
	readPage  = 100
	// resync is how often a stream reads the store at least. It bounds the delay of
	// a notification that was lost on its way.
	resync = 5 * time.Second
)

type streamIn struct {
	LastEventID string `header:"Last-Event-ID" query:"last_event_id"`
}

// readyData is the data of the first frame. The frame's id is where the stream
// begins, so that a client can resume even before the first notification.
type readyData struct {
	Timestamp   time.Time `json:"timestamp"`
	UnreadCount int       `json:"unread_count"`

	TotalIsLowerBound bool `json:"total_is_lower_bound,omitzero"`
}

// follow streams a frame "ready" and then one for each notification that the
// caller sees, from now on, or after the one that Last-Event-ID names. After an
// unknown id it sends a frame "gap" and all stored notifications.
func (s *Service) follow(ctx context.Context, who authz.Caller, in *streamIn) (iter.Seq2[route.Frame, error], error) {
	last, err := s.Store.GetLastSeq(ctx, who.TenantID)
	if err != nil {
		return nil, err
	}
	unread, more, err := s.countUnread(ctx, who)
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
		sub := s.Hub.Subscribe(streamName(who.TenantID))
		defer sub.Close()
		ready, err := frame(after, "ready", readyData{s.Clock.Now(), unread, more})
		if !yield(ready, err) || err != nil {
			return
		}
		if !known && !yield(route.Frame{Name: "gap", Data: []byte(`{"event":"gap","dropped":0}`)}, nil) {
			return
		}
		f := follower{s: s, ctx: ctx, who: who, after: after, yield: yield}
		if f.read() {
			f.live(sub)
		}
	}, nil
}

// follower is the state of a stream.
type follower struct {
	s     *Service
	ctx   context.Context
	who   authz.Caller
	after int64 // everything up to here was sent, or is not for the caller
	yield func(route.Frame, error) bool
}

// live sends notifications as they come, until the stream ends.
func (f *follower) live(sub *event.Subscription) {
	wait := resync
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		var more bool
		select {
		case <-f.ctx.Done():
			return
		case <-timer.C:
			more = f.read()
			wait = f.s.Hub.NextPoll(wait, resync)
		case <-sub.Ready():
			more = f.receive(sub)
			wait = resync
		}
		if !more {
			return
		}
		timer.Reset(wait)
	}
}

// receive sends what the hub delivers, or what is stored if there is a gap. It
// reports whether the stream goes on.
func (f *follower) receive(sub *event.Subscription) bool {
	batches, dropped, err := sub.Drain()
	if err != nil || dropped > 0 {
		return f.read() // the client is slow; read what it missed
	}
	for _, b := range batches {
		if len(b.Events) == 0 || b.Prev > f.after {
			return f.read() // reads the rest too
		}
		for _, e := range b.Events {
			if e.Seq <= f.after {
				continue
			}
			f.after = e.Seq
			user, personal := strings.CutPrefix(e.Name, frameName+" ")
			if personal && user != f.who.UserID {
				continue
			}
			if !f.yield(liveFrame(e), nil) {
				return false
			}
		}
	}
	return true
}

// liveFrame returns the frame of a notification, which is rendered once for all
// streams.
func liveFrame(e event.Event) route.Frame {
	if made, there := e.Shared.Rendered(event.OfRun); there {
		return made.(route.Frame)
	}
	return renderLive(e)
}

func renderLive(e event.Event) route.Frame {
	return e.Shared.Render(event.OfRun, func() any {
		fr := route.Frame{ID: strconv.FormatInt(e.Seq, 10), Name: frameName, Data: named(frameName, e.Data)}
		fr.Wire = fr.AppendWire(nil)
		return fr
	}).(route.Frame)
}

// read sends what is stored. It reports whether the stream goes on.
func (f *follower) read() bool {
	for {
		var found []Notification
		err := event.OnOwnStack(f.ctx, func() (err error) {
			found, err = f.s.Store.ListAfter(f.ctx, f.who.TenantID, f.who.UserID, f.after, readPage)
			return err
		})
		if err != nil {
			if f.ctx.Err() == nil {
				failed, _ := frame(-1, "error", struct {
					Code   string `json:"code"`
					Detail string `json:"detail"`
				}{fault.From(err).Code, "The stream cannot continue; reconnect with the last id."})
				f.yield(failed, nil)
			}
			return false
		}
		for i := range found {
			fr, err := frame(found[i].Seq, frameName, &found[i])
			fr.More = i < len(found)-1
			if !f.yield(fr, err) || err != nil {
				return false
			}
			f.after = found[i].Seq
		}
		if len(found) < readPage {
			return true
		}
	}
}

// named puts the event's name before the other members of an object.
func named(name string, object []byte) []byte {
	return append([]byte(`{"event":"`+name+`",`), object[1:]...) // no event is an empty object
}

// frame returns a frame, without an id if seq is negative.
func frame(seq int64, name string, data any) (route.Frame, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return route.Frame{}, err
	}
	f := route.Frame{Name: name, Data: named(name, b)}
	if seq >= 0 {
		f.ID = strconv.FormatInt(seq, 10)
	}
	return f, nil
}
