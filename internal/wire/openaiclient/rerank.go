package openaiclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/internal/kernel/model"
	"agentd/internal/wire/modelcall"
)

const (
	rerankTimeout = 5 * time.Second // a search waits for it
	rerankAnswer  = 1 << 20         // bytes
)

// Reranker asks a model of relevance how well texts answer a question, at an endpoint of
// the form that Jina, Cohere and vLLM have, or that of TEI. Safe for concurrent use.
type Reranker struct {
	client *Client
	target model.Target
	texts  atomic.Bool // the endpoint calls the documents texts
}

// Reranker returns the model of relevance of a target.
func (c *Client) Reranker(target model.Target) *Reranker {
	return &Reranker{client: c, target: target}
}

// Rerank returns how well each text answers a question; the more, the better. It is not
// tried again where it fails, because a search waits for it.
func (r *Reranker) Rerank(ctx context.Context, question string, texts []string) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, rerankTimeout)
	defer cancel()
	other := r.texts.Load()
	scores, err := r.attempt(ctx, question, texts, other)
	failure, ok := errors.AsType[*model.Error](err)
	if !ok || failure.Status != http.StatusBadRequest && failure.Status != http.StatusUnprocessableEntity {
		return scores, err
	}
	again, second := r.attempt(ctx, question, texts, !other)
	if second != nil {
		return nil, err
	}
	r.texts.Store(!other)
	return again, nil
}

func (r *Reranker) attempt(ctx context.Context, question string, texts []string, asTexts bool) ([]float64, error) {
	members := map[string]any{"query": question}
	if asTexts {
		members["texts"] = texts
	} else {
		members["documents"] = texts
	}
	if r.target.Model != "" {
		members["model"] = r.target.Model
	}
	body, err := json.Marshal(members, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, modelcall.AsError(err)
	}
	call := modelcall.Call{Path: "/rerank", Body: body, Timeouts: modelcall.Within(rerankTimeout)}
	raw, err := r.client.Fetch(ctx, &r.target, call, rerankAnswer)
	if err != nil {
		return nil, err
	}
	scores, err := readRanks(raw, len(texts))
	if err != nil {
		return nil, &model.Error{
			Code: modelcall.CodeModel, Status: http.StatusOK, Cause: err,
			Detail: fmt.Sprintf("The endpoint of the rerank model %q did not send a list of scores.", r.target.Model),
		}
	}
	return scores, nil
}

var errRanks = errors.New("not one score for each text")

// readRanks decodes an answer about n texts, and checks that each has one score.
func readRanks(raw []byte, n int) ([]float64, error) {
	type rank struct {
		Index     *int     `json:"index"`
		Relevance *float64 `json:"relevance_score"`
		Score     *float64 `json:"score"`
	}
	var answer struct {
		Results []rank `json:"results"`
		Data    []rank `json:"data"`
	}
	var into any = &answer
	if jsontext.Value(raw).Kind() == '[' {
		into = &answer.Results
	}
	if err := json.Unmarshal(raw, into, modelcall.Lenient); err != nil {
		return nil, err
	}
	ranks := append(answer.Results, answer.Data...)
	if len(ranks) != n {
		return nil, errRanks
	}
	scores, seen := make([]float64, n), make([]bool, n)
	for _, r := range ranks {
		score := r.Relevance
		if score == nil {
			score = r.Score
		}
		if r.Index == nil || *r.Index < 0 || *r.Index >= n || seen[*r.Index] || score == nil || math.IsNaN(*score) || math.IsInf(*score, 0) {
			return nil, errRanks
		}
		scores[*r.Index], seen[*r.Index] = *score, true
	}
	return scores, nil
}
