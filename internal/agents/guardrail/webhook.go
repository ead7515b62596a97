package guardrail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/base/text"
	"agentd/internal/kernel/policy"
)

// maxReason is how many characters of a webhook's reason are repeated.
const maxReason = 201

// Call is a request to a webhook: a POST of JSON.
type Call struct {
	URL       string
	Secret    string // signs the body; "": it is not signed
	Body      []byte
	Timeout   time.Duration // until the answer is read
	MaxAnswer int64         // bytes of the answer; more is an error
}

// Reply is a webhook's answer.
type Reply struct {
	Status int
	Body   []byte
}

// Hooks calls webhooks. Redirects are not followed. Errors are for logs.
type Hooks interface {
	Call(ctx context.Context, c Call) (Reply, error)
}

// webhook asks an address of the tenant's.
type webhook struct {
	guardrail   *Guardrail
	hooks       Hooks
	replacement string
}

type webhookRequest struct {
	Text        string         `json:"text"`
	Stage       policy.Stage   `json:"stage"`
	Part        string         `json:"part,omitzero"`
	Tool        string         `json:"tool,omitzero"`
	Arguments   jsontext.Value `json:"arguments,omitzero"`
	RunID       string         `json:"run_id"`
	AgentID     string         `json:"agent_id"`
	GuardrailID string         `json:"guardrail_id"`
}

type webhookResponse struct {
	Allowed *bool   `json:"allowed"`
	Action  *string `json:"action"`
	Reason  string  `json:"reason"`
	Text    *string `json:"text"`
}

func (w *webhook) check(ctx context.Context, q checkInput) (checkResult, error) {
	ask := webhookRequest{
		Text: q.text, Stage: q.stage, Part: q.part, Tool: q.tool,
		RunID: q.run.RunID, AgentID: q.run.AgentID, GuardrailID: w.guardrail.ID,
	}
	if a := jsontext.Value(q.text); q.part == partArguments && a.Kind() == '{' && a.IsValid() {
		ask.Arguments = a
	}
	body, err := json.Marshal(ask, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return checkResult{}, errors.New("its webhook cannot be asked about this text")
	}
	r, err := w.hooks.Call(ctx, Call{
		URL: w.guardrail.WebhookURL, Secret: w.guardrail.Secret, Body: body,
		Timeout: w.guardrail.timeout(), MaxAnswer: int64(2*len(body) + 64<<10),
	})
	switch {
	case err != nil:
		return checkResult{}, webhookError{err}
	case r.Status < 200 || r.Status > 299:
		return checkResult{}, fmt.Errorf("its webhook answered with the status %d", r.Status)
	}
	return w.read(q, r.Body)
}

// webhookError says no more than that there was no answer: why is for the logs.
type webhookError struct{ cause error }

func (webhookError) Error() string { return "its webhook did not answer" }

func (e webhookError) Unwrap() error { return e.cause }

var errNoAnswer = errors.New("the answer of its webhook has neither allowed nor action, or is no JSON object")

// read takes {allowed | action, reason, text} for what it says. Members that
// are not known are ignored; members that contradict each other are no answer.
func (w *webhook) read(q checkInput, body []byte) (checkResult, error) {
	var said webhookResponse
	if jsontext.Value(body).Kind() != '{' || json.Unmarshal(body, &said) != nil {
		return checkResult{}, errNoAnswer
	}
	var f checkResult
	switch {
	case said.Action != nil:
		switch *said.Action {
		case "allow":
		case "block", "redact", "flag", "warn", "log":
			f.violated, f.action = true, action(*said.Action)
		default:
			return checkResult{}, errNoAnswer
		}
		if said.Allowed != nil && *said.Allowed && f.action != "" && f.action != policy.Flag || said.Allowed != nil && !*said.Allowed && !f.violated {
			return checkResult{}, errNoAnswer
		}
	case said.Allowed != nil:
		f.violated = !*said.Allowed
	default:
		return checkResult{}, errNoAnswer
	}
	if !f.violated {
		return checkResult{}, nil
	}
	f.reason = cmp.Or(text.Truncate(strings.TrimRight(text.OneLine(said.Reason), ". "), maxReason), "its webhook said so")
	switch {
	case said.Text == nil:
		if q.part != partArguments {
			f.text, f.redacted = w.replacement, true
		}
	case strings.Contains(*said.Text, "\x00"), q.part == partArguments && jsontext.Value(*said.Text).Kind() != '{',
		q.part == partArguments && !jsontext.Value(*said.Text).IsValid():
		return checkResult{}, errors.New("the text that its webhook answered cannot stand in place of what was asked about")
	default:
		f.text, f.redacted = *said.Text, true
	}
	return f, nil
}
