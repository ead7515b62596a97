package bridgeclient

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/client"
)

const (
	maxTurns    = 100 // calls of the model for a task
	maxResult   = 30_000
	modelTime   = 10 * time.Minute
	reportTime  = time.Minute
	modelTries  = 8 // of a call that fails for a reason that passes
	approvalGap = time.Second
)

// event is what is reported of a task.
type event struct {
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	Timestamp  time.Time `json:"timestamp"`
	Message    string    `json:"message,omitzero"`
	Content    string    `json:"content,omitzero"`
	Output     string    `json:"output,omitzero"`
	ToolName   string    `json:"tool_name,omitzero"`
	ToolArgs   string    `json:"tool_args_preview,omitzero"`
	ToolCallID string    `json:"tool_call_id,omitzero"`
	ToolResult string    `json:"tool_result_preview,omitzero"`
	ApprovalID string    `json:"approval_id,omitzero"`
	Status     string    `json:"status,omitzero"`
	Code       string    `json:"code,omitzero"`
	Error      string    `json:"error,omitzero"`
	Metrics    *counts   `json:"metrics,omitzero"`
}

// worker works on one task.
type worker struct {
	m     *machine
	j     *journal
	agent agentConfig
}

// agentConfig is what the worker needs of the agent.
type agentConfig struct {
	Prompts struct {
		System    string `json:"system"`
		Developer string `json:"developer"`
	} `json:"prompts"`
	Model struct {
		ModelRef    string `json:"model_ref"`
		EndpointURL string `json:"endpoint_url"`
	} `json:"model"`
}

// errDropped reports that the server does not want the task to be worked on any more.
var errDropped = errors.New("the server has ended the task")

// work takes the task from where its journal is to its end. Errors: errDropped.
func (w *worker) work(ctx context.Context) error {
	err := w.begin(ctx)
	for turn := 0; err == nil && !w.j.Ended; turn++ {
		switch {
		case turn >= maxTurns:
			err = w.fail("too_many_turns", fmt.Sprintf("The task needed more than %d calls of the model.", maxTurns))
		case len(w.j.Calls) > 0:
			err = w.calls(ctx)
		default:
			err = w.ask(ctx)
		}
	}
	if err == nil {
		err = w.flush(ctx)
	}
	if err == nil || errors.Is(err, errDropped) {
		return cmp.Or(w.j.remove(), err)
	}
	return err
}

// begin makes the conversation of a task that is new, and reports what was not confirmed.
func (w *worker) begin(ctx context.Context) error {
	if w.j.Messages == nil {
		w.m.Say("Task %s: %s", w.j.Task.TaskID, firstLine(w.j.Task.Input.Message))
		for _, turn := range w.j.Task.Input.History {
			w.say(map[string]any{"role": turn.Role, "content": turn.Content})
		}
		w.say(map[string]any{"role": "user", "content": w.j.Task.Input.Message})
		w.report(event{Type: "status", Status: "working", Message: "The task was taken."})
	} else {
		w.report(event{Type: "status", Status: "working", Message: "The machine was away, and goes on."})
	}
	if err := w.j.save(); err != nil {
		return err
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return w.m.again(ctx, func(ctx context.Context) error {
		return w.m.API.Do(ctx, http.MethodGet, "/api/v1/agents/"+w.m.agentID, nil, &w.agent)
	})
}

// say adds a message to the conversation.
func (w *worker) say(message map[string]any) {
	text, err := json.Marshal(message, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err == nil { // texts and maps of texts always encode
		w.j.Messages = append(w.j.Messages, text)
	}
}

// report adds an event to what is to be reported.
func (w *worker) report(e event) {
	w.j.Reported++
	e.EventID, e.Timestamp = fmt.Sprintf("%s-%d", w.m.id, w.j.Reported), time.Now().UTC()
	w.j.Outbox = append(w.j.Outbox, e)
}

// flush reports what is not confirmed, until the server has it. Errors: errDropped.
func (w *worker) flush(ctx context.Context) error {
	for len(w.j.Outbox) > 0 {
		batch := w.j.Outbox[:min(len(w.j.Outbox), 50)]
		var got struct {
			Abort  bool   `json:"abort"`
			Reason string `json:"reason"`
		}
		err := w.m.again(ctx, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, reportTime)
			defer cancel()
			return w.m.API.Do(ctx, http.MethodPost, "/api/v1/bridge/tasks/"+w.j.Task.TaskID+"/events", batch, &got)
		})
		if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusNotFound || got.Abort {
			w.m.Say("Task %s: %s", w.j.Task.TaskID, cmp.Or(got.Reason, "the server does not know it."))
			return errDropped
		}
		if err != nil {
			return err
		}
		w.j.Outbox = w.j.Outbox[len(batch):]
	}
	return w.j.save()
}

