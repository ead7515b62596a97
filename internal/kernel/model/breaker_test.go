package model_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agentd/internal/base/clock"
	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// fickle is a client whose answers a test decides.
type fickle struct {
	model.Embedder

	err   error
	calls int
	begun chan struct{} // receives each call, which then waits for end; nil: calls do not wait
	end   chan struct{}
}

func (f *fickle) call() error {
	if f.begun != nil {
		f.begun <- struct{}{}
		<-f.end
		return f.err
	}
	f.calls++
	return f.err
}

func (f *fickle) Generate(context.Context, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{Text: "hi"}, f.call()
}

func (f *fickle) Forward(context.Context, model.Forward, func([]byte) error) (model.Forwarded, error) {
	return model.Forwarded{}, f.call()
}

func (f *fickle) Speak(context.Context, model.SpeechRequest) (*model.Speech, error) {
	return nil, f.call()
}

func (f *fickle) Transcribe(context.Context, model.TranscriptionRequest) (model.Transcription, error) {
	return model.Transcription{}, f.call()
}

func (f *fickle) Image(context.Context, model.ImageRequest) (model.Image, error) {
	return model.Image{}, f.call()
}

func (f *fickle) Embed(context.Context, []string) (model.Embedded, error) {
	return model.Embedded{}, f.call()
}

var silence = &model.Error{Code: "model_error", Detail: "no answer", Retryable: true}

// A probe is made while the endpoint is left alone, one at a time; its success ends the
// rest.
func TestBreakerLetsProbesPass(t *testing.T) {
	t.Parallel()
	next := &fickle{err: silence}
	b := &model.Breaker{Next: next, Clock: clock.NewFake()}
	ask := func(probe bool) error {
		_, err := b.Generate(t.Context(), model.Request{Target: model.Target{Provider: "default", Model: "m"}, Probe: probe}, nil)
		return err
	}
	for range 5 {
		_ = ask(false)
	}
	var e *model.Error
	if err := ask(false); !errors.As(err, &e) || !e.NotMade || next.calls != 5 {
		t.Errorf("an ordinary call: %v, %d calls", err, next.calls)
	}
	for range 3 {
		if err := ask(true); !errors.Is(err, silence) {
			t.Errorf("a probe: %v", err)
		}
	}
	next.begun, next.end, next.err = make(chan struct{}), make(chan struct{}), nil
	probed := make(chan error)
	go func() { probed <- ask(true) }()
	<-next.begun
	if err := ask(true); !errors.As(err, &e) || !e.NotMade {
		t.Errorf("a second probe at the same time: %v", err)
	}
	close(next.end)
	if err := <-probed; err != nil {
		t.Error(err)
	}
	next.begun = nil
	if err := ask(false); err != nil {
		t.Errorf("after a probe that succeeded: %v", err)
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	next, now := &fickle{err: silence}, clock.NewFake()
	b := &model.Breaker{Next: next, Clock: now}
	op := model.Target{Provider: "default", Model: "m", BaseURL: "http://a/v1"}
	ask := func(to model.Target) error {
		_, err := b.Generate(t.Context(), model.Request{Target: to}, nil)
		return err
	}
	health := func(want string) {
		t.Helper()
		if got, _ := b.Health("default"); got != want {
			t.Errorf("health is %s, want %s", got, want)
		}
	}
	health(model.HealthUnknown)
	for range 5 {
		if err := ask(op); !errors.Is(err, silence) {
			t.Fatal(err)
		}
	}
	health(model.HealthDown)
	var refused *model.Error
	if err := ask(op); !errors.As(err, &refused) || next.calls != 5 || refused.RetryAfter != 5*time.Second || refused.Status != 503 {
		t.Fatalf("the sixth call: %v after %d calls", err, next.calls)
	}
	// Another model of it, and a tenant's own key, stand apart.
	other, own := op, op
	other.Model, own.Guarded, own.APIKey = "n", true, secret.New("k")
	next.err = nil
	if ask(other) != nil || ask(own) != nil {
		t.Error("another circuit is open")
	}
	health(model.HealthDegraded)

	// After the rest one call tries; where it fails the next rest is longer.
	now.Advance(5 * time.Second)
	next.err, next.calls = silence, 0
	if err := ask(op); !errors.Is(err, silence) || next.calls != 1 {
		t.Fatalf("the trial: %v", err)
	}
	now.Advance(9 * time.Second)
	if err := ask(op); errors.Is(err, silence) || err == nil {
		t.Fatalf("within the longer rest: %v", err)
	}
	now.Advance(time.Second)
	next.err = nil
	if err := ask(op); err != nil {
		t.Fatal(err)
	}
	health(model.HealthOK)
	if err := ask(op); err != nil {
		t.Error("it is closed again, and refuses:", err)
	}
}

// What an endpoint says, even of itself, does not count, nor what callers do.
func TestBreakerCountsSilenceOnly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		err   error
		opens bool
	}{
		{"no connection", silence, true},
		{"a gateway's 502", &model.Error{Status: 502, Retryable: true}, true},
		{"503", &model.Error{Status: 503, Retryable: true}, true},
		{"overloaded", &model.Error{Status: 529, Retryable: true}, true},
		{"500", &model.Error{Status: 500, Retryable: true}, false},
		{"400", &model.Error{Status: 400}, false},
		{"401", &model.Error{Status: 401}, false},
		{"429", &model.Error{Status: 429, Retryable: true}, false},
		{"broke off", &model.Error{Status: 200, Retryable: true}, false},
		{"the guarded client's refusal", &model.Error{}, false},
		{"not configured", &model.Error{Code: "provider_not_configured", Retryable: true}, false},
		{"the sink's", errors.New("gone"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			next := &fickle{err: tt.err}
			b := &model.Breaker{Next: next, Clock: clock.NewFake()}
			for range 20 {
				_, _ = b.Forward(t.Context(), model.Forward{}, nil) // only who was asked matters
			}
			if opened := next.calls < 20; opened != tt.opens {
				t.Errorf("%d of 20 calls went through", next.calls)
			}
		})
	}
}

