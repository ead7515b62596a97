// Package gateway is the platform's model proxy (interface.md section 4, rule 5;
// behaviours.md section 31): it looks a model up, holds the tenant to its plan,
// calls the endpoint with the right key, goes round endpoints that fail, and
// counts what was used. It makes no runs. The compatible edges put their wire
// formats on top of it.
package modelproxy

import (
	"cmp"
	"context"
	"errors"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// codeNoModel is the code of a model that is none.
const codeNoModel = "model_not_found"

// Models finds the target of a model; model.Resolver.
type Models interface {
	Resolve(ctx context.Context, tenant string, spec model.Spec) (model.Target, error)
}

// Client calls models; model.Router.
type Client interface {
	model.Client
	model.Forwarder
}

// Proxy is the proxy. It is safe for concurrent use.
type Proxy struct {
	Models Models
	Client Client
	Plans  quota.Proxy
	// CheckAgent says whether a tenant has an agent. Errors: fault.NotFound.
	CheckAgent func(ctx context.Context, tenant, id string) error
	// Fallback is the model that is asked where the one that was named does not
	// answer: <provider>/<model>; "": none.
	Fallback string
}

// CallParams says what somebody wants to have asked.
type CallParams struct {
	Model   string // <provider>/<model>, or a bare name of the default provider; "" is not allowed
	Source  string // one of quota.ProxySources
	AgentID string // whom the use is counted for, where an agent's; "": none
}

// Attribution is what requests say of whom a call is counted for.
type Attribution struct {
	AgentID string `header:"X-Agent-Id" doc:"The agent whom the use is counted for."`
}

// Call is a call that was let through. It belongs to one goroutine.
type Call struct {
	proxy  *Proxy
	caller authz.Caller
	params CallParams
	target model.Target
}

// Open looks model and agent up and asks the plan. Errors: fault.Malformed with
// the code model_not_found for a model that is none; fault.NotFound for an agent
// that is none; fault.Unsupported where no model is configured; the refusals of
// quota.Proxy.
func (g *Proxy) Open(ctx context.Context, who authz.Caller, ask CallParams) (*Call, error) {
	if err := g.checkAgent(ctx, who.TenantID, ask.AgentID); err != nil {
		return nil, err
	}
	target, err := g.Models.Resolve(ctx, who.TenantID, model.Spec{ModelRef: ask.Model})
	if err != nil {
		return nil, unknownModel(ask.Model, err)
	}
	if err := g.Plans.MayProxy(ctx, who.TenantID, &target); err != nil {
		return nil, err
	}
	return &Call{proxy: g, caller: who, params: ask, target: target}, nil
}

func (g *Proxy) checkAgent(ctx context.Context, tenant, id string) error {
	switch {
	case id == "":
		return nil
	case !ident.Valid(id):
		return fault.NoSuch("agent")
	}
	return g.CheckAgent(ctx, tenant, id)
}

// Target is where the call goes.
func (c *Call) Target() model.Target { return c.target }

// Generate asks the model, and the fallback where it does not answer at all; see
// [model.Client]. req.Target is set here. Errors: a refusal made by [Refusal];
// the context's.
func (c *Call) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	req.Target = c.target
	given := 0 // bytes, for the estimate of what breaks off
	watched := sink
	if sink != nil {
		watched = func(d model.Delta) {
			given += len(d.Text) + len(d.Thinking) + len(d.Call.Name) + len(d.Call.Arguments)
			sink(d)
		}
	}
	resp, answered, err := model.GenerateWithFallback(ctx, targetTracker{c}, req, c.fallback(ctx), watched)
	c.target = answered
	switch {
	case err == nil:
		c.Used(resp.Usage)
	case given > 0: // what broke off costs too
		c.Used(model.Usage{InputTokens: model.EstimateInput(req), OutputTokens: (given + 3) / 4, Estimated: true})
	}
	return resp, AsFault(err)
}

// Forward passes a chat completion on, and asks the fallback where the endpoint
// does not answer at all; see [model.Forwarder]. f.Target is set here. The answer
// is nil where everything was passed on. Errors: a refusal made by [Refusal];
// the sink's; the context's.
func (c *Call) Forward(ctx context.Context, f model.Forward, sink func([]byte) error) (*model.Response, error) {
	f.Target = c.target
	out, answered, err := model.ForwardWithFallback(ctx, targetTracker{c}, f, c.fallback(ctx), sink)
	c.target = answered
	if err == nil || out.Usage != (model.Usage{}) { // what broke off costs too
		c.Used(out.Usage)
	}
	if err != nil {
		return nil, AsFault(err)
	}
	return out.Response, nil
}

// targetTracker is the client of one call: while an endpoint is asked it is the
// call's target, so that whoever gets the first piece can say whose it is.
type targetTracker struct{ c *Call }

// Generate implements [model.Client].
func (a targetTracker) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	a.c.target = req.Target
	return a.c.proxy.Client.Generate(ctx, req, sink)
}

// Forward implements [model.Forwarder].
func (a targetTracker) Forward(ctx context.Context, f model.Forward, sink func([]byte) error) (model.Forwarded, error) {
	a.c.target = f.Target
	return a.c.proxy.Client.Forward(ctx, f, sink)
}

// Used counts what the call used up.
func (c *Call) Used(u model.Usage) {
	use := quota.Called(c.target, u)
	use.AgentID, use.KeyID, use.Source = c.params.AgentID, c.caller.KeyID, c.params.Source
	c.proxy.Plans.Proxied(c.caller.TenantID, use)
}

// fallback gives the model to ask next; nil: there is none. It is not asked what
// the first one refused for its content.
func (c *Call) fallback(ctx context.Context) *model.Fallback {
	if c.proxy.Fallback == "" {
		return nil
	}
	other, err := c.proxy.Models.Resolve(ctx, c.caller.TenantID, model.Spec{ModelRef: c.proxy.Fallback})
	if err != nil || other.Provider == c.target.Provider && other.Model == c.target.Model {
		return nil
	}
	return &model.Fallback{Target: other, After: func(e *model.Error) bool { return kindOf(e) != fault.Malformed || e.Status == 404 }}
}

// unknownModel is the refusal of a model that cannot be found.
func unknownModel(name string, err error) error {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	return fault.New(fault.Malformed, codeNoModel, "There is no model %q. %s", name, e.Detail).Because(e)
}

// AsFault is what callers are told of a model call that failed. Errors that
// are none of a model's pass unchanged, and nil does.
func AsFault(err error) error {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	code := cmp.Or(e.Code, "model_error")
	if e.Status == 404 && code == "model_error" { // endpoints say so of models that they do not have
		code = codeNoModel
	}
	f := fault.New(kindOf(e), code, "%s", e.Detail).Because(e)
	f.RetryAfter = e.RetryAfter
	return f
}

func kindOf(e *model.Error) fault.Kind {
	switch {
	case e.Code == "model_rate_limited":
		return fault.Limited
	case e.Code == model.CodeContextLength:
		return fault.Malformed
	case e.Code == "provider_not_configured":
		return fault.Unsupported
	case e.Status == 400 || e.Status == 404 || e.Status == 413 || e.Status == 422: // what the caller sent is what it does not take
		return fault.Malformed
	case !e.Retryable:
		return fault.Upstream
	}
	return fault.Unavailable
}
