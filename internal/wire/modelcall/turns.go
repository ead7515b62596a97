package modelcall

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentd/internal/kernel/model"
)

// Prompt is a conversation in the form that wires without the roles system and tool have:
// turns of the user and of the model, one after the other, the user first.
type Prompt struct {
	System []string // texts that stand before the conversation
	Turns  []Turn

	takes func(*Media) bool
}

// Turn is what one side said in a row.
type Turn struct {
	Model  []*model.Message // of the model: its messages; nil: a turn of the user
	Blocks []Block          // of the user: results of tools first
	Stable bool             // the turn is followed by the newest message of the user
}

// Block is a part of a user's turn: a text, a medium or a tool's result.
type Block struct {
	Text   string
	Media  *Media
	Result *Result
}

// Result is the result of a call of the turn before.
type Result struct {
	Call   *model.ToolCall
	Blocks []Block // texts and media
}

// noResult stands for the result of a call that has none, which these wires refuse.
const noResult = "No result: the call was not made."

// NewPrompt arranges the messages that a target may get. The first turn is the user's;
// each call has one result in the next turn; a result without a call is a text. Media that
// the wire does not take are named in words in all but the newest message of the user, so
// that a conversation can go on that was begun with another model.
func NewPrompt(req *model.Request, takes func(*Media) bool) *Prompt {
	p := &Prompt{takes: takes}
	newest := -1
	messages := model.WithoutForeign(req.Messages, &req.Target)
	for i := range messages {
		m := &messages[i]
		switch {
		case m.Role == model.System && len(p.Turns) == 0:
			if text := model.Plain(m); text != "" {
				p.System = append(p.System, text)
			}
		case m.Role == model.Assistant:
			p.addModel(m)
		case m.Role == model.Tool:
			p.addResult(m)
		default:
			if m.Role == model.User {
				newest = p.users()
			}
			t := &p.Turns[p.users()]
			t.Blocks = append(t.Blocks, blocksOf(m)...)
		}
	}
	for i := range p.Turns {
		if i != newest {
			p.describe(p.Turns[i].Blocks)
		}
	}
	p.complete()
	if newest > 0 {
		p.Turns[newest-1].Stable = true
	}
	return p
}

// describe replaces media that the wire does not take by words.
func (p *Prompt) describe(blocks []Block) {
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Result != nil:
			p.describe(b.Result.Blocks)
		case b.Media != nil && !p.takes(b.Media):
			*b = Block{Text: fmt.Sprintf("[A file %q of the type %q, which this model cannot read.]", b.Media.Name, b.Media.Type)}
		}
	}
}

// addModel adds a message of the model. One without content is left out.
func (p *Prompt) addModel(m *model.Message) {
	if model.Plain(m) == "" && len(m.ToolCalls) == 0 && !m.HasOpaque() {
		return
	}
	if len(p.Turns) == 0 {
		p.Turns = append(p.Turns, Turn{Blocks: []Block{{Text: "(The conversation began earlier.)"}}})
	}
	if last := &p.Turns[len(p.Turns)-1]; last.Model != nil && !last.calls() {
		last.Model = append(last.Model, m)
		return
	}
	p.users() // a turn between two of the model, for the results that are missing
	if last := &p.Turns[len(p.Turns)-1]; last.Model == nil && len(last.Blocks) == 0 && len(p.Turns) == 1 {
		last.Blocks = []Block{{Text: "(The conversation began earlier.)"}}
	}
	p.Turns = append(p.Turns, Turn{Model: []*model.Message{m}})
}

func (t *Turn) calls() bool {
	return slices.ContainsFunc(t.Model, func(m *model.Message) bool { return len(m.ToolCalls) > 0 })
}

// users returns the index of the user's turn that is last, which it begins if needed.
func (p *Prompt) users() int {
	if n := len(p.Turns); n == 0 || p.Turns[n-1].Model != nil {
		p.Turns = append(p.Turns, Turn{})
	}
	return len(p.Turns) - 1
}