// Whatever an endpoint is asked for, it is left alone once it is silent, for
// every other kind of call too.
func TestBreakerOfEveryCall(t *testing.T) {
	t.Parallel()
	to := model.Target{Provider: "default", Model: "m"}
	calls := map[string]func(*model.Breaker, *fickle) error{
		"generate": func(b *model.Breaker, _ *fickle) error {
			_, err := b.Generate(t.Context(), model.Request{Target: to}, nil)
			return err
		},
		"forward": func(b *model.Breaker, _ *fickle) error {
			_, err := b.Forward(t.Context(), model.Forward{Target: to}, nil)
			return err
		},
		"speak": func(b *model.Breaker, _ *fickle) error {
			_, err := b.Speak(t.Context(), model.SpeechRequest{Target: to})
			return err
		},
		"transcribe": func(b *model.Breaker, _ *fickle) error {
			_, err := b.Transcribe(t.Context(), model.TranscriptionRequest{Target: to})
			return err
		},
		"image": func(b *model.Breaker, _ *fickle) error {
			_, err := b.Image(t.Context(), model.ImageRequest{Target: to})
			return err
		},
		"embed": func(b *model.Breaker, f *fickle) error {
			_, err := b.Embedder(f, to).Embed(t.Context(), []string{"a"})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := &fickle{err: silence}
			b := &model.Breaker{Next: next, Clock: clock.NewFake()}
			for range 5 {
				if err := call(b, next); !errors.Is(err, silence) {
					t.Fatalf("before it was left alone: %v", err)
				}
			}
			for other, call := range calls {
				var refused *model.Error
				if err := call(b, next); !errors.As(err, &refused) || refused.Status != 503 || refused.RetryAfter == 0 {
					t.Errorf("%s: %v", other, err)
				}
			}
			if next.calls != 5 {
				t.Errorf("%d calls went through", next.calls)
			}
		})
	}
}

// Callers who leave prove nothing, and of those who fail together with the
// fifth none makes the rest longer.
func TestBreakerUnderWay(t *testing.T) {
	t.Parallel()
	next, now := &fickle{err: silence}, clock.NewFake()
	b := &model.Breaker{Next: next, Clock: now}
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 20 {
		_, _ = b.Generate(gone, model.Request{}, nil)
	}
	if next.calls != 20 {
		t.Fatalf("%d of 20 calls went through", next.calls)
	}
	next.begun, next.end = make(chan struct{}), make(chan struct{})
	var together sync.WaitGroup
	for range 30 {
		together.Go(func() { _, _ = b.Generate(t.Context(), model.Request{}, nil) })
	}
	for range 30 {
		<-next.begun
	}
	close(next.end)
	together.Wait()
	next.begun = nil
	var refused *model.Error
	if _, err := b.Generate(t.Context(), model.Request{}, nil); !errors.As(err, &refused) || refused.RetryAfter != 5*time.Second {
		t.Errorf("after 30 failures together: %v", err)
	}
	// A trial that is abandoned lets the next one try.
	now.Advance(5 * time.Second)
	_, _ = b.Generate(gone, model.Request{}, nil)
	next.err = nil
	if _, err := b.Generate(t.Context(), model.Request{}, nil); err != nil {
		t.Error(err)
	}
}
