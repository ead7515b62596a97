package run

// StepRef names the step that an event belongs to.
type StepRef struct {
	StepID  string `json:"step_id,omitzero" format:"uuid" doc:"The step."`
	StepSeq int64  `json:"step_seq,omitzero" doc:"The step's number in the run."`
}

// Ref returns the reference to the step.
func (s *Step) Ref() StepRef { return StepRef{s.StepID, s.Seq} }

// StepStartedData is the data of the event step.started.
type StepStartedData struct {
	StepRef
	Type StepType `json:"type" doc:"Type of the step."`
}

// StepCompletedData is the data of the event step.completed. All of it can be
// derived from the step, so that a log need not store it again.
type StepCompletedData struct {
	StepRef
	Type       StepType   `json:"type"`
	Status     StepStatus `json:"status"`
	DurationMS float64    `json:"duration_ms"`
}

// LLMCompletedData is the data of the event llm.completed, which can be derived
// from the step too.
type LLMCompletedData struct {
	StepRef
	Model        string `json:"model,omitzero"`
	FinishReason string `json:"finish_reason"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
}

// StepRetryingData is the data of the event step.retrying.
type StepRetryingData struct {
	StepRef
	Attempt int    `json:"attempt" doc:"Number of the attempt that failed, from 1."`
	AfterMS int64  `json:"after_ms" doc:"Milliseconds until the next attempt."`
	Reason  string `json:"reason" doc:"Why the attempt failed, in one sentence."`
}

// DraftVoidData is the data of the event step.draft_void.
type DraftVoidData struct{ StepRef }

// StepCompletedOf returns the data of a step's step.completed.
func StepCompletedOf(s *Step) StepCompletedData {
	return StepCompletedData{s.Ref(), s.Type, s.Status, s.DurationMS}
}

// LLMCompletedOf returns the data of a model step's llm.completed.
func LLMCompletedOf(step StepRef, out *LLMOutput, m StepMetrics) LLMCompletedData {
	return LLMCompletedData{step, out.Model, out.FinishReason, m.InputTokens, m.OutputTokens}
}