// addResult adds a tool's result to the turn after its call.
func (p *Prompt) addResult(m *model.Message) {
	at := p.users()
	t := &p.Turns[at]
	if at > 0 {
		for _, said := range p.Turns[at-1].Model {
			for i := range said.ToolCalls {
				c := &said.ToolCalls[i]
				if c.ID == m.ToolCallID && t.result(c) == nil {
					t.Blocks = append(t.Blocks, Block{Result: &Result{c, blocksOf(m)}})
					return
				}
			}
		}
	}
	t.Blocks = append(append(t.Blocks, Block{Text: "[Result of the tool call " + m.ToolCallID + "]"}), blocksOf(m)...)
}

func (t *Turn) result(c *model.ToolCall) *Result {
	for _, b := range t.Blocks {
		if b.Result != nil && b.Result.Call == c {
			return b.Result
		}
	}
	return nil
}

// complete adds the results that are missing, and has results stand first.
func (p *Prompt) complete() {
	for i := 0; i < len(p.Turns); i++ {
		if p.Turns[i].Model == nil {
			continue
		}
		if !p.Turns[i].calls() {
			continue
		}
		if i+1 == len(p.Turns) {
			p.Turns = append(p.Turns, Turn{})
		}
		next := &p.Turns[i+1]
		var results []Block
		for _, m := range p.Turns[i].Model {
			for j := range m.ToolCalls {
				r := next.result(&m.ToolCalls[j])
				if r == nil {
					r = &Result{&m.ToolCalls[j], []Block{{Text: noResult}}}
				}
				results = append(results, Block{Result: r})
			}
		}
		rest := slices.DeleteFunc(next.Blocks, func(b Block) bool { return b.Result != nil })
		next.Blocks = append(results, rest...)
	}
	for i := range p.Turns {
		if t := &p.Turns[i]; t.Model == nil && len(t.Blocks) == 0 {
			t.Blocks = []Block{{Text: "(Nothing was said.)"}}
		}
	}
	if n := len(p.Turns); n == 0 || p.Turns[n-1].Model != nil {
		p.Turns = append(p.Turns, Turn{Blocks: []Block{{Text: "Continue."}}})
	}
}

// InForeignLoop reports whether the prompt ends in a loop of tools whose last answer came
// without thinking, as that of another model does.
func (p *Prompt) InForeignLoop() bool {
	n := len(p.Turns)
	if n < 2 || len(p.Turns[n-1].Blocks) == 0 || p.Turns[n-1].Blocks[0].Result == nil {
		return false
	}
	for _, m := range p.Turns[n-2].Model {
		if m.HasOpaque() {
			return false
		}
	}
	return true
}

// blocksOf returns the parts of a message that have content.
func blocksOf(m *model.Message) (blocks []Block) {
	if m.Parts == nil {
		if m.Text != "" {
			blocks = []Block{{Text: m.Text}}
		}
		return blocks
	}
	for _, part := range m.Parts {
		if b := readPart(part); b.Text != "" || b.Media != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// CallIDs maps the ids of calls to those that a wire allows: letters, digits,
// underscores and hyphens, up to a length. Equal ids stay equal, and others different.
type CallIDs struct {
	Max  int
	ids  map[string]string
	used map[string]bool
}

// Of returns the id for a call.
func (c *CallIDs) Of(id string) string {
	clean := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}
	if known, ok := c.ids[id]; ok {
		return known
	}
	allowed := strings.Map(clean, id)
	if allowed == "" || len(allowed) > c.Max {
		allowed = "call"
	}
	for n, base := 2, allowed[:min(len(allowed), c.Max-6)]; c.used[allowed]; n++ {
		allowed = base + "_" + strconv.Itoa(n)
	}
	if c.ids == nil {
		c.ids, c.used = map[string]string{}, map[string]bool{}
	}
	c.ids[id], c.used[allowed] = allowed, true
	return allowed
}
