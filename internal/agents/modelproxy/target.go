package modelproxy

import (
	"context"

	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
)

// OpenTarget is [Proxy.Open] for a model that the operator configured and no request
// names. The caller calls the endpoint itself and reports to [Call.Used]. Errors: the
// refusals of quota.Proxy.
func (g *Proxy) OpenTarget(ctx context.Context, who authz.Caller, target model.Target, source string) (*Call, error) {
	if err := g.Plans.AllowProxyCall(ctx, who.TenantID, nil); err != nil {
		return nil, err
	}
	return &Call{proxy: g, caller: who, params: CallParams{Model: target.Model, Source: source}, target: target}, nil
}
