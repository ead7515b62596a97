package app

import (
	"context"
	"slices"
	"strings"
	"sync"

	"agentd/internal/agents/provider"
	"agentd/internal/kernel/model"
)

// maxProbes bounds how many endpoints are asked at once.
const maxProbes = 8

// probe asks each of the operator's endpoints for its models and logs a line for
// each, until ctx ends. The program serves requests meanwhile.
func (m *models) probe(ctx context.Context, p *platform) {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for _, served := range m.catalogue.Providers() {
		to, _ := m.catalogue.Endpoint(served.Name)
		all.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return
			}
			setting, key := "AGENTD_PROVIDERS", "its api_key in AGENTD_PROVIDERS"
			if served.Name == model.DefaultProvider && m.cfg.BaseURL != "" {
				setting, key = "AGENTD_MODEL_BASE_URL", "AGENTD_MODEL_API_KEY"
			}
			found := provider.Probe(ctx, m.wire, to, m.called(served.Name), setting, key)
			switch {
			case ctx.Err() != nil:
			case found.OK:
				p.log.Info("model endpoint: "+found.Text, "provider", served.Name)
			default:
				p.log.Warn("model endpoint: "+found.Text, "provider", served.Name)
			}
		})
	}
	all.Wait()
}

// called returns the models of a provider that settings name.
func (m *models) called(provider string) []string {
	var names []string
	for _, ref := range []string{m.catalogue.Default(), m.cfg.Fallback, m.cfg.MessagesModel} {
		to, err := m.catalogue.Lookup(ref)
		if ref == "" || err != nil || to.Provider != provider || slices.Contains(names, to.Model) {
			continue
		}
		names = append(names, to.Model)
	}
	if name := m.cfg.EmbeddingModel; name != "" && m.cfg.EmbeddingBaseURL == "" && provider == model.DefaultProvider &&
		!slices.Contains(names, strings.TrimPrefix(name, model.DefaultProvider+"/")) {
		names = append(names, name)
	}
	return names
}
