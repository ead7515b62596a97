package run

import "agentd/internal/kernel/policy"

// NoteOutput is the output of a step of type input: the note to the agent with
// which the run was resumed.
type NoteOutput struct {
	Message string `json:"message"`
}

// GuardrailOutput is the output of a step of type guardrail. Text, where Changed,
// replaces the run's message.
type GuardrailOutput struct {
	Checks     int                `json:"checks"`
	Violations []policy.Violation `json:"violations"`
	Changed    bool               `json:"changed,omitzero"`
	Text       string             `json:"text,omitzero"`
}
