package anthropic

import (
	"context"
	"strings"
	"testing"

	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// keyed records the cache keys of calls.
type keyed struct {
	model.Client
	keys chan string
}

func (k *keyed) Generate(ctx context.Context, req model.Request, sink func(model.Delta)) (model.Response, error) {
	k.keys <- req.CacheKey
	return k.Client.Generate(ctx, req, sink)
}

// A cache_control at any place has the prompt cached, under a key that the next request of
// the conversation has too; the word in a text does nothing.
func TestCacheControl(t *testing.T) {
	t.Parallel()
	k := &keyed{keys: make(chan string, 1)}
	s := newStage(t, modeltest.Answer{Text: "Hello."}, func(s *stage) {
		router, ok := s.messages.Proxy.Client.(model.Router)
		if !ok {
			t.Fatal("the stage has another client")
		}
		k.Client, router.Wire = router.Wire, k
		s.messages.Proxy.Client = router
	})
	key := func(body string) string {
		t.Helper()
		resp, answer := s.ask(t, strings.Replace(body, "{", `{"model":"default/m","max_tokens":9,`, 1))
		if resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, answer)
		}
		return <-k.keys
	}
	const (
		asked  = `{"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`
		later  = `{"system":[{"type":"text","text":"Be kind.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"?"}]}`
		other  = `{"system":[{"type":"text","text":"Be rude.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`
		whole  = `{"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"hi"}]}`
		turn   = `{"messages":[{"role":"user","content":[{"type":"text","text":"hey","cache_control":null},{"type":"text","text":"hi", "cache_control" : {"type":"ephemeral"}}]}]}`
		tools  = `{"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]}`
		plain  = `{"messages":[{"role":"user","content":"hi"}]}`
		word   = `{"messages":[{"role":"user","content":"\"cache_control\": {"}],"system":"\"cache_control\":{}"}`
		none   = `{"cache_control":null,"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":null}]}]}`
		strays = `{"cache_control":7,"messages":[{"role":"user","content":"hi"}]}`
	)
	first := key(asked)
	if first == "" || key(later) != first || key(other) == first {
		t.Errorf("a conversation's keys: %q, %q, another's %q", first, key(later), key(other))
	}
	for _, body := range []string{whole, turn, tools} {
		if key(body) == "" {
			t.Errorf("no key: %s", body)
		}
	}
	for _, body := range []string{plain, word, none, strays} {
		if got := key(body); got != "" {
			t.Errorf("the key %s of %s", got, body)
		}
	}
}
