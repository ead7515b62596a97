package constitution

import (
	"context"
	"time"

	"agentd/internal/kernel/policy"
)

// SafeModeBody is the body of activateSafeMode.
var SafeModeBody = safeModeIn{}.Body

// JudgeWithin judges an act by rules that may take so long.
func JudgeWithin(ctx context.Context, rules []Rule, r policy.Run, act policy.Act, limit time.Duration) (policy.Ruling, error) {
	set := compile(rules)
	set.limit = limit
	return set.judge(ctx, r, act)
}
