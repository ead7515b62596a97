package app

import (
	"strings"
	"time"

	"agentd/internal/content/memory"
	"agentd/internal/execution/run"
	"agentd/internal/insight/evaluation"
	"agentd/internal/operation/opconfig"
	"agentd/internal/wire/mcpclient"
)

// machinery is what the operator's settings about how the service works are at first.
func (p *platform) machinery() opconfig.Machinery {
	proxies := []string{}
	for one := range strings.SplitSeq(p.cfg.Server.TrustedProxies, ",") {
		if one = strings.TrimSpace(one); one != "" {
			proxies = append(proxies, one)
		}
	}
	return opconfig.Machinery{
		Workers:    opconfig.WorkerPool{Runs: maxRuns},
		Adapters:   opconfig.LLMAdapters{Failures: 5, PauseMS: 5000, MaxPauseMS: 60_000},
		MCP:        opconfig.MCP{IdleSeconds: 300, Processes: 32, PerTenant: 8},
		Delivery:   opconfig.WebhookDelivery{TimeoutMS: 10_000},
		Evaluation: opconfig.Evaluation{Concurrency: 16, MaxConcurrency: 64, CaseTimeoutMS: 600_000},
		Buffers:    opconfig.Backpressure{Events: 768, Bytes: 2 << 20},
		Server:     opconfig.Server{Proxies: proxies, MaxBody: 10 << 20},
		Buffer:     func(b opconfig.Backpressure) { p.hub.LimitQueues(int(b.Events), int(b.Bytes)) },
		Mark: func(percent float64) {
			if p.models != nil {
				p.models.Mark(percent)
			}
		},
	}
}

// clientProviders returns the operator's providers of models, as clients see them.
func (p *platform) clientProviders() map[string]opconfig.ClientProvider {
	all := map[string]opconfig.ClientProvider{}
	for _, one := range p.models.Providers() {
		target, _ := p.models.Endpoint(one.Name)
		all[one.Name] = opconfig.ClientProvider{Name: one.Title, HasKey: one.HasKey || !target.NeedsKey}
	}
	return all
}

func (p *platform) mcpBounds() mcpclient.Bounds {
	m := p.config.MCP()
	return mcpclient.Bounds{
		IdleFor: time.Duration(m.IdleSeconds) * time.Second, MaxProcesses: int(m.Processes), PerTenant: int(m.PerTenant),
	}
}

func (p *platform) memoryDefaults() memory.Defaults {
	m := p.config.AgentMemory()
	return memory.Defaults{Entries: int(m.Entries), Most: int(m.MaxEntries), Recall: int(m.Recalled)}
}

// attachBounds returns what a message carries of its files to the model.
func (p *platform) attachBounds() run.AttachBounds {
	m := p.config.Multimodal()
	return run.AttachBounds{Text: m.Text, Media: m.Media, Message: m.Message}
}

func (p *platform) evaluationDefaults() evaluation.Defaults {
	e := p.config.Evaluation()
	return evaluation.Defaults{
		Concurrency: int(e.Concurrency), MaxConcurrency: int(e.MaxConcurrency),
		CaseTimeout: time.Duration(e.CaseTimeoutMS) * time.Millisecond,
	}
}
