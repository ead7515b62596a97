package openaiclient

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

func embedder(t *testing.T, config Config, opts ...modeltest.Option) (*Embedder, *modeltest.Server) {
	t.Helper()
	b := newBench(t, config, opts...)
	return b.Embedder(model.Target{Provider: "default", Model: "e", BaseURL: b.sim.URL, APIKey: secret.New("sk-embed")}), b.sim
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	e, sim := embedder(t, Config{}, modeltest.RequireKey("sk-embed"))
	texts := make([]string, 2*embedTexts+1)
	for i := range texts {
		texts[i] = fmt.Sprint("text number ", i)
	}
	texts[3] = "not \xff UTF-8"
	got, err := e.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Vectors) != len(texts) || got.Model != "e" || got.Tokens != 3*len(texts) || e.Model() != "e" {
		t.Errorf("%d vectors, model %q, %d tokens", len(got.Vectors), got.Model, got.Tokens)
	}
	for _, i := range []int{0, embedTexts, len(texts) - 1} {
		if diff := cmp.Diff(modeltest.Vector(texts[i]), got.Vectors[i]); diff != "" {
			t.Errorf("text %d has another's vector", i)
		}
	}
	if sim.EmbedCalls() != 3 {
		t.Errorf("%d calls for three batches", sim.EmbedCalls())
	}
	long := strings.Repeat("x", embedChars)
	if _, err := e.Embed(t.Context(), []string{long, long}); err != nil || sim.EmbedCalls() != 5 {
		t.Errorf("two long texts: %v, %d calls", err, sim.EmbedCalls())
	}
	if got, err := e.Embed(t.Context(), nil); err != nil || len(got.Vectors) != 0 || sim.EmbedCalls() != 5 {
		t.Errorf("no texts: %v, %v", got, err)
	}
}

func TestEmbedRetries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer modeltest.Answer
		calls  int
		code   string
	}{
		"limited":        {modeltest.Answer{Status: 429}, 3, "model_rate_limited"},
		"down":           {modeltest.Answer{Status: 503}, 3, "model_error"},
		"bad_key":        {modeltest.Answer{Status: 401, Error: "no"}, 1, "provider_auth_failed"},
		"bad_text":       {modeltest.Answer{Status: 400, Error: "no"}, 1, "model_error"},
		"too_long":       {modeltest.Answer{Status: 400, Error: "maximum context length is 512"}, 1, "CONTEXT_LENGTH_EXCEEDED"},
		"unknown_model":  {modeltest.Answer{Status: 404, Error: "no"}, 1, "model_error"},
		"error_in_a_200": {modeltest.Answer{Error: "no"}, 3, "model_error"},
		"no_json":        {modeltest.Answer{Raw: []byte("<html>")}, 1, "model_error"},
		"too_few":        {raw(`{"data":[]}`), 1, "model_error"},
		"twice":          {raw(`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`), 1, "model_error"},
		"out_of_range":   {raw(`{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}`), 1, "model_error"},
		"no_numbers":     {raw(`{"data":[{"embedding":[]},{"embedding":[]}]}`), 1, "model_error"},
		"infinite":       {raw(`{"data":[{"embedding":[1e99]},{"embedding":[1]}]}`), 1, "model_error"},
		"lengths":        {raw(`{"data":[{"embedding":[1,2]},{"embedding":[1]}]}`), 1, "model_error"},
		"hangs":          {modeltest.Answer{BreakAfter: 1, Text: "a b"}, 0, "model_error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, sim := embedder(t, Config{}, modeltest.Embeddings(func(int, []string) (modeltest.Answer, bool) { return tt.answer, true }))
			_, err := e.Embed(t.Context(), []string{"a", "b"})
			checkCode(t, err, tt.code)
			if tt.calls > 0 && sim.EmbedCalls() != tt.calls {
				t.Errorf("%d calls, want %d", sim.EmbedCalls(), tt.calls)
			}
			if strings.Contains(fmt.Sprint(err), "sk-embed") {
				t.Errorf("the key is shown: %v", err)
			}
		})
	}
	e, _ := embedder(t, Config{}, modeltest.Embeddings(func(call int, _ []string) (modeltest.Answer, bool) {
		return modeltest.Answer{Status: 500}, call == 1
	}))
	if got, err := e.Embed(t.Context(), []string{"a"}); err != nil || len(got.Vectors) != 1 {
		t.Errorf("after a failure: %v, %v", got, err)
	}
}

func raw(body string) modeltest.Answer { return modeltest.Answer{Raw: []byte(body)} }

func TestEmbedEndpointsThatAnswerLittle(t *testing.T) {
	t.Parallel()
	e, _ := embedder(t, Config{}, modeltest.Embeddings(func(int, []string) (modeltest.Answer, bool) {
		return raw(`{"data":[{"embedding":[1,0],"object":"embedding"},{"embedding":[0,1]}]}`), true
	}))
	got, err := e.Embed(t.Context(), []string{"eight ch", "four"})
	want := model.Embedded{Vectors: [][]float32{{1, 0}, {0, 1}}, Model: "e", Tokens: 3}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestEmbedEnds(t *testing.T) {
	t.Parallel()
	e, _ := embedder(t, Config{}, modeltest.Embeddings(func(int, []string) (modeltest.Answer, bool) {
		return modeltest.Answer{HangFirst: true}, true
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Embed(ctx, []string{"a"}); err != context.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	bad := New(Config{}).Embedder(model.Target{Model: "e", BaseURL: "nowhere"})
	_, err := bad.Embed(t.Context(), []string{"a"})
	checkCode(t, err, "provider_not_configured")
}

func FuzzEmbeddings(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`{"error":{"message":"x"}}`))
	e := New(Config{}).Embedder(model.Target{Model: "e"})
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := e.read(body, []string{"a"})
		if err == nil && (len(got.Vectors) != 1 || !usable(got.Vectors[0])) {
			t.Errorf("%+v", got)
		}
	})
}
