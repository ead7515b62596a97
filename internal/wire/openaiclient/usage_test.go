package openaiclient

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/kernel/model"
)

// Usage means the same whatever its endpoint calls it: input with cached and stored
// tokens, output with reasoning (rule D23-usage).
func TestUsageOfEndpoints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		usage string
		want  model.Usage
	}{
		"OpenAI": {
			`{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":20}}`,
			model.Usage{InputTokens: 100, OutputTokens: 30, CachedTokens: 64, ThinkingTokens: 20},
		},
		"xAI counts reasoning beside the completion": {
			`{"prompt_tokens":100,"completion_tokens":10,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":64},"completion_tokens_details":{"reasoning_tokens":20}}`,
			model.Usage{InputTokens: 100, OutputTokens: 30, CachedTokens: 64, ThinkingTokens: 20},
		},
		"DeepSeek":   {`{"prompt_tokens":100,"completion_tokens":3,"prompt_cache_hit_tokens":90,"prompt_cache_miss_tokens":10}`, model.Usage{InputTokens: 100, OutputTokens: 3, CachedTokens: 90}},
		"Moonshot":   {`{"prompt_tokens":100,"completion_tokens":3,"cached_tokens":90}`, model.Usage{InputTokens: 100, OutputTokens: 3, CachedTokens: 90}},
		"OpenRouter": {`{"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":50,"cache_write_tokens":40}}`, model.Usage{InputTokens: 100, OutputTokens: 3, CachedTokens: 50, CacheWriteTokens: 40}},
		"a gateway to Anthropic": {
			`{"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":50,"cache_creation_tokens":40},"cache_creation_input_tokens":40,"cache_read_input_tokens":50}`,
			model.Usage{InputTokens: 100, OutputTokens: 3, CachedTokens: 50, CacheWriteTokens: 40},
		},
		"negative": {`{"prompt_tokens":-1,"completion_tokens":3}`, model.Usage{OutputTokens: 1, Estimated: true}},
		"absurd":   {`{"prompt_tokens":1e15,"completion_tokens":3}`, model.Usage{OutputTokens: 1, Estimated: true}},
		"a word":   {`{"prompt_tokens":"many","completion_tokens":3}`, model.Usage{OutputTokens: 1, Estimated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, body := range []string{
				`data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],"usage":` + tt.usage + "}\n\ndata: [DONE]\n\n",
				`{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}],"usage":` + tt.usage + `}`,
			} {
				resp, _, err := read(body, whole)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, resp.Usage); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
