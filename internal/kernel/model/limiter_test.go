package model_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// slow is an endpoint whose calls take a while. It notes who was called when.
type slow struct {
	model.Forwarder
	model.AudioClient
	model.ImageClient
	takes time.Duration
	usage model.Usage
	rate  model.Rate
	err   error

	mu        sync.Mutex
	now, most int
	order     string
	starts    []time.Time
}

func (s *slow) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.order += req.Target.TenantID
	s.starts = append(s.starts, time.Now())
	s.mu.Unlock()
	<-time.After(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if s.rate != (model.Rate{}) {
		req.OnRate(s.rate)
	}
	return model.Response{Usage: s.usage}, s.err
}

func limitedTarget(tenant string, l model.Limits) model.Target {
	return model.Target{Provider: "acme", Model: "m", BaseURL: "https://acme.example/v1", APIKey: secret.New("k"), TenantID: tenant, Limits: l}
}

// Places go to the tenants in turn, however many calls one of them makes.
func TestLimiterIsFair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Second}
		l := &model.Limiter{Next: s, Clock: clock.System{}}
		limits := model.Limits{MaxConcurrency: 1}
		var all sync.WaitGroup
		call := func(tenant string) {
			all.Go(func() {
				if _, err := l.Generate(t.Context(), model.Request{Target: limitedTarget(tenant, limits), LimitWait: time.Minute}, nil); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 6 {
			call("a")
		}
		for range 2 {
			call("b")
		}
		call("c")
		all.Wait()
		if s.order != "aabcabaaa" || s.most != 1 {
			t.Errorf("the order is %s, at most %d at a time", s.order, s.most)
		}
	})
}

// A call that no place is free for in time fails as limited, without being made, and
// leaves nothing behind.
func TestLimiterRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Minute}
		var seen []string
		l := &model.Limiter{Next: s, Clock: clock.System{}, Observe: func(c model.Call) { seen = append(seen, c.Outcome) }}
		to := limitedTarget("a", model.Limits{MaxConcurrency: 1})
		var first sync.WaitGroup
		first.Go(func() { _, _ = l.Generate(t.Context(), model.Request{Target: to}, nil) }) // it cannot fail
		synctest.Wait()
		began := time.Now()
		_, err := l.Generate(t.Context(), model.Request{Target: to, LimitWait: 2 * time.Second}, nil)
		failed, ok := errors.AsType[*model.Error](err)
		if !ok || failed.Code != "model_rate_limited" || !failed.Passing || failed.RetryAfter < time.Second || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Generate(ctx, model.Request{Target: to}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gave up gets %v", err)
		}
		first.Wait()
		if _, err := l.Generate(t.Context(), model.Request{Target: to}, nil); err != nil || s.most != 1 || fmt.Sprint(seen) != "[limited]" {
			t.Errorf("%v, at most %d at a time, %v", err, s.most, seen)
		}
	})
}

// In no minute are more tokens spent than allowed; what calls really used counts.
func TestLimiterCountsTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, perMinute, calls = 100, 1000, 45
		s := &slow{takes: 10 * time.Millisecond, usage: model.Usage{InputTokens: 60, OutputTokens: each - 60}}
		l := &model.Limiter{Next: s, Clock: clock.System{}}
		to := limitedTarget("a", model.Limits{TokensPerMinute: perMinute})
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if _, err := l.Generate(t.Context(), model.Request{Target: to, LimitWait: time.Hour}, nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i, from := range s.starts {
			spent := 0
			for _, at := range s.starts[i:] {
				if at.Sub(from) < time.Minute {
					spent += each
				}
			}
			if spent > perMinute {
				t.Errorf("%d tokens in the minute after call %d", spent, i)
			}
		}
		if took := s.starts[calls-1].Sub(s.starts[0]); took > 7*time.Minute {
			t.Errorf("the calls took %v", took)
		}
	})
}

// A call that needs more than a minute's tokens is made when nothing else was spent.
func TestLimiterLetsBigCallsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &model.Limiter{Next: &slow{}, Clock: clock.System{}}
		to := limitedTarget("a", model.Limits{TokensPerMinute: 10})
		for range 2 {
			if _, err := l.Generate(t.Context(), model.Request{Target: to, MaxTokens: 5000, LimitWait: 2 * time.Minute}, nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// Nodes share a limit without rest, and a node without a share makes no call.
func TestLimiterShares(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		share model.Share
		want  int
	}{{model.Share{}, 5}, {model.Share{Index: 0, Of: 2}, 3}, {model.Share{Index: 1, Of: 2}, 2}, {model.Share{Index: 5, Of: 6}, 0}, {model.NoShare, 0}} {
		l := &model.Limiter{Next: &slow{}, Clock: clock.System{}}
		l.SetShare(c.share)
		to, made := limitedTarget("a", model.Limits{MaxConcurrency: 5}), 0
		for range 10 {
			if _, err := l.Try(&to, nil, 1, 1); err == nil {
				made++
			}
		}
		if made != c.want {
			t.Errorf("%+v makes %d calls, want %d", c.share, made, c.want)
		}
	}
}

// What an endpoint says about its limits holds for further calls of the model with
// the key, for a minute at most, and for no other model (rule D22-limits-learnt).
func TestLimiterLearns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rate  model.Rate
		err   error
		calls int // that are made at once after the first
		wait  time.Duration
	}{
		"nothing":             {calls: 9},
		"requests":            {rate: model.Rate{Requests: model.Allowance{Left: 2, Reset: 20 * time.Second}}, calls: 2, wait: 20 * time.Second},
		"no-requests":         {rate: model.Rate{Requests: model.Allowance{Reset: 20 * time.Second}}, wait: 20 * time.Second},
		"no-tokens":           {rate: model.Rate{Tokens: model.Allowance{Reset: 5 * time.Second}}, wait: 5 * time.Second},
		"retry-after":         {err: &model.Error{Status: 429, RetryAfter: 45 * time.Second}, wait: 45 * time.Second},
		"retry-after-a-year":  {err: &model.Error{Status: 429, RetryAfter: 365 * 24 * time.Hour}, wait: time.Minute},
		"retry-after-nothing": {err: &model.Error{Status: 429}, calls: 9},
		"retry-after-of-503":  {err: &model.Error{Status: 503, RetryAfter: time.Hour}, calls: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{rate: c.rate, err: c.err}
				l := &model.Limiter{Next: s, Clock: clock.System{}}
				to := limitedTarget("", model.Limits{})
				_, _ = l.Generate(t.Context(), model.Request{Target: to}, nil) // its error is c.err
				made := 0
				for range 9 {
					if _, err := l.Try(&to, nil, 1, 0); err == nil {
						made++
					}
				}
				other := to
				other.Model = "other"
				if _, err := l.Try(&other, nil, 1, 0); err != nil {
					t.Errorf("another model: %v", err)
				}
				if made != c.calls {
					t.Errorf("%d calls are made, want %d", made, c.calls)
				}
				time.Sleep(c.wait)
				if _, err := l.Try(&to, nil, 1, 0); err != nil {
					t.Errorf("after %v: %v", c.wait, err)
				}
			})
		})
	}
}
