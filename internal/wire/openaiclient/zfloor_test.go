package openaiclient

import (
	"agentd/internal/kernel/model"
	"agentd/internal/kernel/model/modeltest"
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

func cpu() int64 {
	var r syscall.Rusage
	syscall.Getrusage(0, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}
func BenchmarkA(b *testing.B) {
	sim := modeltest.New(b, modeltest.Unrecorded())
	tr := NewTransport()
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	client := New(Config{Operator: tr})
	req := model.Request{Target: model.Target{Provider: "default", Model: "sim-model", BaseURL: sim.URL}, Messages: []model.Message{{Role: model.User, Text: "Hello!"}}}
	run := func(name string, f func(context.Context)) {
		b.Run(name, func(b *testing.B) {
			c0 := cpu()
			for range b.N {
				f(b.Context())
			}
			b.ReportMetric(float64(cpu()-c0)/float64(b.N), "cpu-ns/op")
		})
	}
	for range 3 {
		run("floor", func(ctx context.Context) {
			r, err := c.Post(sim.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[]}`))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
		run("floorctx", func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			q, _ := http.NewRequestWithContext(ctx, "POST", sim.URL+"/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
			r, err := c.Do(q)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
		run("plain", func(ctx context.Context) { client.Generate(ctx, req, nil) })
		run("floorstream", func(ctx context.Context) {
			r, err := c.Post(sim.URL+"/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[],"stream":true}`))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, r.Body)
			r.Body.Close()
		})
		run("stream", func(ctx context.Context) { client.Generate(ctx, req, func(model.Delta) {}) })
	}
}
