package run

// CompletedData is the data of the event step.completed (decisions.md D7): a
// step says all of it, so that a log need not store it again.
type CompletedData struct {
	StepSeq    int64      `json:"step_seq"`
	Type       StepType   `json:"type"`
	Status     StepStatus `json:"status"`
	DurationMS float64    `json:"duration_ms"`
}

// AnsweredData is the same of llm.completed.
type AnsweredData struct {
	StepSeq      int64  `json:"step_seq"`
	Model        string `json:"model,omitzero"`
	FinishReason string `json:"finish_reason"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// CompletedOf gives what step.completed says of a step.
func CompletedOf(s *Step) CompletedData { return CompletedData{s.Seq, s.Type, s.Status, s.DurationMS} }

// AnsweredOf gives what llm.completed says of a model's step.
func AnsweredOf(seq int64, out *LLMOutput, m StepMetrics) AnsweredData {
	return AnsweredData{seq, out.Model, out.FinishReason, m.InputTokens, m.OutputTokens}
}
