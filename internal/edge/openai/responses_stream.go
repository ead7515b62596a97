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

// observe adds an event of the run, and reports whether it was the final one.
func (c *composer) observe(e event.Event) (final bool) {
	switch e.Name {
	case "llm.chunk":
		c.addText(textOf(e.Data))
	case "llm.thinking":
		c.addThought(textOf(e.Data))
	case "llm.completed":
		var step struct {
			Finish string `json:"finish_reason"`
		}
		_ = json.Unmarshal(e.Data, &step) // an event of another shape has no reason
		c.endStep(stateOf(step.Finish))
	case "tool.call", "tool.result":
		c.observeSearch(e)
	case "step.draft_void":
		c.voidDraft()
	case "step.completed": // if the step failed, llm.completed did not precede it
		c.endStep(stateIncomplete)
	default:
		return run.FinalEvent(e.Name)
	}
	return false
}

// frames renders a response's event stream, in which each event has a type and a
// sequence number. It observes the response's composer.
type frames struct {
	send  func(name string, data []byte, more bool)
	after int64 // the client has the events up to this number
	seq   int64 // of the next event
	buf   []byte
}

// beginEvent starts the data of an event.
func (f *frames) beginEvent(name string) {
	f.buf = append(append(append(f.buf[:0], `{"type":"`...), name...), `","sequence_number":`...)
	f.buf = strconv.AppendInt(f.buf, f.seq, 10)
}

// addPosition adds the item that the event belongs to.
func (f *frames) addPosition(index int, id string) {
	f.buf = append(append(append(f.buf, `,"item_id":"`...), id...), `","output_index":`...)
	f.buf = strconv.AppendInt(f.buf, int64(index), 10)
}

// addMember adds a member whose value is JSON.
func (f *frames) addMember(name string, value []byte) {
	f.buf = append(append(append(append(f.buf, `,"`...), name...), `":`...), value...)
}

// endEvent sends the event; more means that another one follows at once.
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

// sendResponse sends an event with the whole response.
func (f *frames) sendResponse(name string, value []byte, more bool) {
	f.beginEvent(name)
	f.addMember("response", value)
	f.endEvent(name, more)
}

// sendItem sends an event with a whole item.
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

	eventSearchBegun = "response.file_search_call.in_progress"
	eventSearching   = "response.file_search_call.searching"
	eventSearchDone  = "response.file_search_call.completed"
)

const (
	contentIndex = `,"content_index":0`
	summaryIndex = `,"summary_index":0`
	noLogprobs   = `,"logprobs":[]`
)

// itemOpened implements itemObserver.
func (f *frames) itemOpened(index int, item *OutputItem) {
	bare := *item // its parts follow one by one
	switch item.Type {
	case itemMessage:
		bare.Content = []OutputText{}
		f.sendItem(eventItemAdded, index, &bare, true)
		f.sendPart(eventPartAdded, index, item)
	case itemReasoning:
		bare.Summary = []ThoughtOutput{}
		f.sendItem(eventItemAdded, index, &bare, true)
		f.sendPart(eventNoteAdded, index, item)
	case itemSearch:
		begun := *item
		begun.Status, begun.Results = stateInProgress, nil
		f.sendItem(eventItemAdded, index, &begun, true)
		f.sendSearch(eventSearchBegun, index, item)
		f.sendSearch(eventSearching, index, item)
	default:
		f.sendItem(eventItemAdded, index, item, true)
	}
}

// sendSearch sends an event of a search; another event follows at once.
func (f *frames) sendSearch(name string, index int, item *OutputItem) {
	f.beginEvent(name)
	f.addPosition(index, item.ID)
	f.endEvent(name, true)
}

// sendPart sends an event with an item's only part; another event follows at once.
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

// itemDelta implements itemObserver.
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

// sendText sends an event with a text.
func (f *frames) sendText(name string, index int, id, within, member string, quoted []byte, after string) {
	f.beginEvent(name)
	f.addPosition(index, id)
	f.buf = append(f.buf, within...)
	f.addMember(member, quoted)
	f.buf = append(f.buf, after...)
	f.endEvent(name, member != "delta")
}

// itemClosed implements itemObserver.
func (f *frames) itemClosed(index int, item *OutputItem) {
	switch item.Type {
	case itemMessage:
		f.sendText(eventTextDone, index, item.ID, contentIndex, "text", quote(item.text()), noLogprobs)
		f.sendPart(eventPartDone, index, item)
	case itemReasoning:
		f.sendText(eventNoteText, index, item.ID, summaryIndex, "text", quote(item.Summary[0].Text), "")
		f.sendPart(eventNoteDone, index, item)
	case itemSearch:
		f.sendSearch(eventSearchDone, index, item)
	default:
		f.sendText(eventCallDone, index, item.ID, `,"name":`+string(quote(item.Name)), "arguments", quote(ptr.Value(item.Arguments)), "")
	}
	f.sendItem(eventItemDone, index, item, false)
}

// fail sends the event that ends a stream before its response has ended. Some
// clients read its own members, some those of error.
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

// finalEventName returns the event that ends a stream, by the response's status.
func finalEventName(status string) string {
	switch status {
	case stateCompleted, stateIncomplete:
		return "response." + status
	}
	return "response.failed"
}
