package visitor

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/route"
	"agentd/internal/execution/run"
)

// frame is all that the data of a visitor's frame can have. What an event inside of the
// company has beyond it is not known here, and so does not get out.
type frame struct {
	Event      string    `json:"event"`
	SessionID  string    `json:"session_id,omitzero"`
	RunID      string    `json:"run_id,omitzero"`
	Status     string    `json:"status,omitzero"`
	Text       string    `json:"text,omitzero"`
	Payload    *payload  `json:"payload,omitzero"`
	Question   string    `json:"question,omitzero"`
	Output     *output   `json:"output,omitzero"`
	Dropped    *int      `json:"dropped,omitzero"`
	Code       string    `json:"code,omitzero"`
	Detail     string    `json:"detail,omitzero"`
	StreamType string    `json:"stream_type,omitzero"`
	Timestamp  time.Time `json:"timestamp,omitzero"`
}

type payload struct {
	Delta string `json:"delta" doc:"The text again."`
}

type output struct {
	Text string `json:"text" doc:"The whole answer."`
}

// inner is what is read of an event.
type inner struct {
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	Text      string    `json:"text"`
	Question  string    `json:"question"`
	Dropped   *int      `json:"dropped"`
	Timestamp time.Time `json:"timestamp"`

	Output jsontext.Value `json:"output"`
}

const (
	statusFailed  = "failed"
	statusPaused  = "paused"
	statusRunning = "running"

	failedDetail = "The agent could not answer. Try again."
	brokenDetail = "The stream cannot continue; reconnect with the last id."
)

// outwardName is the name under which a visitor sees an event; an event that is not
// listed is not sent. How a run waits, and why it failed, is the company's own.
var outwardName = map[string]string{
	"session.connected": "session.connected", "run_added": "run_added", "session_closed": "session_closed",
	"gap": "gap", "error": "error", "done": "done",

	"run.queued": "run.queued", "run.started": "run.started", "run.resumed": "run.resumed",
	"run.paused": "run.paused", "run.awaiting_approval": "run.paused", "run.auth_required": "run.paused",
	"run.completed": "run.completed", "run.cancelled": "run.cancelled",
	"run.failed": "run.failed", "run.timeout": "run.failed", "run.guardrail_blocked": "run.failed", "run.rejected": "run.failed",

	"llm.chunk": "llm.chunk", "llm.completed": "llm.completed", "step.draft_void": "step.draft_void",
	"input.requested": "input.requested", "input.received": "input.received",
}

// outwardFrame returns a frame as a visitor may see it, and whether there is one.
func outwardFrame(f route.Frame) (route.Frame, bool) {
	name := outwardName[f.Name]
	if name == "" {
		return route.Frame{}, false
	}
	var in inner
	if json.Unmarshal(f.Data, &in) != nil {
		return route.Frame{}, false
	}
	out := frame{Event: name, SessionID: in.SessionID, RunID: in.RunID, Timestamp: in.Timestamp}
	switch name {
	case "session.connected", "session_closed":
		out.Status = in.Status
	case "gap":
		out.Dropped = in.Dropped
	case "error":
		out.Code, out.Detail = "SERVICE_UNAVAILABLE", brokenDetail
	case "done":
		out.finish(&in)
	case "llm.chunk":
		out.StreamType, out.Text, out.Payload = "assistant", in.Text, &payload{in.Text}
	case "llm.completed":
		out.StreamType = "assistant"
	case "input.requested":
		out.StreamType, out.Question = "other", in.Question
	case "input.received":
		out.StreamType = "other"
	case "run_added":
	default:
		out.StreamType, out.Status = "lifecycle", outwardStatus(name)
		if out.Status == statusFailed {
			out.Detail = failedDetail
		}
	}
	data, err := json.Marshal(out)
	return route.Frame{ID: f.ID, Name: name, Data: data, More: f.More}, err == nil
}

// finish adds how a run ended: its text if it completed, or if the visitor cancelled it.
func (f *frame) finish(in *inner) {
	switch run.Status(in.Status) {
	case run.Completed, run.Cancelled:
		var o output
		f.Status = in.Status
		if json.Unmarshal(in.Output, &o) == nil && o.Text != "" {
			f.Output = &o
		}
	default:
		f.Status, f.Detail = statusFailed, failedDetail
	}
}

