package group

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
)

// Stream is the event stream of a group to one client.
type Stream struct {
	Log    event.Log
	Hub    *event.Hub
	Tenant string
	ID     string // of the group
	Field  string // of every event, which has the id: team_run_id
	Seq    int64  // of the last event when the stream was opened
	Over   bool   // the group had ended by then
	Cursor string // id of the last event that the client has; "": none
	Now    func() time.Time
	// First sends what comes before the events, and reports whether to go on. nil:
	// nothing.
	First func(send func(name string, data any) bool) bool
	// Final reports whether an event of that name is the last.
	Final func(name string) bool
	// Done sends what comes after the last event. nil: nothing.
	Done func(send func(name string, data any) bool) bool
}

// Frames returns the events after the client's last one, then those that happen,
// until the group or ctx has ended. "gap" stands where the client's cursor is none of
// the stream.
func (s *Stream) Frames(ctx context.Context) iter.Seq2[route.Frame, error] {
	after, bad := strconv.ParseInt(s.Cursor, 10, 64)
	after = max(after, 0)
	return func(yield func(route.Frame, error) bool) {
		send := func(name string, data any) bool {
			enc, err := json.Marshal(data, json.Deterministic(true))
			return err == nil && yield(s.frame(event.Event{Name: name, At: s.Now(), Data: enc}), nil)
		}
		if s.First != nil && !s.First(send) {
			return
		}
		if s.Cursor != "" && bad != nil && !send("gap", map[string]int{"dropped": 0}) {
			return
		}
		done := func() {
			if s.Done == nil || s.Done(send) {
				yield(route.Frame{Data: []byte("[DONE]")}, nil)
			}
		}
		if s.Over && after >= s.Seq {
			done()
			return
		}
		follow := event.Follower{Log: s.Log, Hub: s.Hub}
		for e, err := range follow.Follow(ctx, s.Tenant, s.ID, after) {
			if err != nil {
				if ctx.Err() == nil {
					send("error", map[string]string{"detail": "The stream was interrupted; reconnect with the last id."})
				}
				return
			}
			if !yield(s.frame(e), nil) {
				return
			}
			if s.Final(e.Name) {
				done()
				return
			}
		}
	}
}

// frame returns an event with the fields that all events of the group have.
func (s *Stream) frame(e event.Event) route.Frame {
	data, err := json.Marshal(struct {
		Event string    `json:"event"`
		At    time.Time `json:"timestamp"`
	}{e.Name, e.At})
	if err != nil {
		data = []byte(`{}`)
	}
	data = append(data[:len(data)-1], `,"`+s.Field+`":"`+s.ID+`"}`...)
	if len(e.Data) > 2 {
		data = append(append(data[:len(data)-1], ','), e.Data[1:]...)
	}
	f := route.Frame{Name: e.Name, Data: data, More: e.More}
	if e.Seq > 0 {
		f.ID = strconv.FormatInt(e.Seq, 10)
	}
	return f
}
