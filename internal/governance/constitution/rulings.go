package constitution

import (
	"context"
	"slices"
	"strconv"

	"agentd/internal/base/cache"
	"agentd/internal/kernel/policy"
)

const (
	// rulingsWeight bounds the rulings that are kept, by their bytes.
	rulingsWeight = 1 << 20
	// manyRules is from how many rules on looking a ruling up costs less than judging.
	manyRules = 8
	// maxRemembered is the size of the largest act whose ruling is kept.
	maxRemembered = 4 << 10
)

// rulingKey is all that a ruling depends on: conditions see neither clocks nor chance.
type rulingKey struct {
	rules *ruleset // one version of a company's rules
	act   string   // of a run, see appendAct
}

func newRulings() *cache.Cache[rulingKey, policy.Ruling] {
	return cache.New(cache.Options[rulingKey, policy.Ruling]{
		Weight: rulingsWeight,
		Weigh: func(k rulingKey, r policy.Ruling) uint32 {
			size := len(k.act) + 128
			for _, f := range r.Findings {
				size += len(f.RuleID) + len(f.Action) + len(f.Message) + 128
			}
			return uint32(size)
		},
	})
}

// judge judges an act by rules. A run does the same act several times: each call of a
// tool is judged when it may have to wait and when it is made, and each call of a model
// is alike. So rulings are kept where many rules are asked, for all runs of an agent unless
// a condition names the run.
func (s *Service) judge(ctx context.Context, rules *ruleset, r policy.Run, act policy.Act) (policy.Ruling, error) {
	if rules == nil {
		return policy.Ruling{}, nil
	}
	unknown := act.Facts != nil && act.FactsKey == ""
	if unknown || rules.count(act.Actions) < manyRules || len(act.Arguments) > maxRemembered {
		return rules.judge(ctx, r, act)
	}
	about := r
	if !rules.perRun { // then the same act of another run is the same act
		about.RunID = ""
	}
	text := appendAct(make([]byte, 0, 512), about, act)
	if len(text) > maxRemembered {
		return rules.judge(ctx, r, act)
	}
	key := rulingKey{rules, string(text)}
	if ruling, ok := s.rulings.Get(key); ok {
		return ruling, ctx.Err()
	}
	v := &values{run: r, act: act}
	ruling, err := rules.decide(ctx, v)
	if err == nil && !v.hasty {
		ruling.Findings = slices.Clip(ruling.Findings) // so that a caller that appends gets a copy
		s.rulings.Set(key, ruling)
	}
	return ruling, err
}

// appendAct appends all that conditions see of an act, each part with its length before
// it, so that two acts have the same text only if they are the same.
func appendAct(to []byte, r policy.Run, act policy.Act) []byte {
	to = appendParts(to, r.TenantID, r.RunID, r.AgentID, string(act.Arguments))
	to = strconv.AppendInt(append(to, '|'), int64(len(act.Actions)), 10)
	to = appendParts(appendParts(append(to, '|'), act.Actions...), act.Sources...)
	return appendParts(append(to, '|'), act.FactsKey)
}

func appendParts(to []byte, parts ...string) []byte {
	for _, p := range parts {
		to = append(strconv.AppendInt(to, int64(len(p)), 10), ':')
		to = append(to, p...)
	}
	return to
}
