package compat

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

func embedTexts(texts ...string) openai.EmbeddingNewParams {
	return openai.EmbeddingNewParams{Model: openai.EmbeddingModelTextEmbedding3Small, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}}
}

// OpenAI's client gets the vectors of the operator's model, whatever it asks
// for, and what was used is counted.
func TestSDKEmbeddings(t *testing.T) {
	t.Parallel()
	sim := modeltest.New(t, modeltest.Embeddings(func(_ int, texts []string) (modeltest.Answer, bool) {
		return modeltest.Answer{Status: 400, Error: "a text is too long for this model"}, slices.Contains(texts, "too much")
	}))
	n := apptest.Start(t, sim, apptest.Embedding)
	c := openAIClient(n)
	long := strings.Repeat("wörd ", 2000)
	got, err := c.Embeddings.New(t.Context(), embedTexts("red apples", "too much", long))
	if err != nil {
		t.Fatal(err)
	}
	if got.Model != "sim-embedding" || len(got.Data) != 3 || got.Usage.PromptTokens == 0 || got.Usage.TotalTokens != got.Usage.PromptTokens {
		t.Fatalf("the answer is %s", got.RawJSON())
	}
	for i, want := range [][]float32{modeltest.Vector("red apples"), nil, modeltest.Vector(string([]rune(long)[:8000]))} {
		d := got.Data[i]
		if d.Index != int64(i) || len(d.Embedding) != len(want) {
			t.Errorf("input %d: %.200s", i, d.RawJSON())
			continue
		}
		for j := range want {
			if math.Abs(d.Embedding[j]-float64(want[j])) > 1e-6 {
				t.Fatalf("input %d has another vector", i)
			}
		}
		if truncated := d.JSON.ExtraFields["truncated"].Raw(); (truncated == "true") != (i == 2) {
			t.Errorf("input %d: truncated %s", i, truncated)
		}
		if failed := d.JSON.ExtraFields["error"].Raw(); strings.Contains(failed, `"embedding_failed"`) != (i == 1) {
			t.Errorf("input %d: error %s", i, failed)
		}
	}

	// Tokens are counted for the key that asked, within a moment.
	used := float64(got.Usage.TotalTokens)
	apptest.Eventually(t, func() bool {
		return n.Expect(200, "GET", "/api/v1/usage?breakdown=source", nil)["input_tokens"] == used
	})
	by := n.Expect(200, "GET", "/api/v1/usage?breakdown=source", nil)["by_source"]
	if rows, _ := by.([]any); len(rows) != 1 || rows[0].(object)["source"] != "embeddings" {
		t.Errorf("by source: %v", by)
	}

	_, err = c.Embeddings.New(t.Context(), embedTexts("too much"))
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 503 || e.Code != "embedding_failed" {
		t.Errorf("the error is %v", err)
	}
	_, err = c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokens: []int64{1, 2}}})
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 422 || e.Param != "input[0]" {
		t.Errorf("the error is %v", err)
	}
}

// Without an embedding model the request is refused, with a status that clients
// do not retry.
func TestSDKEmbeddingsOff(t *testing.T) {
	t.Parallel()
	n := apptest.Start(t, modeltest.New(t), func(c *config.Config) { c.Models.EmbeddingModel = "" })
	tries := 0
	_, err := openAIClient(n, option.WithMaxRetries(2), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		tries++
		return next(r)
	})).Embeddings.New(t.Context(), embedTexts("hello"))
	if e, ok := errors.AsType[*openai.Error](err); !ok || e.StatusCode != 501 || e.Code != "embedding_unavailable" || e.Type != "api_error" || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}
