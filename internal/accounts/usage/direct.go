package usage

import (
	"cmp"
	"context"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// noAgent is the agent ID recorded for usage that belongs to no agent.
const noAgent = "-"

// RecordDirect counts a model call that is not a step of a run. The call has
// already been made, so it is never refused; an error is only logged.
func (s *meter) RecordDirect(ctx context.Context, tenant, agent, source string, target model.Target, u model.Usage) {
	use := quota.Called(target, u)
	use.AgentID, use.Source = cmp.Or(agent, noAgent), source
	if err := s.writer.Write(context.WithoutCancel(ctx), s.Count(tenant, use)); err != nil {
		s.logger.Error("could not count a model call",
			"tenant", tenant, "agent", agent, "source", source, "model", use.Model, "err", err)
	}
}
