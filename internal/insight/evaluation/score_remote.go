package evaluation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/agents/guardrail"
	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/schema"
	"agentd/internal/base/text"
	"agentd/internal/kernel/judge"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

const (
	// maxReason is how many characters of a reason are kept.
	maxReason = 500
	// maxSent bounds the answer of a run that a model or a webhook judges, in bytes.
	maxSent = 200_000
	// maxHookAnswer bounds what a webhook answers, in bytes.
	maxHookAnswer = 64 << 10
	// maxJudgeTokens bounds what a judge writes.
	maxJudgeTokens = 2000
)

// material is what a model judges.
type material struct {
	Input    schema.Object  `json:"input"`
	Expected jsontext.Value `json:"expected_output,omitzero"`
	Answer   string         `json:"answer"`
}

// scoreByModel asks a model for a score. What the agent answered may try to steer it; see
// [judge.Fence].
func (s scoring) scoreByModel(ctx context.Context, c *Config, on *subject) (verdict, error) {
	data, err := json.Marshal(material{on.of.Input, on.of.ExpectedOutput, on.answer}, jsontext.AllowInvalidUTF8(true))
	if err != nil || len(data) > maxSent+maxCaseBytes {
		return verdict{}, errors.New("the answer is too long for a judge")
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	asked, err := s.Models.Open(ctx, on.who, modelproxy.CallParams{
		Model: c.Model, Source: quota.SourceJudge, AgentID: on.agent, NoFallback: true,
	})
	if err != nil {
		return verdict{}, fmt.Errorf("its model cannot be called: %w", err)
	}
	fence, cold := judge.NewFence(), 0.0
	resp, err := asked.Generate(ctx, model.Request{
		Messages: judgeMessages(c, fence, data), MaxTokens: maxJudgeTokens, Temperature: &cold,
	}, nil)
	if err != nil {
		return verdict{}, because("its model did not answer", errors.Unwrap(err))
	}
	return readJudgement(fence, resp.Text)
}

func judgeMessages(c *Config, fence judge.Fence, material jsontext.Value) []model.Message {
	return fence.Messages(fmt.Sprintf(`You score how good the answer of an agent is. You do nothing else.

What makes an answer good:
%s

%s

Answer with one JSON object and nothing else:
{"word": "%s", "score": 0.0, "reason": "one sentence"}
score is how good the answer is, from 0.0 (useless) to 1.0 (perfect).`, c.Rubric, fence.Notice("input is what the agent was asked, "+
		"answer what it answered, and expected_output, if it is there, what it should have answered."), fence.Word), material)
}

var errNoJudgement = errors.New("the answer of its model is not the score that it was asked for")

func readJudgement(fence judge.Fence, answer string) (verdict, error) {
	var parsed struct {
		Score  *float64 `json:"score"`
		Reason string   `json:"reason"`
	}
	if fence.Read(answer, &parsed) != nil {
		return verdict{}, errNoJudgement
	}
	return checked(parsed.Score, parsed.Reason, errNoJudgement)
}

// checked returns a score that a model or a webhook gave, if it is valid.
func checked(score *float64, reason string, none error) (verdict, error) {
	if !judge.Valid(score) {
		return verdict{}, none
	}
	return verdict{score: *score, reason: text.Truncate(text.OneLine(reason), maxReason)}, nil
}

// hookRequest is what a webhook is sent.
type hookRequest struct {
	AgentID           string         `json:"agent_id"`
	EvalRunID         string         `json:"eval_run_id"`
	CaseID            string         `json:"case_id"`
	RunID             string         `json:"run_id"`
	Input             schema.Object  `json:"input"`
	ExpectedOutput    jsontext.Value `json:"expected_output,omitzero"`
	ExpectedToolCalls []ExpectedCall `json:"expected_tool_calls,omitzero"`
	Metadata          schema.Object  `json:"metadata"`
	Output            hookOutput     `json:"output"`
}

type hookOutput struct {
	Text      string     `json:"text"`
	ToolCalls []hookCall `json:"tool_calls"`
}

type hookCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

var errNoScore = errors.New("the answer of its webhook is not a JSON object with a score from 0 to 1")

// scoreByHook asks an address of the tenant's for a score.
func (s scoring) scoreByHook(ctx context.Context, c *Config, on *subject) (verdict, error) {
	out := hookOutput{Text: text.TruncateBytes(on.answer, maxSent), ToolCalls: []hookCall{}}
	for _, made := range on.calls {
		out.ToolCalls = append(out.ToolCalls, hookCall{made.name, made.arguments})
	}
	body, err := json.Marshal(hookRequest{
		AgentID: on.agent, EvalRunID: on.eval, CaseID: on.caseID, RunID: on.runID, Input: on.of.Input,
		ExpectedOutput: on.of.ExpectedOutput, ExpectedToolCalls: on.of.ExpectedToolCalls, Metadata: on.of.Metadata, Output: out,
	}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return verdict{}, errors.New("the case cannot be sent to its webhook")
	}
	r, err := s.Hooks.Call(ctx, guardrail.Call{
		TenantID: on.who.TenantID, URL: c.URL, Body: body, Key: strings.Join([]string{on.eval, on.caseID}, "/"),
		Timeout: c.timeout(), MaxAnswer: maxHookAnswer,
	})
	switch {
	case err != nil:
		return verdict{}, errors.New("its webhook did not answer in time and size")
	case r.Status < 200 || r.Status > 299:
		return verdict{}, fmt.Errorf("its webhook answered with the status %d", r.Status)
	}
	var answer struct {
		Score  *float64 `json:"score"`
		Reason string   `json:"reason"`
	}
	if jsontext.Value(r.Body).Kind() != '{' || json.Unmarshal(r.Body, &answer) != nil {
		return verdict{}, errNoScore
	}
	return checked(answer.Score, answer.Reason, errNoScore)
}
