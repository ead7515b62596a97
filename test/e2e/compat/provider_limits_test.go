package compat

import (
	"strconv"
	"testing"
	"time"

	"agentd/internal/app/apptest"
	"agentd/internal/base/config"
	"agentd/internal/kernel/model/modeltest"
)

// While the provider's limit is reached, runs wait and say so, and the model proxy
// answers 429 with Retry-After soon (rules D22-limits, D22-limits-proxy).
func TestProviderLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	sim := modeltest.New(t, modeltest.Respond(func(req modeltest.Request) modeltest.Answer {
		if req.Chat().Last("user") == "hold" {
			<-release
		}
		return modeltest.Answer{Text: "Done."}
	}))
	n := apptest.Start(t, sim, func(c *config.Config) { c.Models.MaxConcurrency = 1 })
	agent := n.CreateAgent(nil)
	first := n.StartRun(agent, "hold", nil)
	apptest.Eventually(t, func() bool { return sim.Calls() == 1 })
	second := n.StartRun(agent, "hello", nil)
	apptest.Eventually(t, func() bool {
		return n.Expect(200, "GET", "/api/v1/runs/"+second, nil)["waiting_for"] == "provider_limit"
	})
	began := time.Now()
	r := n.Do("POST", proxyPath, object{"model": "sim-model", "messages": []object{{"role": "user", "content": "hello"}}})
	after, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if r.StatusCode != 429 || err != nil || after < 1 || time.Since(began) > 10*time.Second {
		t.Errorf("the proxy answers %d, Retry-After %q, after %v", r.StatusCode, r.Header.Get("Retry-After"), time.Since(began))
	}
	close(release)
	for _, id := range []string{first, second} {
		if r := n.WaitRun(id); r["status"] != "completed" || r["waiting_for"] != nil {
			t.Errorf("a run is %v: %v", r["status"], r["error"])
		}
	}
	n.Expect(200, "POST", proxyPath, object{"model": "sim-model", "messages": []object{{"role": "user", "content": "hello"}}})
}
