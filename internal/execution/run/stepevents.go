package run

// StepCompletedData is the data of the event step.completed. All of it can be
// derived from the step, so that a log need not store it again.
type StepCompletedData struct {
	StepSeq    int64      `json:"step_seq"`
	Type       StepType   `json:"type"`
	Status     StepStatus `json:"status"`
	DurationMS float64    `json:"duration_ms"`
}

// LLMCompletedData is the data of the event llm.completed, which can be derived
// from the step too.
type LLMCompletedData struct {
	StepSeq      int64  `json:"step_seq"`
	Model        string `json:"model,omitzero"`
	FinishReason string `json:"finish_reason"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// StepCompletedOf returns the data of a step's step.completed.
func StepCompletedOf(s *Step) StepCompletedData {
	return StepCompletedData{s.Seq, s.Type, s.Status, s.DurationMS}
}

// LLMCompletedOf returns the data of a model step's llm.completed.
func LLMCompletedOf(seq int64, out *LLMOutput, m StepMetrics) LLMCompletedData {
	return LLMCompletedData{seq, out.Model, out.FinishReason, m.InputTokens, m.OutputTokens}
}
