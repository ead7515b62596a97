package agui

import (
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/fault"
	"agentd/internal/edge/pagechat"
	"agentd/internal/execution/run"
)

// interrupt is what a run waits for.
type interrupt struct {
	ID             string         `json:"id"`
	Reason         string         `json:"reason"`
	Message        string         `json:"message,omitzero"`
	ToolCallID     string         `json:"toolCallId,omitzero"`
	ResponseSchema jsontext.Value `json:"responseSchema,omitzero"`
	ExpiresAt      string         `json:"expiresAt,omitzero"`
	Metadata       jsontext.Value `json:"metadata,omitzero"`
}

var (
	approvalSchema = jsontext.Value(`{"type":"object","properties":{"approved":{"type":"boolean"},"reason":{"type":"string"}},` +
		`"required":["approved"],"additionalProperties":false}`)
	answerSchema = jsontext.Value(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],` +
		`"additionalProperties":false}`)
)

// authMark precedes the server in the id of the interrupt of a run that waits for an
// authorization.
const authMark = "auth:"

// interrupts returns what a run waits for.
func interrupts(r *run.Run) (all []interrupt) {
	for _, a := range r.PendingApprovals {
		all = append(all, interrupt{
			ID: a.ApprovalID, Reason: "tool_call", Message: "The agent asks to call " + a.ToolName + ".", ToolCallID: a.ToolCallID,
			ResponseSchema: approvalSchema, ExpiresAt: a.ExpiresAt.UTC().Format(time.RFC3339),
		})
	}
	if q := r.PendingInput; q != nil {
		all = append(all, interrupt{
			ID: q.InputID, Reason: "input_required", Message: q.Question, ToolCallID: q.ToolCallID, ResponseSchema: answerSchema,
		})
	}
	if a := r.PendingAuth; a != nil {
		metadata, _ := json.Marshal(map[string]string{"authorization_url": a.AuthorizationURL}) // a text always encodes
		all = append(all, interrupt{
			ID: authMark + a.ServerID, Reason: "authorization_required", Metadata: metadata,
			Message: "The agent needs an authorization of " + a.Name + ": " + a.AuthorizationURL,
		})
	}
	return all
}

// resumption is what the answers to interrupts come to.
type resumption struct {
	answers []pagechat.Answer
	cancel  bool
	asks    bool // the run waits for an authorization, which is given elsewhere
}

// empty reports whether nothing was answered.
func (r *resumption) empty() bool { return len(r.answers) == 0 && !r.cancel && !r.asks }

// resumption checks the answers to all interrupts of a run. Errors: Conflict for an
// interrupt that is not open, Invalid for an answer that is none.
func (in *RunInput) resumption(r *run.Run) (*resumption, error) {
	open := map[string]interrupt{}
	if r != nil {
		for _, i := range interrupts(r) {
			open[i.ID] = i
		}
	}
	out := &resumption{}
	if len(in.Resume) == 0 {
		return out, nil
	}
	for i, entry := range in.Resume {
		at := "resume[" + strconv.Itoa(i) + "]"
		of, found := open[entry.InterruptID]
		if !found && entry.Status == "cancelled" { // it has expired, or was decided: there is nothing left to cancel
			continue
		}
		if !found {
			return nil, fault.New(fault.Conflict, "INTERRUPT_NOT_OPEN",
				"The conversation does not wait for an answer to the interrupt %q: it was answered, has expired, or is another conversation's. "+
					"Nothing was changed.", entry.InterruptID)
		}
		delete(open, entry.InterruptID)
		switch {
		case entry.Status == "cancelled":
			out.cancel = true
		case strings.HasPrefix(of.ID, authMark):
			out.asks = true
		default:
			answer, wrong := entry.answer(of.Reason)
			if wrong != "" {
				return nil, fault.BadFields(fault.Field{Field: at + ".payload", Message: wrong})
			}
			out.answers = append(out.answers, answer)
		}
	}
	for id := range open {
		return nil, fault.BadFields(fault.Field{Field: "resume", Message: "the interrupt " + id + " has no answer; answer all of them together"})
	}
	return out, nil
}

// answer returns what an entry says, or what is wrong with it. Only an answer of just the
// shape that was asked for approves.
func (entry *Resume) answer(reason string) (a pagechat.Answer, wrong string) {
	a.ID = entry.InterruptID
	if reason == "tool_call" {
		var p struct {
			Approved *bool  `json:"approved"`
			Reason   string `json:"reason"`
		}
		if json.Unmarshal(entry.Payload, &p, json.RejectUnknownMembers(true)) != nil || p.Approved == nil || len(p.Reason) > 10_000 {
			return a, "expected {approved: true or false, reason: a text}, and nothing else; the approval is still open"
		}
		a.Approved, a.Reason = *p.Approved, p.Reason
		return a, ""
	}
	var p struct {
		Answer string `json:"answer"`
	}
	err := json.Unmarshal(entry.Payload, &p.Answer)
	if entry.Payload.Kind() == '{' {
		err = json.Unmarshal(entry.Payload, &p)
	}
	if a.Text = p.Answer; err != nil || strings.TrimSpace(a.Text) == "" || len(a.Text) > 100_000 {
		return a, "expected {answer: a text}, or a text"
	}
	return a, ""
}
