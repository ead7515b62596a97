package modelcheck

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/authz"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// endpoint plays a model, its catalogue and the company's plan.
type endpoint struct {
	modelproxy.Client
	quota.Proxy

	price  *model.Price
	answer func(ctx context.Context, req *model.Request) (model.Response, error)
	mu     sync.Mutex
	calls  int
	tokens int // that the answers may have together
}

func (e *endpoint) Resolve(context.Context, string, model.Spec) (model.Target, error) {
	return model.Target{Provider: "p", Model: "m", BaseURL: "http://m.example", Price: e.price}, nil
}

func (e *endpoint) AllowProxyCall(context.Context, string, *model.Target) error { return nil }

func (e *endpoint) CountProxyCall(string, quota.Use) {}

func (e *endpoint) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	e.mu.Lock()
	e.calls++
	e.tokens += req.MaxTokens
	e.mu.Unlock()
	resp, err := e.answer(ctx, &req)
	if sink != nil && err == nil {
		sink(model.Delta{Text: "One "})
		sink(model.Delta{Text: "two."})
	}
	return resp, err
}

func (e *endpoint) check(t *testing.T) (Tested, map[string]string) {
	t.Helper()
	s := &Service{Models: &modelproxy.Proxy{Models: e, Client: e, Plans: e, Fallback: func() string { return "p/other" }}}
	in := &testIn{}
	in.Body.Model = "p/m"
	out, err := s.test(t.Context(), authz.Caller{TenantID: "acme"}, in)
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]string{}
	for _, c := range out.Checks {
		statuses[c.Check] = c.Status
		if c.Detail == "" {
			t.Errorf("%s has no detail", c.Check)
		}
	}
	return out, statuses
}

// A test says what works, what is missing, and what is broken, with few calls (rule
// D23-models-test).
func TestModels(t *testing.T) {
	t.Parallel()
	able := func(_ context.Context, req *model.Request) (model.Response, error) {
		r := model.Response{Text: `{"capital":"Oslo"}`}
		if req.Tools != nil {
			r.ToolCalls = []model.ToolCall{{Name: "weather"}}
		}
		if req.Extra["reasoning_effort"] != nil {
			r.Thinking = "Hm."
		}
		return r, nil
	}
	weak := func(_ context.Context, req *model.Request) (model.Response, error) {
		if req.Messages[0].Parts != nil {
			return model.Response{}, &model.Error{Code: "model_error", Status: 400, Detail: "No images."}
		}
		return model.Response{Text: "So."}, nil
	}
	failing := func(e *model.Error) func(context.Context, *model.Request) (model.Response, error) {
		return func(context.Context, *model.Request) (model.Response, error) { return model.Response{}, e }
	}
	none := map[string]string{
		"streaming": skipped, "tools": skipped, "images": skipped, "structured_output": skipped, "thinking": skipped, "price": missing,
	}
	with := func(reachable, key, named string) map[string]string {
		all := map[string]string{"reachable": reachable, "key": key, "model": named}
		maps.Copy(all, none)
		return all
	}
	for name, tt := range map[string]struct {
		price  *model.Price
		answer func(context.Context, *model.Request) (model.Response, error)
		want   map[string]string
		usable bool
		calls  int
	}{
		"able": {&model.Price{Rates: model.Rates{Input: 1, Output: 2}}, able, map[string]string{
			"reachable": ok, "key": ok, "model": ok, "streaming": ok, "tools": ok, "images": ok, "structured_output": ok, "thinking": ok, "price": ok,
		}, true, 5},
		"weak": {nil, weak, map[string]string{
			"reachable": ok, "key": ok, "model": ok, "streaming": ok, "tools": missing, "images": missing, "structured_output": missing,
			"thinking": missing, "price": missing,
		}, true, 5},
		"not reached": {nil, failing(&model.Error{Code: "model_error", Detail: "It could not be reached.", Retryable: true}), with(failed, skipped, skipped), false, 1},
		"refused":     {nil, failing(&model.Error{Code: "provider_auth_failed", Status: 401, Detail: "No."}), with(ok, failed, skipped), false, 1},
		"unknown":     {nil, failing(&model.Error{Code: "model_error", Status: 404, Detail: "No such model."}), with(ok, ok, failed), false, 1},
	} {
		e := &endpoint{price: tt.price, answer: tt.answer}
		out, got := e.check(t)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if out.Model != "p/m" || out.Usable != tt.usable || e.calls != tt.calls || e.tokens > 8192 {
			t.Errorf("%s: usable %t after %d calls of up to %d tokens", name, out.Usable, e.calls, e.tokens)
		}
	}
}

// A model that does not answer is left after a minute.
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{answer: func(ctx context.Context, _ *model.Request) (model.Response, error) {
			<-ctx.Done()
			return model.Response{}, ctx.Err()
		}}
		began := time.Now()
		_, got := e.check(t)
		if got["reachable"] != failed || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", got, time.Since(began))
		}
	})
}
