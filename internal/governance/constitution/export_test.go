package constitution

import (
	"context"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/policy"
)

// SafeModeBody is the body of activateSafeMode.
var SafeModeBody = safeModeIn{}.Body

// RootAgentBody and AttestationBody are the bodies of setRootAgent and setRootAttestation.
var (
	RootAgentBody   = rootAgentIn{}.Body
	AttestationBody = attestationIn{}.Body
)

// JudgeWithin judges an act by rules that may take so long.
func JudgeWithin(ctx context.Context, rules []Rule, r policy.Run, act policy.Act, limit time.Duration) (policy.Ruling, error) {
	set := compile(rules)
	set.limit = limit
	return set.judge(ctx, r, act)
}

// Judge returns the judgement by rules, which are compiled once.
func Judge(rules []Rule) func(context.Context, policy.Run, policy.Act) (policy.Ruling, error) {
	return compile(rules).judge
}

// Simulate simulates rules within ctx.
func Simulate(ctx context.Context, s *Service, who authz.Caller, body SimulationIn) (*SimulationResult, error) {
	return s.simulate(ctx, who, &struct{ Body SimulationIn }{body})
}