// settle stores what was found out, and reports it.
func (w *worker) settle(ctx context.Context) error {
	if err := w.j.save(); err != nil {
		return err
	}
	return w.flush(ctx)
}

// fail ends the task.
func (w *worker) fail(code, sentence string) error {
	w.report(event{Type: "metrics", Metrics: &w.j.Counts})
	w.report(event{Type: "failed", Code: code, Error: sentence, Status: "failed"})
	w.j.Ended = true
	return w.j.save()
}

// completion is a model's answer.
type completion struct {
	Choices []struct {
		Message struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// ask calls the model once.
func (w *worker) ask(ctx context.Context) error {
	answer, err := w.callModel(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return w.fail("model_error", "The model could not be called: "+err.Error())
	case len(answer.Choices) == 0:
		return w.fail("model_error", "The model gave no answer.")
	}
	w.j.Counts.ModelCalls++
	w.j.Counts.InputTokens += answer.Usage.Prompt
	w.j.Counts.OutputTokens += answer.Usage.Completion
	got := answer.Choices[0].Message
	message := map[string]any{"role": "assistant", "content": got.Content}
	if len(got.ToolCalls) > 0 {
		var calls []map[string]any
		for i, c := range got.ToolCalls {
			id := cmp.Or(c.ID, fmt.Sprintf("call-%d-%d", w.j.Counts.ModelCalls, i))
			w.j.Calls = append(w.j.Calls, call{id, c.Function.Name, c.Function.Arguments})
			calls = append(calls, map[string]any{
				"id": id, "type": "function", "function": map[string]string{"name": c.Function.Name, "arguments": c.Function.Arguments},
			})
		}
		message["tool_calls"] = calls
	}
	w.say(message)
	if strings.TrimSpace(got.Content) != "" {
		w.report(event{Type: "content", Content: got.Content})
	}
	if len(w.j.Calls) == 0 {
		w.report(event{Type: "metrics", Metrics: &w.j.Counts})
		w.report(event{Type: "completed", Status: "completed", Output: got.Content})
		w.j.Ended = true
	}
	return w.settle(ctx)
}

// callModel calls the model, and again where the reason of a failure passes.
func (w *worker) callModel(ctx context.Context) (answer completion, err error) {
	if w.m.Model == "" && w.agent.Model.EndpointURL != "" {
		return answer, errors.New("the agent's model has an endpoint of its own, which machines cannot call; " +
			"give the agent a model of the catalogue, or use --model")
	}
	body, err := json.Marshal(map[string]any{
		"model": cmp.Or(w.m.Model, w.agent.Model.ModelRef), "messages": append([]jsontext.Value{w.prompt()}, w.j.Messages...),
		"tools": w.m.tools.schemas(),
	}, json.Deterministic(true))
	if err != nil {
		return answer, err
	}
	for try := 0; ; try++ {
		answer = completion{}
		if err = w.complete(ctx, body, &answer); err == nil || ctx.Err() != nil || !passes(err) || try >= modelTries {
			return answer, err
		}
		if err := pause(ctx, try+1); err != nil {
			return answer, err
		}
	}
}

func (w *worker) complete(ctx context.Context, body []byte, answer *completion) error {
	ctx, cancel := context.WithTimeout(ctx, modelTime)
	defer cancel()
	res, err := w.m.API.Send(ctx, http.MethodPost, "/api/v1/llm/chat/completions", strings.NewReader(string(body)),
		http.Header{"X-Agent-Id": {w.m.agentID}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.UnmarshalRead(res.Body, answer)
}

// prompt is the first message of every call.
func (w *worker) prompt() jsontext.Value {
	text := strings.TrimSpace(w.agent.Prompts.System + "\n\n" + w.agent.Prompts.Developer)
	text += fmt.Sprintf("\n\nYou work on the machine %q (%s), in the folder %s. Paths are relative to that folder.",
		w.m.Name, runtime.GOOS, w.m.Dir)
	message, err := json.Marshal(map[string]string{"role": "system", "content": strings.TrimSpace(text)},
		json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return jsontext.Value(`{"role":"system","content":""}`)
	}
	return message
}

// calls makes the first tool call that has no result.
func (w *worker) calls(ctx context.Context) error {
	c := w.j.Calls[0]
	t := w.m.tools.find(c.Name)
	w.report(event{Type: "tool_call", ToolCallID: c.ID, ToolName: c.Name, ToolArgs: cut(c.Arguments, 50_000)})
	switch {
	case t == nil:
		return w.result(ctx, c, "There is no such tool on this machine.", true)
	case w.j.Begun == c.ID && !t.reads:
		return w.result(ctx, c, "interrupted: the machine's program stopped while the call was under way, and its outcome is unknown.", true)
	}
	arguments := c.Arguments
	if t.permission == Ask {
		d, err := w.approved(ctx, c)
		switch {
		case err != nil:
			return err
		case !d.Approved:
			return w.result(ctx, c, "The call was not made: a person refused to approve it. "+d.Reason, true)
		case len(d.Arguments) > 0:
			arguments = string(d.Arguments)
		}
	}
	w.j.Begun = c.ID
	if err := w.settle(ctx); err != nil {
		return err
	}
	out, failed := t.run(ctx, arguments, &w.j.Counts)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.result(ctx, c, out, failed)
}

// result ends a tool call.
func (w *worker) result(ctx context.Context, c call, out string, failed bool) error {
	out = cut(strings.ToValidUTF8(strings.TrimSpace(out), "\uFFFD"), maxResult)
	e := event{Type: "tool_result", ToolCallID: c.ID, ToolName: c.Name, ToolResult: out}
	if failed {
		e.Status, e.Error = "failed", cmp.Or(cut(out, 1000), "failed")
	}
	w.report(e)
	w.j.Counts.ToolCalls++
	w.j.Calls, w.j.Begun = w.j.Calls[1:], ""
	w.say(map[string]any{"role": "tool", "tool_call_id": c.ID, "name": c.Name, "content": out})
	return w.settle(ctx)
}

// decision is what a person decided about a call.
type decision struct {
	ApprovalID string         `json:"approval_id"`
	TaskID     string         `json:"task_id"`
	Outcome    string         `json:"outcome"`
	Approved   bool           `json:"approved"`
	Arguments  jsontext.Value `json:"arguments"`
	Reason     string         `json:"reason"`
	Signature  string         `json:"signature"`
}

// approved asks for the approval of a call, and waits for the decision.
func (w *worker) approved(ctx context.Context, c call) (d decision, err error) {
	id := w.j.Asked[c.ID]
	if id == "" {
		id = fmt.Sprintf("%s-%d", w.m.id, w.j.Reported)
		if w.j.Asked == nil {
			w.j.Asked = map[string]string{}
		}
		w.j.Asked[c.ID] = id
		w.report(event{Type: "approval_request", ApprovalID: id, ToolCallID: c.ID, ToolName: c.Name, ToolArgs: cut(c.Arguments, 50_000)})
		w.m.Say("Task %s waits for an approval of %s %s", w.j.Task.TaskID, c.Name, firstLine(c.Arguments))
	}
	if err := w.settle(ctx); err != nil {
		return d, err
	}
	path := "/api/v1/bridge/tasks/" + w.j.Task.TaskID + "/approval?approval_id=" + url.QueryEscape(id)
	for {
		var got struct {
			Response *decision `json:"approval_response"`
		}
		err := w.m.again(ctx, func(ctx context.Context) error { return w.m.API.Do(ctx, http.MethodGet, path, nil, &got) })
		if err != nil {
			return d, err
		}
		if got.Response == nil {
			if err := sleep(ctx, approvalGap/10); err != nil {
				return d, err
			}
			continue
		}
		d = *got.Response
		if !signed(w.m.key, &d) { // the server's key may be another one by now
			if err := w.m.register(ctx, false); err != nil {
				return d, err
			}
			if !signed(w.m.key, &d) {
				if err := sleep(ctx, approvalGap); err != nil {
					return d, err
				}
				continue
			}
		}
		if d.Outcome == "expired" || d.Outcome == "cancelled" {
			return d, errDropped
		}
		return d, nil
	}
}

// signed reports whether a decision is the server's, about this approval.
func signed(key string, d *decision) bool {
	raw, err := hex.DecodeString(key)
	if err != nil {
		return false
	}
	lines := []string{d.ApprovalID, d.TaskID, d.Outcome}
	if len(d.Arguments) > 0 {
		lines = append(lines, string(d.Arguments))
	}
	mac := hmac.New(sha256.New, raw)
	mac.Write([]byte(strings.Join(lines, "\n")))
	want, err := hex.DecodeString(d.Signature)
	return err == nil && hmac.Equal(mac.Sum(nil), want) && d.Approved == (d.Outcome == "approved")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// cut returns the beginning of a text that is too long, and says so.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "\n[cut off]"
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return cut(line, 120)
}
