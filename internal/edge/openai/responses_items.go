package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"

	"agentd/internal/execution/run"
	"agentd/internal/kernel/model"
)

// composer makes the items of a response from what its run says, step by step.
// The one answer in one piece, the stream and the answer that is read back are
// made by it, which is why they agree.
type composer struct {
	run      string
	items    []OutputItem
	messages int
	thoughts int
	calls    int

	open         string       // the type of the item that is being made; "": none
	id           string       // its id
	text         []byte       // its text so far, as the inside of a JSON string
	observer     itemObserver // told of every change; nil: nobody is
	thoughtsOver bool         // the step's thoughts are over
}

// itemObserver is told how items come about. index is the item's among all.
type itemObserver interface {
	itemOpened(index int, item *OutputItem)
	itemDelta(index int, item *OutputItem, quoted []byte) // a piece of its text, as JSON
	itemClosed(index int, item *OutputItem)
}

// nextID is the id of the n-th item of a kind.
func (c *composer) nextID(prefix string, n *int) string {
	if *n++; *n == 1 {
		return prefix + c.run
	}
	return prefix + c.run + "_" + strconv.Itoa(*n)
}

// addText adds a piece of what the model says, as JSON.
func (c *composer) addText(quoted []byte) {
	if c.open != itemMessage {
		c.close(stateCompleted)
		c.begin(itemMessage, messageItem(c.nextID(messagePrefix, &c.messages), stateInProgress, ""))
		c.thoughtsOver = true
	}
	c.addPiece(quoted)
}

// addThought adds a piece of what the model thinks. What it thinks after it began
// to speak is left out: the message would fall apart.
func (c *composer) addThought(quoted []byte) {
	if c.thoughtsOver {
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

// close completes the item that is being made.
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

// endStep ends a step of the model: what comes is another item.
func (c *composer) endStep(status string) {
	c.close(status)
	c.thoughtsOver = false
}

// addItem adds an item that there is nothing more to say of.
func (c *composer) addItem(item OutputItem) {
	c.items = append(c.items, item)
	if c.observer == nil {
		return
	}
	begun := item
	begun.Status = stateInProgress
	if item.Type == itemCall {
		empty := ""
		begun.Arguments = &empty
	} else {
		begun.Content = []OutputText{{Type: "output_text"}}
	}
	c.observer.itemOpened(len(c.items)-1, &begun)
	if item.Type == itemCall {
		c.observer.itemDelta(len(c.items)-1, &item, quote(*item.Arguments))
	} else if text := item.text(); text != "" {
		c.observer.itemDelta(len(c.items)-1, &item, quote(text))
	}
	c.observer.itemClosed(len(c.items)-1, &item)
}

// endRun adds what a run's end has beside what was said: calls of the caller's
// tools, and a message where there would be nothing.
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

// stateOf is the state of what a model said, by the reason for which it ended.
func stateOf(finish string) string {
	switch finish {
	case model.FinishStop, model.FinishToolCalls, "":
		return stateCompleted
	}
	return stateIncomplete
}

// itemsOf gives the items of a run that ended, from its steps.
func itemsOf(r *run.Run, steps []run.Step, out *run.Output) ([]OutputItem, error) {
	c := composer{run: r.RunID, items: []OutputItem{}}
	for i := range steps {
		s := &steps[i]
		if s.Type != run.StepLLM || len(s.Output) == 0 {
			continue
		}
		var said run.LLMOutput
		if err := json.Unmarshal(s.Output, &said); err != nil {
			return nil, err
		}
		if said.Thinking != "" {
			c.addThought(quote(said.Thinking))
		}
		if said.Text != "" {
			c.addText(quote(said.Text))
		}
		c.endStep(stateOf(said.FinishReason))
	}
	c.endRun(r, out)
	return c.items, nil
}
