package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"agentd/internal/agents/modelproxy"
	"agentd/internal/base/fault"
	"agentd/internal/base/schema"
	"agentd/internal/edge/httpapi/httpapitest"
	"agentd/internal/goldentest"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/quota"
)

// embedStub plays an embedding model: the vector of a text is its length and how
// many calls came before.
type embedStub struct {
	refuse func(texts []string) error // nil: none
	give   func(texts []string) model.Embedded
	calls  [][]string

	plan error
	used []quota.Use
}

func (s *embedStub) Model() string { return "sim-embedding" }

func (s *embedStub) Embed(_ context.Context, texts []string) (model.Embedded, error) {
	s.calls = append(s.calls, slices.Clone(texts))
	if s.refuse != nil {
		if err := s.refuse(texts); err != nil {
			return model.Embedded{}, err
		}
	}
	if s.give != nil {
		return s.give(texts), nil
	}
	out := model.Embedded{Model: "as-the-endpoint-says", Tokens: 10 * len(texts)}
	for _, text := range texts {
		out.Vectors = append(out.Vectors, []float32{float32(len(text)), 0.1, -1e-9})
	}
	return out, nil
}

// AllowProxyCall implements quota.Proxy.
func (s *embedStub) AllowProxyCall(context.Context, string, *model.Target) error { return s.plan }

// CountProxyCall implements quota.Proxy.
func (s *embedStub) CountProxyCall(_ string, use quota.Use) { s.used = append(s.used, use) }

// serve runs the route and gives its address.
func (s *embedStub) serve(t *testing.T, e *Embeddings) string {
	t.Helper()
	url, _ := httpapitest.Serve(t, keys, e.Routes())
	return url + "/v1/embeddings"
}

func (s *embedStub) embeddings() *Embeddings {
	return &Embeddings{Model: s, Proxy: &modelproxy.Proxy{Plans: s}, Target: model.Target{Provider: "default", Model: "sim-embedding", Price: &model.Price{Rates: model.Rates{Input: 1}}}}
}

func embed(t *testing.T, url, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, raw
}

func badInput(texts ...string) error {
	return &model.Error{Code: "model_error", Status: 400, Detail: "The endpoint does not take it: " + strings.Join(texts, ",")}
}

// refusing is a model that does not take a call with one of these texts.
func refusing(status int, bad ...string) func([]string) error {
	return func(texts []string) error {
		for _, text := range texts {
			if slices.Contains(bad, text) {
				return &model.Error{Code: "model_error", Status: status, Detail: "It does not take that."}
			}
		}
		return nil
	}
}

