package wiretest_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/anthropicclient"
	"agentd/internal/wire/bedrockclient"
	"agentd/internal/wire/geminiclient"
	"agentd/internal/wire/openaiclient"
	"agentd/internal/wire/responsesclient"
	"agentd/internal/wire/wiretest"
)

// What an answer costs is within a hundredth of its bill, from the usage as each provider
// reports it and by its published prices (rule D23-bill). Reported are cached tokens within
// the input (OpenAI, Gemini, DeepSeek) or beside it (Anthropic, Bedrock), and thinking
// within the output (OpenAI, Anthropic) or beside it (Gemini, xAI).
func TestBills(t *testing.T) {
	t.Parallel()
	config := wiretest.Config()
	chat := openaiclient.New(config)
	completion := func(usage string) string {
		return `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"So."}}],"usage":` + usage + `}`
	}
	for name, tt := range map[string]struct {
		client       model.Client
		provider, id string
		answer       string
		bill         float64
	}{
		"openai": {chat, "openai", "gpt-5", completion(`{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,
			"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":192}}`),
			(86*1.25 + 1920*.125 + 300*10) / 1e6},
		"openai, responses": {responsesclient.New(config), "openai", "gpt-5-mini", `{"object":"response","status":"completed","output":[{"type":"message",
			"content":[{"type":"output_text","text":"So."}]}],"usage":{"input_tokens":12036,"input_tokens_details":{"cached_tokens":11008},
			"output_tokens":1450,"output_tokens_details":{"reasoning_tokens":1280},"total_tokens":13486}}`,
			(1028*.25 + 11008*.025 + 1450*2) / 1e6},
		"anthropic": {anthropicclient.New(config), "anthropic", "claude-sonnet-4-5-20250929", `{"type":"message","content":[{"type":"text","text":"So."}],
			"stop_reason":"end_turn","usage":{"input_tokens":21,"cache_creation_input_tokens":1886,"cache_read_input_tokens":188086,"output_tokens":393}}`,
			(21*3 + 1886*3.75 + 188086*.3 + 393*15) / 1e6},
		"gemini": {geminiclient.New(config), "gemini", "gemini-2.5-pro", `{"candidates":[{"content":{"parts":[{"text":"So."}]},"finishReason":"STOP"}],
			"usageMetadata":{"promptTokenCount":5040,"cachedContentTokenCount":4096,"candidatesTokenCount":120,"thoughtsTokenCount":880,"totalTokenCount":6040}}`,
			(944*1.25 + 4096*.125 + 1000*10) / 1e6},
		"deepseek": {chat, "deepseek", "deepseek-chat", completion(`{"prompt_tokens":3000,"completion_tokens":200,"total_tokens":3200,
			"prompt_cache_hit_tokens":2816,"prompt_cache_miss_tokens":184}`), (184*.28 + 2816*.028 + 200*.42) / 1e6},
		"xai": {chat, "xai", "grok-4", completion(`{"prompt_tokens":700,"completion_tokens":100,"total_tokens":1400,
			"prompt_tokens_details":{"cached_tokens":512},"completion_tokens_details":{"reasoning_tokens":600}}`), (188*3 + 512*.75 + 700*15) / 1e6},
		"bedrock": {bedrockclient.New(config), "anthropic", "claude-haiku-4-5", `{"output":{"message":{"content":[{"text":"So."}]}},"stopReason":"end_turn",
			"usage":{"inputTokens":12,"outputTokens":80,"totalTokens":3092,"cacheReadInputTokens":2000,"cacheWriteInputTokens":1000}}`,
			(12*1 + 2000*.1 + 1000*1.25 + 80*5) / 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tt.answer)) }))
			defer s.Close()
			listed, ok := model.PublicPrices().Lookup(tt.provider, tt.id)
			if !ok {
				t.Fatal("the price is not known")
			}
			req := model.Request{
				Target: model.Target{Model: tt.id, BaseURL: s.URL, Context: listed.Context}, Messages: []model.Message{{Role: model.User, Text: "Hi"}},
			}
			resp, err := tt.client.Generate(t.Context(), req, nil)
			if err != nil || resp.Usage.Estimated {
				t.Fatalf("%+v, %v", resp, err)
			}
			if cost := listed.Price.Cost(resp.Usage); math.Abs(cost-tt.bill) > tt.bill/100 {
				t.Errorf("$%.6f for a bill of $%.6f: %+v", cost, tt.bill, resp.Usage)
			}
		})
	}
}
