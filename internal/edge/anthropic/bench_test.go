package anthropic

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"agentd/internal/base/schema"
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
)

// Decoding a request of the usual kind.
func BenchmarkDecode(b *testing.B) {
	turns := strings.Repeat(`{"role":"user","content":[{"type":"text","text":"What is the weather in Bern today, and what will it be tomorrow?"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"weather","input":{"city":"Bern"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"sun"}]},`, 20)
	for name, body := range map[string]string{
		"small":  hello,
		"turns":  `{"model":"claude-x","max_tokens":64,"messages":[` + turns + `{"role":"user","content":"x"}]}`,
		"images": `{"model":"claude-x","max_tokens":64,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("iVBO", 250_000) + `"}}]}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				req, err := schema.Decode[Request](data)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := req.ToRequest(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Rendering a streamed answer of 256 tokens, and one of a megabyte in one piece.
func BenchmarkEncode(b *testing.B) {
	b.Run("stream", func(b *testing.B) {
		var f frames
		b.ReportAllocs()
		for b.Loop() {
			f = frames{buf: f.buf[:0]}
			f.start("msg_1", "claude-x", 10)
			for range 256 {
				f.addDelta(model.Delta{Text: "token "})
			}
			f.end(&model.Response{Text: "x"}, "")
		}
	})
	b.Run("megabyte", func(b *testing.B) {
		resp := &model.Response{Text: strings.Repeat("token \n", 150_000)}
		b.SetBytes(int64(len(resp.Text)))
		b.ReportAllocs()
		for b.Loop() {
			appendAnswer(make([]byte, 0, answerSize(resp)), "msg_1", "claude-x", resp, false, "")
		}
	})
}

// A call through the route, beside one through Go's reverse proxy.
func BenchmarkMessages(b *testing.B) {
	sim := modeltest.New(b, modeltest.Unrecorded(), modeltest.Default(modeltest.Answer{Text: modeltest.Tokens(64)}))
	s := stageWith(b, sim)
	target, err := url.Parse(sim.URL)
	if err != nil {
		b.Fatal(err)
	}
	target.Path = ""
	transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
	defer transport.CloseIdleConnections()
	reverse := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: transport, FlushInterval: -1})
	defer reverse.Close()
	for _, c := range []struct{ name, url, body string }{
		{"proxy/plain", reverse.URL + "/v1/chat/completions", `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hello?"}]}`},
		{"proxy/stream", reverse.URL + "/v1/chat/completions", `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hello?"}],"stream":true}`},
		{"messages/plain", s.url + "/v1/messages", hello},
		{"messages/stream", s.url + "/v1/messages", helloStream},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, err := http.NewRequest("POST", c.url, strings.NewReader(c.body))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header["X-Api-Key"], req.Header["Content-Type"] = []string{goodKey}, []string{"application/json"}
					resp, err := client.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						b.Errorf("status %d", resp.StatusCode)
					}
				}
			})
		})
	}
}