// outwardStatus returns the status of a run's event.
func outwardStatus(name string) string {
	switch name {
	case "run.queued":
		return "queued"
	case "run.paused":
		return statusPaused
	case "run.completed":
		return "completed"
	case "run.cancelled":
		return "cancelled"
	case "run.failed":
		return statusFailed
	case "step.draft_void":
		return ""
	}
	return statusRunning
}

// Types of the published events; the struct frame writes them.
type (
	commonEvent struct {
		SessionID  string    `json:"session_id,omitzero" format:"uuid" doc:"The session."`
		RunID      string    `json:"run_id,omitzero" format:"uuid" doc:"The answer, in events of one."`
		Timestamp  time.Time `json:"timestamp,omitzero" doc:"When it happened; absent from done."`
		StreamType string    `json:"stream_type,omitzero" enum:"lifecycle,assistant,other" doc:"Kind of an answer's event."`
	}
	statusEvent struct {
		Status string `json:"status" doc:"The status since then."`
	}
	failedEvent struct {
		Status string `json:"status" enum:"failed" doc:"The status since then."`
		Detail string `json:"detail" doc:"What to do, for a person."`
	}
	textEvent struct {
		Text    string  `json:"text" doc:"The next piece of the answer."`
		Payload payload `json:"payload" doc:"The text again, for clients that read it here."`
	}
	questionEvent struct {
		Question string `json:"question" doc:"What the agent asks."`
	}
	gapEvent struct {
		Dropped int `json:"dropped" doc:"Pieces of text that were dropped; 0 if the stream starts over."`
	}
	errorEvent struct {
		Code   string `json:"code" doc:"Stable code of the error."`
		Detail string `json:"detail" doc:"What to do, for a person."`
	}
	doneEvent struct {
		Status string  `json:"status" enum:"completed,cancelled,failed" doc:"How it ended."`
		Output *output `json:"output,omitzero" doc:"The whole answer; absent if there is none."`
		Detail string  `json:"detail,omitzero" doc:"What to do where it failed, for a person."`
	}
	nothingEvent struct{}
)

var events = route.Events{
	Name: "PublicSessionEvent", Tag: "event", Common: reflect.TypeFor[commonEvent](),
	Of: []route.Event{
		{Name: "session.connected", Data: reflect.TypeFor[statusEvent](), Doc: "The stream is open."},
		{Name: "run_added", Data: reflect.TypeFor[nothingEvent](), Doc: "An answer begins."},
		{Name: "run.queued", Data: reflect.TypeFor[statusEvent](), Doc: "The answer waits for its turn."},
		{Name: "run.started", Data: reflect.TypeFor[statusEvent](), Doc: "The agent works on the answer."},
		{Name: "run.resumed", Data: reflect.TypeFor[statusEvent](), Doc: "The agent goes on."},
		{Name: "run.paused", Data: reflect.TypeFor[statusEvent](), Doc: "The agent waits, for the visitor where it asked a question."},
		{Name: "run.completed", Data: reflect.TypeFor[statusEvent](), Doc: "The answer is complete."},
		{Name: "run.cancelled", Data: reflect.TypeFor[statusEvent](), Doc: "The answer was cancelled."},
		{Name: "run.failed", Data: reflect.TypeFor[failedEvent](), Doc: "There is no answer."},
		{Name: "llm.chunk", Data: reflect.TypeFor[textEvent](), Doc: "A piece of the answer."},
		{Name: "llm.completed", Data: reflect.TypeFor[nothingEvent](), Doc: "A part of the answer ended; the next piece begins another one."},
		{Name: "step.draft_void", Data: reflect.TypeFor[nothingEvent](), Doc: "The pieces since the last part are void."},
		{Name: "input.requested", Data: reflect.TypeFor[questionEvent](), Doc: "The agent asks a question; answer with respond."},
		{Name: "input.received", Data: reflect.TypeFor[nothingEvent](), Doc: "The question was answered."},
		{Name: "gap", Data: reflect.TypeFor[gapEvent](), Doc: "Events are missing: the client was slow, or resumed after an unknown id."},
		{Name: "error", Data: reflect.TypeFor[errorEvent](), Doc: "The stream cannot continue; reconnect with the last id."},
		{Name: "done", Data: reflect.TypeFor[doneEvent](), Doc: "The answer with its whole text."},
		{Name: "session_closed", Data: reflect.TypeFor[statusEvent](), Doc: "The session takes no more messages, and the stream ends."},
	},
}
