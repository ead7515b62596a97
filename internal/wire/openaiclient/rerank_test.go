package openaiclient

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/internal/base/secret"
	"agentd/internal/kernel/model"
)

// An endpoint of any of the usual forms is asked; one that answers something else is an
// error, and the search keeps its order.
func TestRerank(t *testing.T) {
	t.Parallel()
	var answer string
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		body, _ := io.ReadAll(r.Body)
		tei := strings.HasPrefix(answer, "[")
		if r.URL.Path != "/v1/rerank" || r.Header.Get("Authorization") != "Bearer sk-rank" || tei == strings.Contains(string(body), `"documents"`) {
			http.Error(w, `{"error":"unknown field"}`, http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	b := newBench(t, Config{})
	r := b.Reranker(model.Target{Provider: "rerank", Model: "m", BaseURL: server.URL + "/v1", APIKey: secret.New("sk-rank")})
	for _, answer = range []string{
		`{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":-3}]}`, `{"data":[{"index":0,"score":-3},{"index":1,"score":0.9}]}`,
		`[{"index":1,"score":0.9},{"index":0,"score":-3}]`,
	} {
		got, err := r.Rerank(t.Context(), "q", []string{"a", "b"})
		if diff := cmp.Diff([]float64{-3, 0.9}, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", answer, err, diff)
		}
	}
	if before := asked; true { // which form the endpoint has is remembered
		if _, err := r.Rerank(t.Context(), "q", []string{"a", "b"}); err != nil || asked != before+1 {
			t.Errorf("%v after %d calls", err, asked-before)
		}
	}
	for _, answer = range []string{
		``, `{}`, `[]`, `"x"`, `[{"index":0,"score":1}]`, `[{"index":0,"score":1},{"index":0,"score":1}]`, `[{"index":0,"score":1},{"index":2,"score":1}]`,
		`[{"index":0},{"index":1,"score":1}]`, `[{"score":0},{"index":1,"score":1}]`, `[{"index":0,"score":1e999},{"index":1,"score":1}]`,
		`[` + strings.Repeat(" ", rerankAnswer) + `]`,
	} {
		if got, err := r.Rerank(t.Context(), "q", []string{"a", "b"}); err == nil {
			t.Errorf("%.50s: %v", answer, got)
		}
	}
}
