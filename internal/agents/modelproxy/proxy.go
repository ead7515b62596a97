// Package modelproxy calls models for the compatible APIs: it resolves the model,
// enforces the tenant's plan, calls the endpoint with the right key, falls back to
// another model if the endpoint fails, and records usage. It starts no runs. The
// edges add their wire formats.
package modelproxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"agentd/internal/base/authz"
	"agentd/internal/base/fault"
	"agentd/internal/base/ident"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// maxLimitWait is how long a call waits for a limit of its provider. Longer waits are
// the caller's: the answer is 429 with Retry-After.
const maxLimitWait = 2 * time.Second

// codeNoModel is the code for an unknown model.
const codeNoModel = "model_not_found"

// Models resolves the target of a model; model.Resolver.
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
	// CheckAgent returns fault.NotFound if a tenant has no such agent.
	CheckAgent func(ctx context.Context, tenant, id string) error
	// Fallback returns the model, as <provider>/<model>, that is called if the requested
	// one does not answer; "", or a nil Fallback: none.
	Fallback func() string
}

// CallParams selects the model and who is charged.
type CallParams struct {
	Model   string // <provider>/<model>, or a model name of the default provider; required
	Source  string // one of quota.ProxySources
	AgentID string // the agent that is charged; "": none
	// NoFallback has no other model asked where this one does not answer.
	NoFallback bool
}

// Attribution are the parameters of a request that select who is charged.
type Attribution struct {
	AgentID string `header:"X-Agent-Id" doc:"The agent that is charged for the usage."`
}

// Call is an admitted call. It belongs to one goroutine.
type Call struct {
	proxy  *Proxy
	caller authz.Caller
	params CallParams
	target model.Target
}

// Open resolves model and agent and checks the plan. Errors: fault.Malformed with
// the code model_not_found for an unknown model; fault.NotFound for an unknown
// agent; fault.Unsupported if no model is configured; the refusals of quota.Proxy.
func (g *Proxy) Open(ctx context.Context, who authz.Caller, params CallParams) (*Call, error) {
	if err := g.checkAgent(ctx, who.TenantID, params.AgentID); err != nil {
		return nil, err
	}
	target, err := g.Models.Resolve(ctx, who.TenantID, model.Spec{ModelRef: params.Model})
	if err != nil {
		return nil, unknownModel(params.Model, err)
	}
	if err := g.Plans.AllowProxyCall(ctx, who.TenantID, &target); err != nil {
		return nil, err
	}
	return &Call{proxy: g, caller: who, params: params, target: target}, nil
}

func (g *Proxy) checkAgent(ctx context.Context, tenant, id string) error {
	switch {
	case id == "":
		return nil
	case !ident.Valid(id):
		return fault.NewNotFound("agent")
	}
	return g.CheckAgent(ctx, tenant, id)
}

// Target returns the endpoint and model of the call.
func (c *Call) Target() model.Target { return c.target }

// Generate asks the model, and the fallback where it does not answer at all; see
// [model.Client]. req.Target is set here. Errors: fault.Invalid for media that the model
// does not take; those of [AsFault]; the context's.
func (c *Call) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	req.Target, req.LimitWait = c.target, maxLimitWait
	if err := checkMedia(&c.target, req.Messages); err != nil {
		return model.Response{}, err
	}
	received := 0 // bytes, for estimating the usage of an incomplete answer
	watched := sink
	if sink != nil {
		watched = func(d model.Delta) {
			received += len(d.Text) + len(d.Thinking) + len(d.Call.Name) + len(d.Call.Arguments)
			sink(d)
		}
	}
	resp, answered, err := model.GenerateWithFallback(ctx, targetTracker{c}, req, c.fallback(ctx), watched)
	c.target = answered
	switch {
	case err == nil:
		c.Used(resp.Usage)
	case received > 0: // an incomplete answer is charged too
		c.Used(model.Usage{InputTokens: model.EstimateInput(req), OutputTokens: (received + 3) / 4, Estimated: true})
	}
	return resp, AsFault(err)
}

// checkMedia refuses a call whose newest message has media that its model is known not to
// take. Those of earlier messages are named to the model in words.
func checkMedia(t *model.Target, messages []model.Message) error {
	for _, m := range slices.Backward(messages) {
		if m.Role != model.User {
			continue
		}
		if all := t.Misfits(m.Parts); len(all) > 0 {
			return fault.BadFields(fault.Field{Field: "messages", Message: all[0].Reason})
		}
		break
	}
	return nil
}

// Forward forwards a chat completion to the endpoint, or the fallback if it does not
// answer at all; see [model.Forwarder]. It sets f.Target. The response is nil if
// everything went to the sink. Errors: those of [AsFault]; the sink's; the
// context's.
func (c *Call) Forward(ctx context.Context, f model.Forward, sink func([]byte) error) (*model.Response, error) {
	f.Target, f.LimitWait = c.target, maxLimitWait
	out, answered, err := model.ForwardWithFallback(ctx, targetTracker{c}, f, c.fallback(ctx), sink)
	c.target = answered
	if err == nil || out.Usage != (model.Usage{}) { // an incomplete answer is charged too
		c.Used(out.Usage)
	}
	if err != nil {
		return nil, AsFault(err)
	}
	return out.Response, nil
}

// targetTracker is the client of one call. It sets the call's target to the endpoint
// that is being called, so that the receiver of the first piece can name the model.
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

// Used records the usage of the call.
func (c *Call) Used(u model.Usage) {
	use := quota.Called(c.target, u)
	use.AgentID, use.KeyID, use.Source = c.params.AgentID, c.caller.KeyID, c.params.Source
	c.proxy.Plans.CountProxyCall(c.caller.TenantID, use)
}

// fallback returns the model to call next, nil if there is none. It is not called
// with a request that the first model refused for its content.
func (c *Call) fallback(ctx context.Context) *model.Fallback {
	if c.proxy.Fallback == nil || c.params.NoFallback {
		return nil
	}
	ref := c.proxy.Fallback()
	if ref == "" {
		return nil
	}
	other, err := c.proxy.Models.Resolve(ctx, c.caller.TenantID, model.Spec{ModelRef: ref})
	if err != nil || other.Provider == c.target.Provider && other.Model == c.target.Model {
		return nil
	}
	return &model.Fallback{Target: other, After: func(e *model.Error) bool { return kindOf(e) != fault.Malformed || e.Status == 404 }}
}

// unknownModel returns the error for a model that cannot be resolved.
func unknownModel(name string, err error) error {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	return fault.New(fault.Malformed, codeNoModel, "Unknown model %q. %s", name, e.Detail).Because(e)
}

// AsFault converts the error of a model call to the one that callers receive. Other
// errors, and nil, are returned unchanged.
func AsFault(err error) error {
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		return err
	}
	code := cmp.Or(e.Code, "model_error")
	if e.Status == 404 && code == "model_error" { // an endpoint's answer for a model that it does not have
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
	case e.Status == 400 || e.Status == 404 || e.Status == 413 || e.Status == 422: // the endpoint rejects the request's content
		return fault.Malformed
	case !e.Retryable:
		return fault.Upstream
	}
	return fault.Unavailable
}
