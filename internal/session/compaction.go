package session

import (
	"github.com/go-json-experiment/json"

	"agentd/internal/model"
	"agentd/internal/run"
)

// stepCompaction is the type of the steps that fold the beginning of a
// conversation into a summary.
const stepCompaction run.StepType = "compaction"

// compaction is what such a step did: the first so many messages that the model
// got, the agent's own prompt apart, are told by a summary from then on. An
// earlier summary counts as one message.
type compaction struct {
	folded  int
	summary string
}

func readCompaction(step *run.Step) (compaction, bool) {
	var in struct {
		Folded int `json:"folded"`
	}
	var out struct {
		Summary string `json:"summary"`
	}
	if step.Status != run.StepCompleted || json.Unmarshal(step.Input, &in) != nil || json.Unmarshal(step.Output, &out) != nil || out.Summary == "" {
		return compaction{}, false
	}
	return compaction{in.Folded, out.Summary}, true
}

func summaryMessage(text string) model.Message {
	return model.Message{Role: model.System, Text: "Summary of the conversation so far:\n" + text}
}
