package engine_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"agentd/internal/kernel/model"
)

// network is a node's connection to the models. An answer is a function of the
// seed and the conversation, so that a call that is repeated after a crash gets
// the same answer; it may get lost on the way.
type network struct{ n *simNode }

// Generate implements model.Client.
func (c network) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	w := c.n.w
	key := conversation(req.Messages)
	w.mu.Lock()
	w.asked[key+req.Target.Model]++
	times := w.asked[key+req.Target.Model]
	w.mu.Unlock()
	if times > 1 {
		w.tally.count("model: asked again")
	}
	if req.Target.Model == "spare-model" {
		w.tally.count("model: fallback asked")
	}
	w.follows(c.n, req.Messages)
	luck := seeded(w.seed, key, req.Target.Model, fmt.Sprint(times))
	if err := c.wait(ctx, luck, 150); err != nil {
		return model.Response{}, err
	}
	fate := luck.IntN(100)
	if w.isHealthy() {
		fate = 99
	}
	if w.isDown() {
		w.tally.count("model: called during an outage")
		return model.Response{}, &model.Error{Code: "model_error", Detail: "It is down.", Status: 503, Retryable: true, Passing: true}
	}
	if after := w.quietFor(); after > 0 {
		w.tally.count("model: asks to be left alone")
		if req.OnRate != nil {
			req.OnRate(model.Rate{Requests: model.Allowance{Left: 0, Reset: after}})
		}
		return model.Response{}, &model.Error{
			Code: "model_rate_limited", Detail: "Later.", Status: 429, Retryable: true, Passing: true, RetryAfter: after,
		}
	}
	drip := 1
	if fate >= 13 && fate < 15 {
		w.happened("model: drips", c.n.name)
		drip = 100
	}
	switch {
	case fate < 3:
		w.happened("model: retryable error", c.n.name)
		return model.Response{}, &model.Error{Code: "model_rate_limited", Detail: "Later.", Status: 429, Retryable: true, Passing: true}
	case fate < 5:
		w.happened("model: error", c.n.name)
		w.failsForGood(req.Messages)
		return model.Response{}, &model.Error{Code: "model_error", Detail: "No.", Status: 400}
	case fate < 10:
		w.happened("model: hangs", c.n.name)
		select {
		case <-ctx.Done():
			return model.Response{}, ctx.Err()
		case <-w.healthy:
		}
	}
	resp := w.script(key, req)
	if sink != nil {
		w.tally.count("model: streams")
		pieces := strings.SplitAfter(resp.Text, " ")
		for i, piece := range pieces {
			if err := c.wait(ctx, luck, 60*drip); err != nil {
				return model.Response{}, err
			}
			if fate >= 10 && fate < 13 && i == len(pieces)/2 {
				w.happened("model: breaks off", c.n.name)
				return model.Response{}, &model.Error{Code: "model_error", Detail: "The answer broke off.", Passing: true}
			}
			if i == 0 && resp.Thinking != "" {
				sink(model.Delta{Thinking: resp.Thinking})
			}
			sink(model.Delta{Text: piece})
		}
	}
	if err := c.wait(ctx, luck, 60); err != nil {
		return model.Response{}, err
	}
	if !c.n.dead.Load() {
		w.mu.Lock()
		w.paid[runOf(req.Messages)+key+req.Target.Model]++
		w.mu.Unlock()
	}
	return resp, nil
}

// runOf returns the id of the run that a conversation belongs to.
func runOf(messages []model.Message) (id string) {
	for _, m := range messages {
		if m.From.RunID != "" {
			id = m.From.RunID
		}
	}
	return id
}

// failsForGood notes that a call of a run fails for a reason that does not pass.
func (w *world) failsForGood(messages []model.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lasting[runOf(messages)] = true
}

// quietFor returns for how long the provider asks to be left alone.
func (w *world) quietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.quiet)
}

// isDown reports whether the provider is down now.
func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.downUntil)
}

// wait sleeps up to some milliseconds, and ends with the context.
func (c network) wait(ctx context.Context, luck *rand.Rand, ms int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(1+luck.IntN(ms*1000)) * time.Microsecond):
		return ctx.Err()
	}
}

// script is the answer of a model to a conversation.
func (w *world) script(key string, req model.Request) model.Response {
	luck := seeded(w.seed, key, "script")
	turn, closing := 0, len(req.Tools) == 0
	for _, m := range req.Messages {
		if m.Role == model.Assistant {
			turn++
		}
	}
	resp := model.Response{
		Text: fmt.Sprintf("This is turn %d, number %d, said in pieces.", turn, luck.IntN(1000)), FinishReason: model.FinishStop, Model: req.Target.Model,
		Usage: model.Usage{InputTokens: 10 + 5*len(req.Messages), OutputTokens: 5 + luck.IntN(50)},
	}
	if luck.IntN(5) == 0 {
		resp.Thinking = "Hm."
	}
	if closing || turn > 4 || turn > 0 && luck.IntN(4) == 0 {
		return resp
	}
	if luck.IntN(4) == 0 {
		resp.Text = ""
	}
	resp.FinishReason = model.FinishToolCalls
	for i := range 1 + luck.IntN(3) {
		call := model.ToolCall{ID: fmt.Sprintf("c%d_%d", turn, i), Arguments: fmt.Sprintf(`{"n":%d}`, 5*turn+i)}
		switch p := luck.IntN(100); {
		case p < 30:
			call.Name = "act"
		case p < 50:
			call.Name = "safe"
		case p < 72:
			call.Name = "pay"
		case p < 82:
			call.Name = "mail"
		case p < 93:
			call.Name, call.Arguments = "ask_user", fmt.Sprintf(`{"question":"What about %d?"}`, turn)
		default:
			call.Name = "ghost"
			w.tally.count("model: unknown tool")
		}
		if luck.IntN(8) == 0 {
			call.ID = "same"
			w.tally.count("model: repeated id")
		}
		if luck.IntN(15) == 0 {
			call.Arguments, resp.FinishReason = `{"n": `, model.FinishLength
			w.tally.count("model: half a call")
		}
		if i > 0 {
			w.tally.count("model: parallel calls")
		}
		resp.ToolCalls = append(resp.ToolCalls, call)
	}
	return resp
}

// conversation identifies a conversation. It leaves out the ids of calls: where a
// model repeats one, the engine replaces it by a random one.
func conversation(messages []model.Message) string {
	h := fnv.New64a()
	for _, m := range messages {
		fmt.Fprintf(h, "%s %q %s\n", m.Role, m.Text, m.Name)
		for _, c := range m.ToolCalls {
			fmt.Fprintf(h, "%s %q\n", c.Name, c.Arguments)
		}
	}
	return fmt.Sprintf("%x", h.Sum64())
}

func seeded(seed uint64, of ...string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(strings.Join(of, "\x00")))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// isAway reports whether the database takes no writes now.
func (w *world) isAway() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.awayUntil)
}
