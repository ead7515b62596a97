package pagechat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/execution/run"
	"agentd/internal/execution/session"
	"agentd/internal/kernel/model"
)

// sent returns a message as it is compared with what the session knows. What the agent
// wrote is known by its id.
func (m *Message) sent() session.SentMessage {
	s := session.SentMessage{Reply: m.Reply}
	s.ID = m.ID
	if m.Role == model.Tool {
		s.ID = session.ResultID(m.CallID)
	}
	if m.Role == model.Assistant {
		return s
	}
	h := sha256.New()
	h.Write([]byte(m.Text))
	for _, p := range m.Parts {
		h.Write([]byte{0})
		h.Write(p)
	}
	s.Hash = hex.EncodeToString(h.Sum(nil)[:12])
	return s
}

// openCalls returns the calls that the turn before the new messages left to the page.
func (c *Chat) openCalls(ctx context.Context, tenant string) ([]model.ToolCall, error) {
	fresh := c.New()
	if c.Place.Turns == 0 || !slices.ContainsFunc(fresh, func(m Message) bool { return m.Role == model.Tool }) {
		return nil, nil
	}
	r, err := c.chats.Runs.Get(ctx, tenant, c.Turns()[c.Place.Turns-1].RunID)
	if err != nil || len(r.Output) == 0 {
		return nil, err
	}
	var out run.Output
	if err := json.Unmarshal(r.Output, &out); err != nil {
		return nil, err
	}
	return out.ToolCalls, nil
}

// input returns the input of the run that answers the new messages: the last one, if the
// user wrote it, is the run's message, the others are its history. Errors: Invalid.
func (c *Chat) input(ctx context.Context, tenant string) (*run.Input, error) {
	fresh := c.New()
	if len(fresh) == 0 {
		return nil, fault.BadFields(fault.Field{
			Field: "messages", Message: "there is nothing that the conversation does not have yet; add a message"})
	}
	open, err := c.openCalls(ctx, tenant)
	if err != nil {
		return nil, err
	}
	answered := map[string]bool{}
	for i := range fresh {
		if fresh[i].Role == model.Tool {
			answered[fresh[i].CallID] = true
		}
	}
	if err := unanswered(fresh, open, answered); err != nil {
		return nil, err
	}
	in := &run.Input{Instructions: c.page.Instructions}
	called := map[string]bool{}
	if kept := keepCalls(open, answered, called); len(kept) > 0 {
		in.History = append(in.History, model.Message{Role: model.Assistant, ToolCalls: kept})
	}
	for i := range fresh {
		m := &fresh[i]
		if m.Role == model.Tool && !called[m.CallID] {
			return nil, fault.BadFields(fault.Field{Field: m.At, Message: "no call with this id waits for a result"})
		}
		out := model.Message{Role: m.Role, Text: m.Text, Parts: m.Parts, ToolCallID: m.CallID, ToolCalls: keepCalls(m.Calls, answered, called)}
		if m.Role == model.Assistant && out.Text == "" && len(out.ToolCalls) == 0 {
			continue
		}
		in.History = append(in.History, out)
	}
	last := len(in.History) - 1
	switch {
	case last < 0 || in.History[last].Role == model.Assistant:
		return nil, fault.BadFields(fault.Field{
			Field: "messages", Message: "the last message is the agent's; add one of the user, or the result of a call"})
	case in.History[last].Role == model.User:
		in.Message, in.Parts, in.History = in.History[last].Text, in.History[last].Parts, in.History[:last]
		if strings.TrimSpace(in.Message) == "" && len(in.Parts) == 0 {
			return nil, fault.BadFields(fault.Field{Field: fresh[len(fresh)-1].At, Message: "the message is blank"})
		}
	}
	return in, nil
}

// keepCalls returns the calls that have a result, and adds them to called.
func keepCalls(calls []model.ToolCall, answered, called map[string]bool) (kept []model.ToolCall) {
	for _, c := range calls {
		if answered[c.ID] && !called[c.ID] {
			called[c.ID] = true
			kept = append(kept, c)
		}
	}
	return kept
}

// unanswered refuses results of some calls of a turn while others have none, unless the
// user goes on with a message.
func unanswered(fresh []Message, open []model.ToolCall, answered map[string]bool) error {
	if fresh[len(fresh)-1].Role == model.User {
		return nil
	}
	var missing []string
	for _, call := range open {
		if !answered[call.ID] {
			missing = append(missing, call.ID+" ("+call.Name+")")
		}
	}
	if len(missing) == 0 || len(missing) == len(open) {
		return nil
	}
	return fault.BadFields(fault.Field{
		Field:   "messages",
		Message: "results are missing of the calls " + strings.Join(missing, ", ") + "; send the results of all calls together",
	})
}

// request returns the request of a run with an input.
func (c *Chat) request(in *run.Input, runID string) (run.Request, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return run.Request{}, err
	}
	req := run.Request{
		RunID: runID, Input: input, Parsed: in, MediaField: "messages", Metadata: schema.Object(`{"source":"` + c.page.Source + `"}`),
		Options: run.Options{Tools: c.page.Tools},
	}
	if c.page.SharesState {
		req.Options.Grants = []string{session.SetState}
	}
	return req, nil
}

// Bounds of what a page sends beside its messages.
const (
	maxTools       = 128
	maxToolBytes   = 256 << 10
	maxInstruction = 256 << 10
)

// CheckTools returns what is wrong with a page's own tools.
func CheckTools(tools []run.CallerTool) (wrong []fault.Field) {
	size := 0
	seen := map[string]bool{}
	for _, t := range tools {
		size += len(t.Name) + len(t.Description) + len(t.Parameters)
		switch {
		case !validTool(t.Name):
			wrong = append(wrong, fault.Field{Field: "tools", Message: "a name has letters, digits, _ and - only, at most 64"})
		case seen[t.Name]:
			wrong = append(wrong, fault.Field{Field: "tools", Message: "the tool " + t.Name + " is there twice"})
		case t.Name == run.AskUser || t.Name == session.SetState:
			wrong = append(wrong, fault.Field{Field: "tools", Message: "the name " + t.Name + " is that of a built-in tool; choose another one"})
		}
		seen[t.Name] = true
	}
	if len(tools) > maxTools || size > maxToolBytes {
		wrong = append(wrong, fault.Field{Field: "tools", Message: "there are more than 128 tools, or they are longer than 256 KiB together"})
	}
	return wrong
}

func validTool(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// CheckInstructions returns what is wrong with what a page says beside its messages.
func CheckInstructions(text string) []fault.Field {
	if len(text) <= maxInstruction {
		return nil
	}
	return []fault.Field{{Field: "messages", Message: "the instructions and the context are longer than 256 KiB together"}}
}

// ImagePart returns the content part of an image at an address, or in a data URL, and
// reports whether it is one.
func ImagePart(url string) (jsontext.Value, bool) {
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "data:image/") {
		return nil, false
	}
	b, err := jsontext.AppendQuote([]byte(`{"type":"image_url","image_url":{"url":`), url)
	return append(b, `}}`...), err == nil
}
