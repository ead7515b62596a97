package model

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// permit returns the permit of a call, and waits for it as long as the caller
// allows. Errors: *Error with the code model_rate_limited; the context's.
func (l *Limiter) permit(ctx context.Context, t *Target, input, output int, patience time.Duration) (*Permit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var giveUp *time.Timer
	for {
		p, err := l.Try(t, nil, input, output)
		over, ok := errors.AsType[*OverLimit](err)
		if !ok {
			return p, err
		}
		patience := cmp.Or(patience, defaultLimitWait)
		if over.Account == "" && over.After > patience {
			return nil, l.refuse(t, over)
		}
		if giveUp == nil {
			giveUp = time.AfterFunc(patience, func() { cancel(over) })
			defer giveUp.Stop()
		}
		if over.Account == "" {
			err = sleep(ctx, over.After)
		} else if p, err = l.Await(ctx, over.Account, t.TenantID, l.Demand(over.Account, input, output)); err == nil && p != nil {
			p, err = l.begin(p, t, input)
			if err == nil {
				return p, nil
			}
			if _, ok := errors.AsType[*OverLimit](err); ok {
				continue
			}
		}
		if err != nil {
			if over, ok := errors.AsType[*OverLimit](context.Cause(ctx)); ok {
				return nil, l.refuse(t, over)
			}
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse returns the error of a call that was not made.
func (l *Limiter) refuse(t *Target, over *OverLimit) error {
	if l.Observe != nil {
		l.Observe(Call{Target: t, Outcome: CallLimited})
	}
	return over.asError()
}

// limited makes a call within the limits. Its tokens are counted if it reports
// them.
func limited[T any](ctx context.Context, l *Limiter, t *Target, p *Permit, call func(*Permit) (T, Usage, error)) (out T, err error) {
	if p == nil {
		if p, err = l.permit(ctx, t, 0, 0, 0); err != nil {
			return out, err
		}
	}
	defer p.Release() // also if the call panics
	out, used, err := call(p)
	p.done(used, err)
	return out, err
}

// Generate implements [Client].
func (l *Limiter) Generate(ctx context.Context, req Request, sink func(Delta)) (resp Response, err error) {
	p := req.Permit
	if p == nil {
		input := 0
		if req.Target.Limits.TokensPerMinute > 0 {
			input = EstimateInput(req)
		}
		if p, err = l.permit(ctx, &req.Target, input, req.MaxTokens, req.LimitWait); err != nil {
			return resp, err
		}
	}
	return limited(ctx, l, &req.Target, p, func(p *Permit) (Response, Usage, error) {
		req.OnRate = p.learn
		resp, err := l.Next.Generate(ctx, req, sink)
		return resp, resp.Usage, err
	})
}

// Forward implements [Forwarder].
func (l *Limiter) Forward(ctx context.Context, f Forward, sink func([]byte) error) (out Forwarded, err error) {
	p, err := l.permit(ctx, &f.Target, len(f.Body)/4, 0, f.LimitWait)
	if err != nil {
		return out, err
	}
	return limited(ctx, l, &f.Target, p, func(p *Permit) (Forwarded, Usage, error) {
		f.OnRate = p.learn
		out, err := l.Next.Forward(ctx, f, sink)
		return out, out.Usage, err
	})
}

// Speak implements [AudioClient]. The call counts until the speech begins.
func (l *Limiter) Speak(ctx context.Context, req SpeechRequest) (*Speech, error) {
	return limited(ctx, l, &req.Target, nil, func(*Permit) (*Speech, Usage, error) {
		out, err := l.Next.Speak(ctx, req)
		return out, Usage{}, err
	})
}

// Transcribe implements [AudioClient].
func (l *Limiter) Transcribe(ctx context.Context, req TranscriptionRequest) (Transcription, error) {
	return limited(ctx, l, &req.Target, nil, func(*Permit) (Transcription, Usage, error) {
		out, err := l.Next.Transcribe(ctx, req)
		return out, Usage{}, err
	})
}

// Image implements [ImageClient].
func (l *Limiter) Image(ctx context.Context, req ImageRequest) (Image, error) {
	return limited(ctx, l, &req.Target, nil, func(*Permit) (Image, Usage, error) {
		out, err := l.Next.Image(ctx, req)
		return out, Usage{}, err
	})
}

// Embedder returns e, whose calls go to the target t, behind the limits.
func (l *Limiter) Embedder(e Embedder, t Target) Embedder { return limitedEmbedder{e, l, t} }

type limitedEmbedder struct {
	Embedder
	limiter *Limiter
	target  Target
}

// Embed implements [Embedder].
func (g limitedEmbedder) Embed(ctx context.Context, texts []string) (Embedded, error) {
	return limited(ctx, g.limiter, &g.target, nil, func(*Permit) (Embedded, Usage, error) {
		out, err := g.Embedder.Embed(ctx, texts)
		return out, Usage{InputTokens: out.Tokens}, err
	})
}
