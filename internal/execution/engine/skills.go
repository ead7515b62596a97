package engine

import (
	"strings"

	"agentd/internal/agents/agent"
	"agentd/internal/execution/run"
)

// withSkills returns the agent's prompt with the names and descriptions of its skills.
// Their instructions come by a tool when the model needs them.
func withSkills(spec *run.AgentSpec) string {
	if len(spec.Skills) == 0 {
		return spec.System
	}
	var b strings.Builder
	b.WriteString(spec.System)
	if spec.System != "" {
		b.WriteString("\n\n")
	}
	b.WriteString("You have these skills.")
	if agent.UsableSkills(spec.Skills) {
		b.WriteString(" Before you do what one of them is for, call the tool " + agent.SkillTool +
			" with its name: it gives you the instructions.")
	}
	for i := range spec.Skills {
		k := &spec.Skills[i]
		b.WriteString("\n- " + k.Name)
		if k.Description != "" {
			b.WriteString(": " + k.Description)
		}
		if !k.Usable() && agent.UsableSkills(spec.Skills) {
			b.WriteString(" (without instructions)")
		}
	}
	return b.String()
}
