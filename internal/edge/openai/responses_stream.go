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

// observe tells a composer what happened. over: it was the run's end.
func (c *composer) observe(e event.Event) (over bool) {
	switch e.Name {
	case "llm.chunk":
		c.addText(textOf(e.Data))
	case "llm.thinking":
		c.addThought(textOf(e.Data))
	case "llm.completed":
		var said struct {
			Finish string `json:"finish_reason"`
		}
		_ = json.Unmarshal(e.Data, &said) // an event of another shape tells no reason
		c.endStep(stateOf(said.Finish))
	case "step.completed", "run.resumed": // without llm.completed before it: the step failed, or its worker died
		c.endStep(stateIncomplete)
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

// beginEvent begins the data of an event.
func (f *frames) beginEvent(name string) {
	f.buf = append(append(append(f.buf[:0], `{"type":"`...), name...), `","sequence_number":`...)
	f.buf = strconv.AppendInt(f.buf, f.seq, 10)
}

// addPosition adds where in the output the event is.
func (f *frames) addPosition(index int, id string) {
	f.buf = append(append(append(f.buf, `,"item_id":"`...), id...), `","output_index":`...)
	f.buf = strconv.AppendInt(f.buf, int64(index), 10)
}

// addMember adds a member whose value is JSON.
func (f *frames) addMember(name string, value []byte) {
	f.buf = append(append(append(append(f.buf, `,"`...), name...), `":`...), value...)
}

// endEvent sends the event; more says that another follows at once.
func (f *frames) endEvent(name string, more bool) {
	if f.seq > f.after {
		f.buf = append(f.buf, '}')
		f.send(name, f.buf, more)
	}
	f.seq++
}

func mustMarshal(v any) []byte {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // our own types always encode
	}
	return b
}

// sendResponse is an event with the whole response.
func (f *frames) sendResponse(name string, value []byte, more bool) {
	f.beginEvent(name)
	f.addMember("response", value)
	f.endEvent(name, more)
}

// sendItem is an event with a whole item.
func (f *frames) sendItem(name string, index int, item *OutputItem, more bool) {
	f.beginEvent(name)
	f.buf = strconv.AppendInt(append(f.buf, `,"output_index":`...), int64(index), 10)
	f.addMember("item", mustMarshal(item))
	f.endEvent(name, more)
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

// itemOpened implements teller.
func (f *frames) itemOpened(index int, item *OutputItem) {
	bare := *item // its parts come one by one
	switch item.Type {
	case itemMessage:
		bare.Content = []OutputText{}
		f.sendItem(eventItemAdded, index, &bare, true)
		f.sendPart(eventPartAdded, index, item)
	case itemReasoning:
		bare.Summary = []ThoughtOutput{}
		f.sendItem(eventItemAdded, index, &bare, true)
		f.sendPart(eventNoteAdded, index, item)
	default:
		f.sendItem(eventItemAdded, index, item, true)
	}
}

// sendPart is an event with an item's one part, which another one follows at once.
func (f *frames) sendPart(name string, index int, item *OutputItem) {
	f.beginEvent(name)
	f.addPosition(index, item.ID)
	if item.Type == itemMessage {
		f.buf = append(f.buf, contentIndex...)
		f.addMember("part", mustMarshal(&item.Content[0]))
	} else {
		f.buf = append(f.buf, summaryIndex...)
		f.addMember("part", mustMarshal(&item.Summary[0]))
	}
	f.endEvent(name, true)
}

// itemDelta implements teller.
func (f *frames) itemDelta(index int, item *OutputItem, quoted []byte) {
	switch item.Type {
	case itemMessage:
		f.sendText(eventTextDelta, index, item.ID, contentIndex, "delta", quoted, noLogprobs)
	case itemReasoning:
		f.sendText(eventNoteDelta, index, item.ID, summaryIndex, "delta", quoted, "")
	default:
		f.sendText(eventCallDelta, index, item.ID, "", "delta", quoted, "")
	}
}

// sendText is an event with a text.
func (f *frames) sendText(name string, index int, id, within, member string, quoted []byte, after string) {
	f.beginEvent(name)
	f.addPosition(index, id)
	f.buf = append(f.buf, within...)
	f.addMember(member, quoted)
	f.buf = append(f.buf, after...)
	f.endEvent(name, member != "delta")
}

// itemClosed implements teller.
func (f *frames) itemClosed(index int, item *OutputItem) {
	switch item.Type {
	case itemMessage:
		f.sendText(eventTextDone, index, item.ID, contentIndex, "text", quote(item.text()), noLogprobs)
		f.sendPart(eventPartDone, index, item)
	case itemReasoning:
		f.sendText(eventNoteText, index, item.ID, summaryIndex, "text", quote(item.Summary[0].Text), "")
		f.sendPart(eventNoteDone, index, item)
	default:
		f.sendText(eventCallDone, index, item.ID, `,"name":`+string(quote(item.Name)), "arguments", quote(ptr.Value(item.Arguments)), "")
	}
	f.sendItem(eventItemDone, index, item, false)
}

// fail is the event that a stream ends with whose response goes on without it.
// Some clients look for the members of an error in it, and some within error.
func (f *frames) fail(e *fault.Error) {
	body := newEnvelope(e).Error
	f.after = -1
	f.beginEvent(eventError)
	f.addMember("code", quote(body.Code))
	f.addMember("message", quote(body.Message))
	f.addMember("param", []byte("null"))
	f.addMember("error", mustMarshal(body))
	f.endEvent(eventError, false)
}

// finalEventName is the event that ends a stream, by the response's state.
func finalEventName(status string) string {
	switch status {
	case stateCompleted, stateIncomplete:
		return "response." + status
	}
	return "response.failed"
}
