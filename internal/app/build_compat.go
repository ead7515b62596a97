package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"agentd/internal/agents/agent"
	"agentd/internal/edge/anthropic"
	"agentd/internal/edge/httpapi"
	"agentd/internal/edge/openai"
	"agentd/internal/edge/runstream"
	"agentd/internal/execution/run"
	"agentd/internal/kernel/event"
	"agentd/internal/kernel/model"
)

// compatible gives the routes that answer the API shapes of others.
func (a *App) compatible(runs *run.Service, agents *agent.Agents, source run.AgentSource, log event.Log) []httpapi.Raw {
	runner := &runstream.Runner{Runs: runs, Agents: source, Log: log, Hub: a.hub, Complete: true}
	chat := &openai.Chat{Runner: runner, Models: catalogue{agents}}
	proxy := &openai.ChatProxy{Proxy: a.gateway}
	messages := &anthropic.Messages{Proxy: a.gateway, Reserved: a.messagesModel()}
	return slices.Concat(
		chat.Routes(), proxy.Routes(), messages.Routes(), a.embeddings().Routes(), a.audio(),
		(&openai.Responses{Runner: runner, Chains: a.responses()}).Routes(),
	)
}

// messagesModel is what serves the names with the reserved prefix of the messages
// route (decisions.md D10).
func (a *App) messagesModel() string {
	return cmp.Or(a.cfg.Models.MessagesModel, a.models.Default(), model.EchoRef)
}

// checkProxyModels fails the start where a model that the operator names for the
// proxy is none.
func (a *App) checkProxyModels() error {
	for _, named := range []struct{ setting, ref string }{
		{"AGENTD_MESSAGES_MODEL", a.messagesModel()}, {"AGENTD_FALLBACK_MODEL", a.cfg.Models.Fallback},
	} {
		if named.ref == "" {
			continue
		}
		_, err := a.models.Lookup(named.ref)
		if e, ok := errors.AsType[*model.Error](err); ok {
			return fmt.Errorf("%s: %s", named.setting, e.Detail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
