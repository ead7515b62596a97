package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// composer makes the items of a response from its run's events. The answer in one
// piece, the stream and the stored response are all made by it and therefore agree.
type composer struct {
	run      string
	items    []OutputItem
	messages int
	thoughts int
	calls    int

	open         string       // type of the open item; "" if none is open
	id           string       // its id
	text         []byte       // its text so far, as the content of a JSON string
	observer     itemObserver // nil if the items are not streamed
	searches     searches
	thoughtsOver bool // further thoughts of the step are dropped

	before           stepStart         // the state when the step began
	answer, reasoned runstream.Redraft // what was streamed of the step
	voided           bool              // text that was streamed is void, and the new text differs
}

// stepStart is the number of items when a step began.
type stepStart struct{ items, messages, thoughts int }

// itemObserver is notified as items are made. index is the item's position in the
// output.
type itemObserver interface {
	itemOpened(index int, item *OutputItem)
	itemDelta(index int, item *OutputItem, quoted []byte) // a piece of its text, as JSON
	itemClosed(index int, item *OutputItem)
}

// nextID returns the id of the next item of a type, of which n exist.
func (c *composer) nextID(prefix string, n *int) string {
	if *n++; *n == 1 {
		return prefix + c.run
	}
	return prefix + c.run + "_" + strconv.Itoa(*n)
}

// addText adds a piece of the answer, as JSON.
func (c *composer) addText(quoted []byte) {
	if c.observer != nil {
		rest, same := c.answer.Next(quoted)
		c.voided = c.voided || !same
		quoted = rest
	}
	if quoted == nil {
		return
	}
	if c.open != itemMessage {
		c.close(stateCompleted)
		c.begin(itemMessage, messageItem(c.nextID(messagePrefix, &c.messages), stateInProgress, ""))
		c.thoughtsOver = true
	}
	c.addPiece(quoted)
}

// voidDraft drops the step's items so far, because they are made again. What was
// streamed of them stays, and must come again.
func (c *composer) voidDraft() {
	if c.observer != nil {
		c.answer.Void()
		c.reasoned.Void()
		return
	}
	c.items, c.messages, c.thoughts = c.items[:c.before.items], c.before.messages, c.before.thoughts
	c.open, c.thoughtsOver = "", false
}

// addThought adds a piece of reasoning, as JSON. Reasoning after the first text of a
// step is dropped, because it would split the message.
func (c *composer) addThought(quoted []byte) {
	if c.observer != nil {
		if rest, same := c.reasoned.Next(quoted); same { // reasoning is not the answer: it may go on differently
			quoted = rest
		}
	}
	if quoted == nil || c.thoughtsOver {
		return
	}
	if c.open != itemReasoning {
		c.begin(itemReasoning, thoughtItem(c.nextID(reasoningPrefix, &c.thoughts), stateInProgress, ""))
	}
	c.addPiece(quoted)
}

func (c *composer) begin(kind string, item OutputItem) {
	c.open, c.id, c.text = kind, item.ID, c.text[:0]
	c.items = append(c.items, item)
	if c.observer != nil {
		c.observer.itemOpened(len(c.items)-1, &item)
	}
}

func (c *composer) addPiece(quoted []byte) {
	c.text = append(c.text, quoted[1:len(quoted)-1]...)
	if c.observer != nil {
		c.observer.itemDelta(len(c.items)-1, &c.items[len(c.items)-1], quoted)
	}
}

// close completes the open item.
func (c *composer) close(status string) {
	if c.open == "" {
		return
	}
	text := unquote(append(append(append(make([]byte, 0, len(c.text)+2), '"'), c.text...), '"'))
	item := messageItem(c.id, status, text)
	if c.open == itemReasoning {
		item = thoughtItem(c.id, status, text)
	}
	c.items[len(c.items)-1], c.open = item, ""
	if c.observer != nil {
		c.observer.itemClosed(len(c.items)-1, &item)
	}
}

// endStep ends a step of the run: what follows is another item.
func (c *composer) endStep(status string) {
	c.close(status)
	c.thoughtsOver = false
	c.voided = c.voided || !c.answer.Complete()
	c.answer.Begin()
	c.reasoned.Begin()
	c.before = stepStart{len(c.items), c.messages, c.thoughts}
}

// addItem adds a complete item.
func (c *composer) addItem(item OutputItem) {
	c.items = append(c.items, item)
	if c.observer == nil {
		return
	}
	opened := item
	opened.Status = stateInProgress
	if item.Type == itemCall {
		empty := ""
		opened.Arguments = &empty
	} else {
		opened.Content = []OutputText{{Type: "output_text"}}
	}
	c.observer.itemOpened(len(c.items)-1, &opened)
	if item.Type == itemCall {
		c.observer.itemDelta(len(c.items)-1, &item, quote(*item.Arguments))
	} else if text := item.text(); text != "" {
		c.observer.itemDelta(len(c.items)-1, &item, quote(text))
	}
	c.observer.itemClosed(len(c.items)-1, &item)
}

// endRun adds what a run's result has beyond its events: calls of the client's tools,
// and a message if there would be no item.
func (c *composer) endRun(r *run.Run, out *run.Output) {
	c.endStep(stateIncomplete)
	if r.Status != run.Completed {
		return
	}
	if c.messages == 0 && (out.Text != "" || len(out.ToolCalls) == 0) {
		status := stateCompleted
		if cutOff[out.FinishReason] != "" {
			status = stateIncomplete
		}
		c.addItem(messageItem(c.nextID(messagePrefix, &c.messages), status, out.Text))
	}
	for i := range out.ToolCalls {
		c.addItem(callItem(c.nextID(callPrefix, &c.calls), &out.ToolCalls[i]))
	}
}

// stateOf returns the status of a step's item, by the model's finish reason.
func stateOf(finish string) string {
	switch finish {
	case model.FinishStop, model.FinishToolCalls, "":
		return stateCompleted
	}
	return stateIncomplete
}

// itemsOf returns the items of a run that has ended, from its steps.
func itemsOf(r *run.Run, steps []run.Step, out *run.Output, e *echo) ([]OutputItem, error) {
	c := e.composer(r.RunID, nil)
	for i := range steps {
		s := &steps[i]
		if s.Type == run.StepTool && c.searches.on {
			if err := c.searchOf(s); err != nil {
				return nil, err
			}
		}
		if s.Type != run.StepLLM || len(s.Output) == 0 {
			continue
		}
		var step run.LLMOutput
		if err := json.Unmarshal(s.Output, &step); err != nil {
			return nil, err
		}
		if step.Thinking != "" {
			c.addThought(quote(step.Thinking))
		}
		if step.Text != "" {
			c.addText(quote(step.Text))
		}
		c.endStep(stateOf(step.FinishReason))
	}
	c.endRun(r, out)
	return c.items, nil
}
