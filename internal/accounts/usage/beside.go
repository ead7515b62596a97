package usage

import (
	"cmp"
	"context"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// noAgent stands for the agent of what is none's.
const noAgent = "-"

// Beside counts a model call that is no step of a run. It is made already, so
// nothing refuses it; where the database cannot take it the log says so.
func (s *Service) Beside(ctx context.Context, tenant, agent, source string, target model.Target, u model.Usage) {
	use := quota.Called(target, u)
	use.AgentID, use.Source = cmp.Or(agent, noAgent), source
	if err := s.Writer.Write(context.WithoutCancel(ctx), s.Count(tenant, use)); err != nil {
		s.Logger.Error("a model call could not be counted", "tenant", tenant, "agent", agent, "source", source, "model", use.Model, "err", err)
	}
}
