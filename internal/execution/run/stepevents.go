package run

// StepCompletedData is the data of the event step.completed (decisions.md D7): a
// step says all of it, so that a log need not store it again.
type StepCompletedData struct {
	StepSeq    int64      `json:"step_seq"`
	Type       StepType   `json:"type"`
	Status     StepStatus `json:"status"`
	DurationMS float64    `json:"duration_ms"`
}

// LLMCompletedData is the same of llm.completed.
type LLMCompletedData struct {
	StepSeq      int64  `json:"step_seq"`
	Model        string `json:"model,omitzero"`
	FinishReason string `json:"finish_reason"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// StepCompletedOf gives what step.completed says of a step.
func StepCompletedOf(s *Step) StepCompletedData {
	return StepCompletedData{s.Seq, s.Type, s.Status, s.DurationMS}
}

// LLMCompletedOf gives what llm.completed says of a model's step.
func LLMCompletedOf(seq int64, out *LLMOutput, m StepMetrics) LLMCompletedData {
	return LLMCompletedData{seq, out.Model, out.FinishReason, m.InputTokens, m.OutputTokens}
}
