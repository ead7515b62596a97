package run

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/route"
	"agentd/internal/kernel/event"
)

// Stream returns the frames of a run's event stream (rules IF-4.stream-form to
// IF-4.stream-resume): the past events after lastEventID, then events as they
// happen, and after the final event a frame "done" and a bare [DONE].
func (s *Service) Stream(ctx context.Context, tenant, id, lastEventID string) (iter.Seq2[route.Frame, error], error) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	after, known := parseCursor(lastEventID)
	if lastEventID == Latest {
		after, known = r.EventSeq, true
	}
	enc := &encoder{run: r.RunID, session: r.SessionID}
	ended := r.Status.Final() && after == r.EventSeq // computed here so that the stream does not retain r
	return func(yield func(route.Frame, error) bool) {
		if !known && !yield(enc.frame(event.Event{Name: "gap", At: s.Clock.Now(), Data: jsontext.Value(`{"dropped":0}`)}), nil) {
			return
		}
		if ended {
			s.done(ctx, tenant, id, after, yield)
			return
		}
		follow := event.Follower{Log: s.Log, Hub: s.Hub}
		for e, err := range follow.Follow(ctx, tenant, id, after) {
			if err != nil {
				yield(enc.failure(err), nil)
				return
			}
			if !yield(enc.shared(e), nil) {
				return
			}
			if FinalEvent(e.Name) {
				s.done(ctx, tenant, id, e.Seq, yield)
				return
			}
		}
	}, nil
}

// Latest is a Last-Event-ID: the stream begins with what happens next.
const Latest = "latest"

// parseCursor parses a Last-Event-ID. One that this stream cannot have issued is
// not known; the stream then starts at the beginning, after a gap.
func parseCursor(s string) (after int64, known bool) {
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

// FinalEvent reports whether an event is the arrival in a final state.
func FinalEvent(name string) bool {
	state, ok := strings.CutPrefix(name, "run.")
	return ok && Status(state).Valid() && Status(state).Final()
}

// doneData is the data of the frame done.
type doneData struct {
	Event     string   `json:"event"`
	RunID     string   `json:"run_id"`
	Status    Status   `json:"status"`
	Output    any      `json:"output"`
	Metrics   Metrics  `json:"metrics"`
	CostUSD   *float64 `json:"cost_usd"`
	Error     *string  `json:"error,omitzero"`
	ErrorCode string   `json:"error_code,omitzero"`
	Outcome   *Outcome `json:"outcome,omitzero"`
}

func (s *Service) done(ctx context.Context, tenant, id string, seq int64, yield func(route.Frame, error) bool) {
	r, err := s.Runs.Get(ctx, tenant, id)
	if err != nil {
		return // the client reconnects with its last id and gets done then
	}
	frame, err := DoneFrame(&r.Run, strconv.FormatInt(seq, 10))
	if err != nil {
		return
	}
	if yield(frame, nil) {
		yield(route.Frame{Data: []byte("[DONE]")}, nil)
	}
}

// DoneFrame returns the frame with the result of a run that ended.
func DoneFrame(r *Run, id string) (route.Frame, error) {
	data, err := json.Marshal(doneData{
		"done", r.RunID, r.Status, r.Output, r.Metrics, r.Metrics.TotalCostUSD, r.Error, r.ErrorCode, r.Outcome,
	})
	return route.Frame{ID: id, Name: "done", Data: data}, err
}

// EventFrame renders an event of a run for a stream of several runs: its id is
// <runId>:<seq>.
func EventFrame(runID, session string, e event.Event) route.Frame {
	rendered, ok := e.Shared.Rendered(event.OfSession)
	if !ok {
		rendered = renderOfSession(runID, session, e)
	}
	f := rendered.(route.Frame)
	f.More = e.More
	return f
}

func renderOfSession(runID, session string, e event.Event) any {
	return e.Shared.Render(event.OfSession, func() any {
		f := (&encoder{run: runID, session: &session}).frame(e)
		if f.ID != "" {
			f.ID = runID + ":" + f.ID
		}
		return encoded(f, e)
	})
}

// encoded adds the frame's bytes on the wire if several readers share it.
func encoded(f route.Frame, e event.Event) route.Frame {
	if e.Shared != nil {
		f.Wire = f.AppendWire(make([]byte, 0, len(f.Data)+len(f.ID)+len(f.Name)+32))
	}
	return f
}

// encoder renders the events of one run as frames.
type encoder struct {
	run     string
	session *string
}

// streamTypes maps the first part of an event's name to its stream_type.
var streamTypes = map[string]string{"run": "lifecycle", "step": "lifecycle", "llm": "assistant", "tool": "tool"}

// shared renders an event once for all readers of the run's stream.
func (enc *encoder) shared(e event.Event) route.Frame {
	rendered, ok := e.Shared.Rendered(event.OfRun)
	if !ok {
		rendered = enc.render(e)
	}
	f := rendered.(route.Frame)
	f.More = e.More
	return f
}

// render is separate from shared because its closure moves the event to the heap.
func (enc *encoder) render(e event.Event) any {
	return e.Shared.Render(event.OfRun, func() any { return encoded(enc.frame(e), e) })
}

func (enc *encoder) frame(e event.Event) route.Frame {
	area, _, _ := strings.Cut(e.Name, ".")
	kind := streamTypes[area]
	if kind == "" {
		kind = "other"
	}
	b := make([]byte, 0, 192+len(e.Data))
	b = append(b, `{"event":"`...)
	b = append(b, e.Name...)
	b = append(b, `","run_id":"`...)
	b = append(b, enc.run...)
	if e.Seq > 0 {
		b = append(b, `","seq":`...)
		b = strconv.AppendInt(b, e.Seq, 10)
		b = append(b, `,"timestamp":"`...)
	} else {
		b = append(b, `","timestamp":"`...)
	}
	b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","stream_type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	if enc.session != nil {
		b = append(b, `,"session_id":"`...)
		b = append(b, *enc.session...)
		b = append(b, '"')
	}
	if len(e.Data) > 2 { // more than {}
		b = append(b, ',')
		b = append(b, e.Data[1:len(e.Data)-1]...)
	}
	if area == "llm" {
		b = appendPayload(b, e.Data)
	}
	b = append(b, '}')
	f := route.Frame{Name: e.Name, Data: b}
	if e.Seq > 0 {
		f.ID = strconv.FormatInt(e.Seq, 10)
	}
	return f
}

var textMember = []byte(`{"text":`)

// appendPayload appends the text of a chunk once more, as payload.delta: clients
// were written for either place.
func appendPayload(b, data []byte) []byte {
	rest, ok := bytes.CutPrefix(data, textMember)
	if !ok || len(rest) == 0 || rest[0] != '"' {
		return b
	}
	end := 1
	for end < len(rest) && rest[end] != '"' {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return b
	}
	b = append(b, `,"payload":{"delta":`...)
	b = append(b, rest[:end+1]...)
	return append(b, '}')
}

func (enc *encoder) failure(err error) route.Frame {
	detail := "The stream was interrupted; reconnect with the last id."
	if errors.Is(err, event.ErrSlow) {
		detail = "This reader fell too far behind; reconnect with the last id."
	}
	data, _ := json.Marshal(failureData{"error", enc.run, fault.From(err).Code, detail})
	return route.Frame{Name: "error", Data: data}
}

// EventData returns a function that renders events of a run as the data of its stream.
func EventData(r *Run) func(event.Event) []byte {
	enc := &encoder{run: r.RunID, session: r.SessionID}
	return func(e event.Event) []byte { return enc.frame(e).Data }
}
