package openaiclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

// Limits of one request to an embeddings endpoint, below those of common ones.
const (
	embedTexts   = 96
	embedChars   = 256_000
	embedTimeout = time.Minute
)

// Embedder implements model.Embedder on an OpenAI-compatible endpoint. Safe
// for concurrent use.
type Embedder struct {
	client *Client
	target model.Target
}

var _ model.Embedder = (*Embedder)(nil)

// Embedder returns the embedding model of a target.
func (c *Client) Embedder(target model.Target) *Embedder { return &Embedder{c, target} }

// Model implements model.Embedder.
func (e *Embedder) Model() string { return e.target.Model }

// Embed implements model.Embedder. The first batch that fails ends the call.
func (e *Embedder) Embed(ctx context.Context, texts []string) (model.Embedded, error) {
	all := model.Embedded{Model: e.target.Model, Vectors: make([][]float32, 0, len(texts))}
	for len(texts) > 0 {
		n, chars := 0, 0
		for n < len(texts) && n < embedTexts {
			if chars += utf8.RuneCountInString(texts[n]); chars > embedChars && n > 0 {
				break
			}
			n++
		}
		part, err := e.embedBatch(ctx, texts[:n])
		if err != nil {
			return model.Embedded{}, err
		}
		if len(all.Vectors) > 0 && len(part.Vectors[0]) != len(all.Vectors[0]) {
			return model.Embedded{}, e.garbage(errDimensions)
		}
		all.Vectors = append(all.Vectors, part.Vectors...)
		all.Model, all.Tokens = part.Model, all.Tokens+part.Tokens
		texts = texts[n:]
	}
	return all, nil
}

// embedBatch embeds a batch, with retries.
func (e *Embedder) embedBatch(ctx context.Context, texts []string) (model.Embedded, error) {
	body, err := json.Marshal(map[string]any{"model": e.target.Model, "input": texts}, json.Deterministic(true),
		jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return model.Embedded{}, modelcall.AsError(err)
	}
	for attempt := 1; ; attempt++ {
		out, err := e.attempt(ctx, body, texts)
		if err == nil {
			return out, nil
		}
		if ctx.Err() != nil {
			return model.Embedded{}, ctx.Err()
		}
		if err := e.client.WaitRetry(ctx, attempt, modelcall.AsError(err), 0); err != nil {
			return model.Embedded{}, err
		}
	}
}

func (e *Embedder) attempt(ctx context.Context, body []byte, texts []string) (model.Embedded, error) {
	q := modelcall.Call{Path: "/embeddings", Body: body, Timeouts: modelcall.Within(embedTimeout)}
	raw, err := e.client.Fetch(ctx, &e.target, q, e.client.MaxAnswer)
	if err != nil {
		return model.Embedded{}, err
	}
	return e.read(raw, texts)
}

var (
	errDimensions = errors.New("vectors of different lengths")
	errVector     = errors.New("an invalid vector")
	errMissing    = errors.New("not one vector for each text")
)

// garbage returns the error of an invalid answer, which is not retried.
func (e *Embedder) garbage(cause error) *model.Error {
	return &model.Error{
		Code: modelcall.CodeModel, Status: http.StatusOK, Cause: cause,
		Detail: fmt.Sprintf("The endpoint of the embedding model %q did not send a list of embeddings.", e.target.Model),
	}
}

// read decodes an answer, and checks that it has a usable vector for each text.
func (e *Embedder) read(raw []byte, texts []string) (model.Embedded, error) {
	var answer struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Model text           `json:"model"`
		Error jsontext.Value `json:"error"`
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
			TotalTokens  int `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(raw, &answer, modelcall.Lenient); err != nil {
		return model.Embedded{}, e.garbage(err)
	}
	if kind := answer.Error.Kind(); kind == '{' || kind == '"' {
		return model.Embedded{}, modelcall.Classify(http.StatusOK, modelcall.ParseError(raw), &model.Request{Target: e.target})
	}
	if len(answer.Data) != len(texts) {
		return model.Embedded{}, e.garbage(errMissing)
	}
	out := model.Embedded{Vectors: make([][]float32, len(texts)), Model: string(answer.Model),
		Tokens: max(answer.Usage.PromptTokens, answer.Usage.TotalTokens, 0)}
	for i, d := range answer.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		switch {
		case at < 0 || at >= len(texts) || out.Vectors[at] != nil:
			return model.Embedded{}, e.garbage(errMissing)
		case !usable(d.Embedding):
			return model.Embedded{}, e.garbage(errVector)
		case len(d.Embedding) != len(answer.Data[0].Embedding):
			return model.Embedded{}, e.garbage(errDimensions)
		}
		out.Vectors[at] = d.Embedding
	}
	if out.Model == "" {
		out.Model = e.target.Model
	}
	if out.Tokens == 0 {
		for _, t := range texts {
			out.Tokens += model.EstimateTokens(t)
		}
	}
	return out, nil
}

// maxDimensions is more than any model uses.
const maxDimensions = 16_384

func usable(v []float32) bool {
	if len(v) == 0 || len(v) > maxDimensions {
		return false
	}
	for _, f := range v {
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return false
		}
	}
	return true
}