// Every exchange is kept as a transcript in testdata/embeddings.
func TestEmbeddingExchanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		header     []string
		embedStub  embedStub
		off        bool
	}{
		{name: "text", body: `{"model":"text-embedding-3-small","input":"hello"}`},
		{name: "texts", body: `{"input":["a","bb\u00e9","ccc"],"encoding_format":"float","dimensions":256,"user":7}`},
		{name: "base64", body: `{"input":["a","bb"],"encoding_format":"base64"}`},
		{name: "nulls", body: `{"input":"a","model":null,"encoding_format":null,"dimensions":null}`},
		{name: "one-bad-text", body: `{"input":["a","bad","c"]}`, embedStub: embedStub{refuse: refusing(400, "bad")}},
		{name: "one-bad-text-base64", body: `{"input":["a","bad","c"],"encoding_format":"base64"}`, embedStub: embedStub{refuse: refusing(500, "bad")}},
		{name: "lengths-differ", body: `{"input":["a","bad"]}`, embedStub: embedStub{give: func(texts []string) model.Embedded {
			v := [][]float32{{1, 2}}
			if texts[0] == "bad" {
				v = [][]float32{{1, 2, 3}}
			}
			return model.Embedded{Vectors: v, Tokens: 1}
		}}},
		{name: "none-succeeded", body: `{"input":["bad"]}`, embedStub: embedStub{refuse: refusing(400, "bad")}},
		{name: "away", body: `{"input":["a","b"]}`, embedStub: embedStub{refuse: func([]string) error {
			return &model.Error{Code: "model_rate_limited", Status: 429, Retryable: true, RetryAfter: 7 * time.Second, Detail: "The endpoint is busy."}
		}}},
		{name: "another-error", body: `{"input":"a"}`, embedStub: embedStub{refuse: func([]string) error { return errors.New("secret") }}},
		{name: "off", body: `{"input":"a"}`, off: true},
		{name: "over-the-plan", body: `{"input":"a"}`, embedStub: embedStub{plan: fault.New(fault.Limited, "quota_exceeded", "No tokens are left.")}},
		{name: "refused-no-input", body: `{"model":"x"}`},
		{name: "refused-null", body: `{"input":null}`},
		{name: "refused-empty-list", body: `{"input":[]}`},
		{name: "refused-empty-texts", body: `{"input":["a","","b",""]}`},
		{name: "refused-tokens", body: `{"input":[1,2,3]}`},
		{name: "refused-lists-of-tokens", body: `{"input":[[1,2],[3]]}`},
		{name: "refused-kinds", body: `{"input":["a",null,{"text":"b"},true]}`},
		{name: "refused-object", body: `{"input":{"text":"a"}}`},
		{name: "refused-fields", body: `{"input":"a","model":5,"encoding_format":"hex","dimensions":"many"}`},
		{name: "refused-too-many", body: `{"input":["a"` + strings.Repeat(`,"a"`, maxInputs) + `]}`},
		{name: "refused-scope", body: `{"input":"a"}`, header: []string{"Authorization", "Bearer " + readKey}},
		{name: "refused-key", body: `{"input":"a"}`, header: []string{"Authorization", "Bearer none"}},
		{name: "refused-tenant", body: `{"input":"a"}`, header: []string{"X-Active-Tenant", "01990000-0000-7000-8000-0000000000fe"}},
		{name: "refused-json", body: `{"input":"a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := tt.embedStub.embeddings()
			if tt.off {
				e.Model = nil
			}
			resp, raw := embed(t, tt.embedStub.serve(t, e), tt.body, tt.header...)
			text := resp.Status + "\n"
			for _, name := range shown {
				if v := resp.Header.Get(name); v != "" {
					text += fmt.Sprintf("%s: %s\n", name, v)
				}
			}
			goldentest.Check(t, "testdata/embeddings/"+tt.name+".txt", []byte(text+"\n"+strings.TrimSuffix(string(raw), "\n")+"\n"))
			if resp.StatusCode == 200 {
				var list EmbeddingList
				if err := json.Unmarshal(raw, &list); err != nil {
					t.Fatal(err)
				}
				if len(tt.embedStub.used) != 1 || tt.embedStub.used[0].InputTokens != int64(list.Usage.TotalTokens) ||
					tt.embedStub.used[0].Source != quota.SourceEmbeddings || tt.embedStub.used[0].CostNano != tt.embedStub.used[0].InputTokens*1000 {
					t.Errorf("counted as %+v", tt.embedStub.used)
				}
			} else if len(tt.embedStub.used) > 0 {
				t.Errorf("a refusal counted as %+v", tt.embedStub.used)
			}
		})
	}
}

// Long texts are cut at a character, and say so.
func TestEmbeddingsAreCut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want int // characters
	}{
		"short":  {"é", 1},
		"limit":  {strings.Repeat("é", maxInputChars), maxInputChars},
		"longer": {strings.Repeat("é", maxInputChars+1), maxInputChars},
		"ascii":  {strings.Repeat("a", 100_000), maxInputChars},
	} {
		texts := []string{tt.text}
		job := newEmbedJob(&embedStub{}, texts)
		got, truncated := texts[0], job.outcomes[0].truncated
		if n := len([]rune(got)); n != tt.want || truncated != (tt.text != got) || !strings.HasPrefix(tt.text, got) {
			t.Errorf("%s: %d characters, %t", name, n, truncated)
		}
	}
	s := &embedStub{}
	j := newEmbedJob(s, []string{strings.Repeat("a", 8001), "b"})
	if err := j.run(t.Context()); err != nil || !j.outcomes[0].truncated || j.outcomes[1].truncated || len(s.calls[0][0]) != 8000 {
		t.Errorf("%+v: %v", j.outcomes, err)
	}
	if got := j.outcomes[0].tokens + j.outcomes[1].tokens; got != 20 || j.outcomes[0].tokens < 19 {
		t.Errorf("the shares are %d and %d", j.outcomes[0].tokens, j.outcomes[1].tokens)
	}
}

// Texts that the model does not take cost the others nothing, and only so many
// calls.
func TestEmbeddingsGoRoundBadTexts(t *testing.T) {
	t.Parallel()
	texts := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("text ", i))
		}
		return out
	}
	for name, tt := range map[string]struct {
		n        int
		refuse   func([]string) error
		done     int
		mostCall int
	}{
		"all-good":  {n: 200, done: 200, mostCall: 3},
		"first-bad": {n: 96, refuse: refusing(400, "text 0"), done: 95, mostCall: 16},
		"some-bad":  {n: 300, refuse: refusing(422, "text 5", "text 6", "text 200", "text 299"), done: 296, mostCall: 60},
		"500":       {n: 96, refuse: refusing(500, "text 40"), done: 95, mostCall: 16},
		"all-bad":   {n: 2048, refuse: func(texts []string) error { return badInput(texts...) }, mostCall: maxFailuresInRow},
		"half-bad": {n: 2048, done: -1, mostCall: 3 * maxFailures, refuse: func(texts []string) error {
			if i := slices.IndexFunc(texts, func(s string) bool { return strings.HasSuffix(s, "3") }); i >= 0 {
				return badInput(texts[i])
			}
			return nil
		}},
		"down":   {n: 500, mostCall: 1, refuse: func([]string) error { return &model.Error{Code: "model_error", Status: 503, Retryable: true} }},
		"no-key": {n: 500, mostCall: 1, refuse: func([]string) error { return &model.Error{Code: "provider_auth_failed", Status: 401} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &embedStub{refuse: tt.refuse}
			j := newEmbedJob(s, texts(tt.n))
			err := j.run(t.Context())
			if (tt.done == 0) != fault.Is(err, fault.Unavailable) || tt.done > 0 && j.done != tt.done || tt.done < 0 && j.done == 0 {
				t.Errorf("%d vectors: %v", j.done, err)
			}
			if len(s.calls) > tt.mostCall {
				t.Errorf("%d calls", len(s.calls))
			}
			for i, o := range j.outcomes {
				if (o.vector == nil) == (o.failure == "") {
					t.Fatalf("text %d: %+v", i, o)
				}
			}
		})
	}
}

// A client that goes away is no failure of a text.
func TestEmbeddingsEndWithTheirClient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &embedStub{refuse: func([]string) error { cancel(); return context.Canceled }}
	if err := newEmbedJob(s, []string{"a", "b"}).run(ctx); !errors.Is(err, context.Canceled) || len(s.calls) != 1 {
		t.Errorf("%v after %d calls", err, len(s.calls))
	}
}

// What is rendered is JSON, and says the numbers that it was given.
func TestVectorsAreRendered(t *testing.T) {
	t.Parallel()
	want := []float32{0, float32(math.Copysign(0, -1)), 1, -1.5, 0.1, 1e-9, 3.4e38, math.SmallestNonzeroFloat32, 123456789}
	for n := range want {
		v := want[:n]
		var got []float32
		if err := json.Unmarshal(appendFloats(nil, v), &got); err != nil || !slices.Equal(v, got) {
			t.Errorf("%v became %v: %v", v, got, err)
		}
		var text string
		if err := json.Unmarshal(appendBase64(nil, v), &text); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != 4*n {
			t.Fatalf("%q: %v", text, err)
		}
		for i := range v {
			if f := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); f != v[i] {
				t.Errorf("%v became %v", v[i], f)
			}
		}
	}
}

// A long answer is sent in parts.
func TestManyEmbeddings(t *testing.T) {
	t.Parallel()
	s := &embedStub{give: func(texts []string) model.Embedded {
		out := model.Embedded{Tokens: len(texts)}
		for range texts {
			out.Vectors = append(out.Vectors, make([]float32, 1000))
		}
		return out
	}}
	resp, raw := embed(t, s.serve(t, s.embeddings()), `{"input":["a"`+strings.Repeat(`,"a"`, maxInputs-1)+`]}`)
	var list EmbeddingList
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Data) != maxInputs || list.Data[maxInputs-1].Index != maxInputs-1 {
		t.Errorf("%s: %d vectors in %d bytes: %v", resp.Status, len(list.Data), len(raw), err)
	}
}

// Whatever bytes come, they are refused as a caller's fault or are texts.
func FuzzEmbeddingRequest(f *testing.F) {
	for _, body := range []string{`{"input":"a"}`, `{"input":["a","b"],"encoding_format":"base64"}`, `{"input":[1]}`, `{"input":[[1]]}`, `{"input":[]}`, `{}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := schema.Decode[EmbeddingRequest](body)
		var texts []string
		if err == nil {
			texts, err = req.texts()
		}
		if err != nil {
			if !fault.Is(err, fault.Malformed) && !fault.Is(err, fault.Invalid) {
				t.Fatalf("refused as %v", err)
			}
			return
		}
		if len(texts) == 0 || len(texts) > maxInputs || slices.Contains(texts, "") {
			t.Fatalf("%d texts of %s", len(texts), body)
		}
	})
}

func BenchmarkVectorFloats(b *testing.B) { benchmarkVector(b, appendFloats) }

func BenchmarkVectorBase64(b *testing.B) { benchmarkVector(b, appendBase64) }

func benchmarkVector(b *testing.B, render func([]byte, []float32) []byte) {
	v := make([]float32, 1536)
	for i := range v {
		v[i] = float32(math.Sin(float64(i)))
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = render(buf[:0], v)
	}
}
