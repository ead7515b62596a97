package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/ptr"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
)

// hear tells a composer what happened. over: it was the run's end.
func (c *composer) hear(e event.Event) (over bool) {
	switch e.Name {
	case "llm.chunk":
		c.text(textOf(e.Data))
	case "llm.thinking":
		c.thought(textOf(e.Data))
	case "llm.completed":
		var said struct {
			Finish string `json:"finish_reason"`
		}
		_ = json.Unmarshal(e.Data, &said) // an event of another shape tells no reason
		c.step(stateOf(said.Finish))
	case "step.completed", "run.resumed": // without llm.completed before it: the step failed, or its worker died
		c.step(stateIncomplete)
	default:
		return run.FinalEvent(e.Name)
	}
	return false
}

// frames renders a response's event stream: each event has a type and a
// number. It is the teller of the response's composer.
type frames struct {
	send  func(name string, data []byte, more bool)
	after int64 // events up to this number were sent before
	seq   int64 // of the next event
	buf   []byte
}

// begin begins the data of an event.
func (f *frames) begin(name string) {
	f.buf = append(append(append(f.buf[:0], `{"type":"`...), name...), `","sequence_number":`...)
	f.buf = strconv.AppendInt(f.buf, f.seq, 10)
}

// place adds where in the output the event is.
func (f *frames) place(index int, id string) {
	f.buf = append(append(append(f.buf, `,"item_id":"`...), id...), `","output_index":`...)
	f.buf = strconv.AppendInt(f.buf, int64(index), 10)
}

// member adds a member whose value is JSON.
func (f *frames) member(name string, value []byte) {
	f.buf = append(append(append(append(f.buf, `,"`...), name...), `":`...), value...)
}

// end sends the event; more says that another follows at once.
func (f *frames) end(name string, more bool) {
	if f.seq > f.after {
		f.buf = append(f.buf, '}')
		f.send(name, f.buf, more)
	}
	f.seq++
}

func encoded(v any) []byte {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // our own types always encode
	}
	return b
}

// response is an event with the whole response.
func (f *frames) response(name string, value []byte, more bool) {
	f.begin(name)
	f.member("response", value)
	f.end(name, more)
}

// item is an event with a whole item.
func (f *frames) item(name string, index int, item *OutputItem, more bool) {
	f.begin(name)
	f.buf = strconv.AppendInt(append(f.buf, `,"output_index":`...), int64(index), 10)
	f.member("item", encoded(item))
	f.end(name, more)
}

// Names of events.
const (
	eventCreated    = "response.created"
	eventInProgress = "response.in_progress"
	eventItemAdded  = "response.output_item.added"
	eventItemDone   = "response.output_item.done"
	eventPartAdded  = "response.content_part.added"
	eventPartDone   = "response.content_part.done"
	eventTextDelta  = "response.output_text.delta"
	eventTextDone   = "response.output_text.done"
	eventCallDelta  = "response.function_call_arguments.delta"
	eventCallDone   = "response.function_call_arguments.done"
	eventNoteAdded  = "response.reasoning_summary_part.added"
	eventNoteDone   = "response.reasoning_summary_part.done"
	eventNoteDelta  = "response.reasoning_summary_text.delta"
	eventNoteText   = "response.reasoning_summary_text.done"
	eventError      = "error"
)

const (
	contentIndex = `,"content_index":0`
	summaryIndex = `,"summary_index":0`
	noLogprobs   = `,"logprobs":[]`
)

// opened implements teller.
func (f *frames) opened(index int, item *OutputItem) {
	bare := *item // its parts come one by one
	switch item.Type {
	case itemMessage:
		bare.Content = []OutputText{}
		f.item(eventItemAdded, index, &bare, true)
		f.part(eventPartAdded, index, item)
	case itemReasoning:
		bare.Summary = []ThoughtOutput{}
		f.item(eventItemAdded, index, &bare, true)
		f.part(eventNoteAdded, index, item)
	default:
		f.item(eventItemAdded, index, item, true)
	}
}

// part is an event with an item's one part, which another one follows at once.
func (f *frames) part(name string, index int, item *OutputItem) {
	f.begin(name)
	f.place(index, item.ID)
	if item.Type == itemMessage {
		f.buf = append(f.buf, contentIndex...)
		f.member("part", encoded(&item.Content[0]))
	} else {
		f.buf = append(f.buf, summaryIndex...)
		f.member("part", encoded(&item.Summary[0]))
	}
	f.end(name, true)
}

// said implements teller.
func (f *frames) said(index int, item *OutputItem, quoted []byte) {
	switch item.Type {
	case itemMessage:
		f.piece(eventTextDelta, index, item.ID, contentIndex, "delta", quoted, noLogprobs)
	case itemReasoning:
		f.piece(eventNoteDelta, index, item.ID, summaryIndex, "delta", quoted, "")
	default:
		f.piece(eventCallDelta, index, item.ID, "", "delta", quoted, "")
	}
}

// piece is an event with a text.
func (f *frames) piece(name string, index int, id, within, member string, quoted []byte, after string) {
	f.begin(name)
	f.place(index, id)
	f.buf = append(f.buf, within...)
	f.member(member, quoted)
	f.buf = append(f.buf, after...)
	f.end(name, member != "delta")
}

// closed implements teller.
func (f *frames) closed(index int, item *OutputItem) {
	switch item.Type {
	case itemMessage:
		f.piece(eventTextDone, index, item.ID, contentIndex, "text", quote(item.text()), noLogprobs)
		f.part(eventPartDone, index, item)
	case itemReasoning:
		f.piece(eventNoteText, index, item.ID, summaryIndex, "text", quote(item.Summary[0].Text), "")
		f.part(eventNoteDone, index, item)
	default:
		f.piece(eventCallDone, index, item.ID, `,"name":`+string(quote(item.Name)), "arguments", quote(ptr.Value(item.Arguments)), "")
	}
	f.item(eventItemDone, index, item, false)
}

// fail is the event that a stream ends with whose response goes on without it.
// Some clients look for the members of an error in it, and some within error.
func (f *frames) fail(e *fault.Error) {
	body := newEnvelope(e).Error
	f.after = -1
	f.begin(eventError)
	f.member("code", quote(body.Code))
	f.member("message", quote(body.Message))
	f.member("param", []byte("null"))
	f.member("error", encoded(body))
	f.end(eventError, false)
}

// last is the event that ends a stream, by the response's state.
func last(status string) string {
	switch status {
	case stateCompleted, stateIncomplete:
		return "response." + status
	}
	return "response.failed"
}
