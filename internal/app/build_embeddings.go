package app

import (
	"agentd/internal/edge/openai"
	"agentd/internal/kernel/model"
)

// embeddings serves the operator's embedding model.
func (a *App) embeddings() *openai.Embeddings {
	c := a.cfg.Models
	e := &openai.Embeddings{Model: a.embedder, Proxy: a.gateway, Target: model.Target{Provider: model.DefaultProvider, Model: c.EmbeddingModel}}
	if c.EmbeddingBaseURL != "" {
		e.Target.Provider = "embeddings" // an endpoint beside the providers
	} else if listed, err := a.models.Lookup(model.DefaultProvider + "/" + c.EmbeddingModel); err == nil {
		e.Target.Price = listed.Price
	}
	return e
}
