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
	TenantID  string
	URL       string
	Secret    string // signs the body; "": unsigned
	Body      []byte
	Key       string        // the Idempotency-Key; "": none
	Timeout   time.Duration // including the reading of the answer
	MaxAnswer int64         // bytes of the answer; more is an error
}

// Reply is a webhook's answer.
type Reply struct {
	Status int
	Body   []byte
}

// Hooks calls webhooks, without following redirects. Its errors are only logged.
type Hooks interface {
	Call(ctx context.Context, c Call) (Reply, error)
}

// webhook checks by calling the tenant's URL.
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
	req := webhookRequest{
		Text: q.text, Stage: q.stage, Part: q.part, Tool: q.tool,
		RunID: q.run.RunID, AgentID: q.run.AgentID, GuardrailID: w.guardrail.ID,
	}
	if a := jsontext.Value(q.text); q.part == partArguments && a.Kind() == '{' && a.IsValid() {
		req.Arguments = a
	}
	body, err := json.Marshal(req, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return checkResult{}, errors.New("the text cannot be sent to its webhook")
	}
	r, err := w.hooks.Call(ctx, Call{
		TenantID: w.guardrail.TenantID, URL: w.guardrail.WebhookURL, Secret: w.guardrail.Secret, Body: body,
		Key:     w.key(q),
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

// key identifies the check to the webhook: it is the same when the check is made
// again after a crash.
func (w *webhook) key(q checkInput) string {
	if q.run.StepID == "" {
		return ""
	}
	return strings.TrimRight(strings.Join([]string{q.run.StepID, w.guardrail.ID, string(q.stage), q.part}, "/"), "/")
}

// webhookError is a failed call. Its cause is only logged.
type webhookError struct{ cause error }

func (webhookError) Error() string { return "its webhook did not answer" }

func (e webhookError) Unwrap() error { return e.cause }

var errNoAnswer = errors.New("the answer of its webhook is not a JSON object with allowed or action")

// read reads the answer {allowed | action, reason, text}. Unknown members are ignored;
// contradictory ones are an error.
func (w *webhook) read(q checkInput, body []byte) (checkResult, error) {
	var answer webhookResponse
	if jsontext.Value(body).Kind() != '{' || json.Unmarshal(body, &answer) != nil {
		return checkResult{}, errNoAnswer
	}
	var f checkResult
	switch {
	case answer.Action != nil:
		switch *answer.Action {
		case "allow":
		case "block", "redact", "flag", "warn", "log":
			f.violated, f.action = true, action(*answer.Action)
		default:
			return checkResult{}, errNoAnswer
		}
		if answer.Allowed != nil && *answer.Allowed && f.action != "" && f.action != policy.Flag ||
			answer.Allowed != nil && !*answer.Allowed && !f.violated {
			return checkResult{}, errNoAnswer
		}
	case answer.Allowed != nil:
		f.violated = !*answer.Allowed
	default:
		return checkResult{}, errNoAnswer
	}
	if !f.violated {
		return checkResult{}, nil
	}
	f.reason = cmp.Or(text.Truncate(strings.TrimRight(text.OneLine(answer.Reason), ". "), maxReason), "its webhook reported a violation")
	switch {
	case answer.Text == nil:
		if q.part != partArguments {
			f.text, f.redacted = w.replacement, true
		}
	case strings.Contains(*answer.Text, "\x00"), q.part == partArguments && jsontext.Value(*answer.Text).Kind() != '{',
		q.part == partArguments && !jsontext.Value(*answer.Text).IsValid():
		return checkResult{}, errors.New("the text of its webhook cannot replace the checked one")
	default:
		f.text, f.redacted = *answer.Text, true
	}
	return f, nil
}
