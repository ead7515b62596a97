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

	open    string // the type of the item that is being made; "": none
	id      string // its id
	said    []byte // its text so far, as the inside of a JSON string
	tell    teller // told of every change; nil: nobody is
	unheard bool   // the step's thoughts are over
}

// teller is told how items come about. index is the item's among all.
type teller interface {
	opened(index int, item *OutputItem)
	said(index int, item *OutputItem, quoted []byte) // a piece of its text, as JSON
	closed(index int, item *OutputItem)
}

// numbered is the id of the n-th item of a kind.
func (c *composer) numbered(prefix string, n *int) string {
	if *n++; *n == 1 {
		return prefix + c.run
	}
	return prefix + c.run + "_" + strconv.Itoa(*n)
}

// text adds a piece of what the model says, as JSON.
func (c *composer) text(quoted []byte) {
	if c.open != itemMessage {
		c.close(stateCompleted)
		c.begin(itemMessage, messageItem(c.numbered(messagePrefix, &c.messages), stateInProgress, ""))
		c.unheard = true
	}
	c.piece(quoted)
}

// thought adds a piece of what the model thinks. What it thinks after it began
// to speak is left out: the message would fall apart.
func (c *composer) thought(quoted []byte) {
	if c.unheard {
		return
	}
	if c.open != itemReasoning {
		c.begin(itemReasoning, thoughtItem(c.numbered(reasoningPrefix, &c.thoughts), stateInProgress, ""))
	}
	c.piece(quoted)
}

func (c *composer) begin(kind string, item OutputItem) {
	c.open, c.id, c.said = kind, item.ID, c.said[:0]
	c.items = append(c.items, item)
	if c.tell != nil {
		c.tell.opened(len(c.items)-1, &item)
	}
}

func (c *composer) piece(quoted []byte) {
	c.said = append(c.said, quoted[1:len(quoted)-1]...)
	if c.tell != nil {
		c.tell.said(len(c.items)-1, &c.items[len(c.items)-1], quoted)
	}
}

// close completes the item that is being made.
func (c *composer) close(status string) {
	if c.open == "" {
		return
	}
	text := unquote(append(append(append(make([]byte, 0, len(c.said)+2), '"'), c.said...), '"'))
	item := messageItem(c.id, status, text)
	if c.open == itemReasoning {
		item = thoughtItem(c.id, status, text)
	}
	c.items[len(c.items)-1], c.open = item, ""
	if c.tell != nil {
		c.tell.closed(len(c.items)-1, &item)
	}
}

// step ends a step of the model: what comes is another item.
func (c *composer) step(status string) {
	c.close(status)
	c.unheard = false
}

// whole adds an item that there is nothing more to say of.
func (c *composer) whole(item OutputItem) {
	c.items = append(c.items, item)
	if c.tell == nil {
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
	c.tell.opened(len(c.items)-1, &begun)
	if item.Type == itemCall {
		c.tell.said(len(c.items)-1, &item, quote(*item.Arguments))
	} else if text := item.text(); text != "" {
		c.tell.said(len(c.items)-1, &item, quote(text))
	}
	c.tell.closed(len(c.items)-1, &item)
}

// end adds what a run's end has beside what was said: calls of the caller's
// tools, and a message where there would be nothing.
func (c *composer) end(r *run.Run, out *run.Output) {
	c.step(stateIncomplete)
	if r.Status != run.Completed {
		return
	}
	if c.messages == 0 && (out.Text != "" || len(out.ToolCalls) == 0) {
		status := stateCompleted
		if cutOff[out.FinishReason] != "" {
			status = stateIncomplete
		}
		c.whole(messageItem(c.numbered(messagePrefix, &c.messages), status, out.Text))
	}
	for i := range out.ToolCalls {
		c.whole(callItem(c.numbered(callPrefix, &c.calls), &out.ToolCalls[i]))
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
			c.thought(quote(said.Thinking))
		}
		if said.Text != "" {
			c.text(quote(said.Text))
		}
		c.step(stateOf(said.FinishReason))
	}
	c.end(r, out)
	return c.items, nil
}
